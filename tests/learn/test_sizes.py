from __future__ import annotations

import numpy as np
import pytest

from keyveil.core.coins import Coins
from keyveil.core.errors import MechanismError
from keyveil.core.schema import Schema
from keyveil.lab import datasets
from keyveil.lab.coins import SeededCoins
from keyveil.learn.sizes import SizeLaw, SizeSurvey


def test_a_pilot_group_finds_the_law_of_sizes() -> None:
    people = datasets.independent(200_000, np.full(30, 0.1), np.zeros(30), seed=1)
    records, survey = people.records(Schema(keys=30)), SizeSurvey(1, most=12)
    law = survey.law(survey.mechanism.tally(survey.mechanism.perturb_many(survey.answers(records), SeededCoins(2))))
    true = np.bincount(np.minimum(records.sizes, 12), minlength=13) / records.n
    assert np.abs(np.array(law.shares) - true).max() < 0.02  # 6 standard errors
    assert law.mean == pytest.approx(records.sizes.mean(), abs=0.15)
    assert abs(law.quantile(0.9) - np.quantile(records.sizes, 0.9)) <= 1


def test_a_device_answers_the_survey() -> None:
    survey = SizeSurvey("0.5", most=3)
    assert [survey.answer(record) for record in ({}, {"a": 1}, dict.fromkeys("abcdef", 0))] == ["0", "1", "3"]
    report = survey.mechanism.perturb(survey.answer({"a": 1}), Coins())
    assert survey.mechanism.tally([report]).reports == 1


def test_few_sizes_are_asked_by_grr_and_many_by_oue() -> None:
    assert SizeSurvey(1, most=5).mechanism.name == "grr"
    assert SizeSurvey(1, most=50).mechanism.name == "oue"


def test_quantiles_of_sizes() -> None:
    law = SizeLaw((0.5, 0.3, 0.2))
    assert [law.quantile(share) for share in (0.4, 0.8, 0.9, 1.0)] == [1, 1, 2, 2]
    for share in (0, 1.5):
        with pytest.raises(MechanismError):
            law.quantile(share)
    with pytest.raises(MechanismError):
        SizeSurvey(1, most=0)
