"""Reports counted one by one, in bulk: what ``fold`` gives for each of them."""

from __future__ import annotations

import numpy as np
import pytest

from keyveil.lab.coins import SeededCoins
from keyveil.mechanisms.counting import CountsOfEach, counts_of_each
from keyveil.mechanisms.registry import forms
from keyveil.testing.people import people

FORMS = dict(forms())


@pytest.mark.parametrize("title", FORMS)
def test_every_report_adds_what_folding_it_alone_gives(title: str) -> None:
    mechanism = FORMS[title]
    reports = mechanism.perturb_many(people(mechanism, 24, 5).records(mechanism.schema), SeededCoins(3))
    words = mechanism.read_words(reports.publics)
    each = counts_of_each(mechanism, reports.payloads, words)
    alone = [mechanism.fold(reports.payloads[at : at + 1], words[at : at + 1]).reshape(-1) for at in range(24)]
    assert np.array_equal(each, alone)


def test_mechanisms_whose_single_reports_take_long_to_fold_count_them_in_bulk() -> None:
    quick = {title for title, mechanism in FORMS.items() if isinstance(mechanism, CountsOfEach)}
    assert {"olh", "shist", "wheel", "collision", "rappor", "rappor-meanest", "shist-harmony", "split"} <= quick
