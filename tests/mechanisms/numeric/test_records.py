"""What numeric mechanisms take, what they refuse, and what they say about keys that nobody was asked about."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from keyveil.core.errors import KeyveilError, MechanismError, RecordError
from keyveil.core.records import Records
from keyveil.core.schema import GRID, Schema
from keyveil.core.tally import Tally
from keyveil.lab.coins import SeededCoins
from keyveil.mechanisms.registry import create
from tests.mechanisms.numeric.crowd import NAMES, everyone, numeric


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("record", [0.5, 1, np.float32(0.5), Decimal("0.5"), {"age": 0.5}])
def test_one_key_takes_a_bare_number(name: str, record: Any) -> None:
    mechanism = create(name, Schema(keys=["age"]), 1)
    report = mechanism.perturb(record, SeededCoins(1))
    assert mechanism.decode(mechanism.encode(report), report.public) == report


@pytest.mark.parametrize("name", NAMES)
def test_values_are_read_in_the_units_of_the_schema(name: str) -> None:
    mechanism = create(name, Schema(keys=["age"], low=0, high=100), 1)
    assert mechanism.read(75) == [(0, GRID // 2)]
    assert mechanism.read(1000) == [(0, GRID)]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("record", [{"0": 0.5}, {}, {"0": 0.5, "1": float("nan")}, {"0": 0.5, "stranger": 1.0}])
def test_gaps_are_refused(name: str, record: dict[str, float]) -> None:
    with pytest.raises(RecordError) as refusal:
        numeric(name, "1", keys=2).perturb(record, SeededCoins(1))
    assert refusal.value.code == "record/incomplete"
    assert "0.5" not in refusal.value.sentence  # what a person holds is not told


@pytest.mark.parametrize("name", NAMES)
def test_gaps_are_refused_in_bulk(name: str) -> None:
    gap = Records(np.array([0, 2, 3]), np.array([0, 1, 0], np.int32), np.zeros(3, np.int32), 2)
    with pytest.raises(RecordError) as refusal:
        numeric(name, "1", keys=2).perturb_many(gap, SeededCoins(1))
    assert refusal.value.code == "record/incomplete"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("record", "code"), [(0.5, "record/type"), (True, "record/type"), ("x", "record/type")])
def test_other_things_are_refused(name: str, record: Any, code: str) -> None:
    with pytest.raises(RecordError) as refusal:
        numeric(name, "1", keys=2).perturb(record, SeededCoins(1))
    assert refusal.value.code == code


@pytest.mark.parametrize(
    ("name", "keys", "options", "code"),
    [
        ("mean-est", 4097, {}, "mechanism/too-many-keys"),
        ("piecewise", 1, {"steps": 0}, "mechanism/steps"),
        ("hybrid", 1, {"steps": "100000"}, "mechanism/steps"),
        ("hybrid", 1, {"steps": "many"}, "mechanism/option"),
        ("square-wave", 1, {"cells": 1}, "mechanism/cells"),
        ("duchi", 1, {"steps": 8}, "mechanism/option"),
        ("duchi", 1, {"epsilon": -1}, "epsilon/invalid"),
    ],
)
def test_senseless_options_are_refused(name: str, keys: int, options: dict[str, Any], code: str) -> None:
    with pytest.raises(KeyveilError) as refusal:
        create(name, Schema(keys=keys), **{"epsilon": 1, **options})
    assert refusal.value.code == code
    assert refusal.value.sentence.count(".") >= 1
    assert "\n" not in refusal.value.sentence


@pytest.mark.parametrize("name", NAMES)
def test_nobody_asked_means_nothing_known(name: str) -> None:
    mechanism = numeric(name, "1", keys=3)
    estimates = mechanism.estimate(Tally.empty(mechanism.fingerprint, mechanism.tally_shape))
    assert np.isnan(estimates.mean.values).all()
    assert estimates.flag == ("insufficient",) * 3
    assert (estimates.mean.low == -1).all()
    assert (estimates.mean.high == 1).all()


@pytest.mark.parametrize("name", NAMES)
def test_frequencies_are_not_estimated(name: str) -> None:
    mechanism = numeric(name, "1")
    tally = mechanism.tally(mechanism.perturb_many(everyone(np.zeros(100)), SeededCoins(2)))
    with pytest.raises(MechanismError, match="everybody holds") as refusal:
        mechanism.estimate(tally).frequency["0"]
    assert refusal.value.code == "estimate/no-frequency"


@pytest.mark.parametrize("name", NAMES)
def test_single_reports_and_columns_count_alike(name: str) -> None:
    mechanism = numeric(name, "2", keys=3)
    reports = mechanism.perturb_many(everyone(np.linspace(-1, 1, 300).reshape(100, 3)), SeededCoins(3))
    payloads = mechanism.codec.unstack(reports.payloads)
    singles = [
        mechanism.decode(mechanism.codec.encode(payload), public.tobytes())
        for public, payload in zip(reports.publics, payloads, strict=True)
    ]
    assert mechanism.tally(singles) == mechanism.tally(reports)
    assert mechanism.tally(singles[:40]) + mechanism.tally(singles[40:]) == mechanism.tally(reports)
