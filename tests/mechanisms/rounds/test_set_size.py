"""How many pairs people hold, told by a pilot group."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from keyveil.core.coins import Coins
from keyveil.core.errors import ProtocolError
from keyveil.core.schema import Schema
from keyveil.lab import datasets
from keyveil.lab.coins import SeededCoins
from keyveil.mechanisms.rounds.set_size import SizeQuestion

THIRTY, ONE = Schema(keys=30), Fraction(1)


def test_a_pilot_group_finds_the_law_of_sizes() -> None:
    people = datasets.independent(200_000, np.full(30, 0.1), np.zeros(30), seed=1)
    records, question = people.records(THIRTY), SizeQuestion(THIRTY, ONE, most=12)
    law = question.law(question.tally(question.perturb_many(records, SeededCoins(2))))
    true = np.bincount(np.minimum(records.sizes, 12), minlength=13) / records.n
    found = np.zeros(13)
    found[law.sizes] = law.of_people
    assert np.abs(found - true).max() < 0.02  # 6 standard errors
    assert law.mean == pytest.approx(records.sizes.mean(), abs=0.15)
    assert abs(law.quantile(0.9) - np.quantile(records.sizes, 0.9)) <= 1


def test_a_device_answers_with_the_number_of_its_pairs() -> None:
    question = SizeQuestion(Schema(keys=6), Fraction(32), most=3)  # at this ε the answer is as good as certain
    records = [{}, {"0": 1}, dict.fromkeys("012345", 0)]
    assert [question.perturb(record, Coins()).payload for record in records] == [0, 1, 3]


def test_few_sizes_are_told_by_grr_and_many_by_oue() -> None:
    assert SizeQuestion(Schema(keys=50), ONE, most=5).oracle.name == "grr"
    assert SizeQuestion(Schema(keys=50), ONE, most=50).oracle.name == "oue"


def test_nobody_has_no_law() -> None:
    question = SizeQuestion(THIRTY, ONE, most=5)
    with pytest.raises(ProtocolError) as refused:
        question.law(question.tally([]))
    assert refused.value.code == "protocol/few"
    with pytest.raises(ProtocolError):
        SizeQuestion(THIRTY, ONE, most=0)
