"""Records that fit, and one sentence with a stable code for everything that does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from keyveil.core.errors import KeyveilError, TallyError
from keyveil.core.records import Records
from keyveil.core.schema import Schema
from keyveil.lab.coins import SeededCoins
from keyveil.mechanisms.registry import create
from tests.mechanisms.categorical.cases import FORMS, categorical, holding, title

Form = tuple[str, dict[str, Any]]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("olh", {"buckets": 1}),
        ("olh", {"buckets": 1 << 17}),
        ("olh", {"buckets": "many"}),
        ("shist", {"buckets": 2}),
        ("ss", {"size": 0}),
        ("ss", {"size": 8}),
        ("hr", {"form": "row"}),
        ("rappor", {"bits": 3}),
        ("rappor", {"bits": 5000}),
        ("rappor", {"hashes": 0}),
        ("rappor", {"hashes": 5}),
        ("rappor", {"cohorts": 0}),
        ("rappor", {"permanent": "1"}),
        ("rappor", {"permanent": "-0.1"}),
        ("rappor", {"permanent": "often"}),
        ("rappor", {"decoder": "lasso"}),
    ],
    ids=str,
)
def test_bad_options(name: str, options: dict[str, Any]) -> None:
    with pytest.raises(KeyveilError) as refusal:
        create(name, Schema(keys=8), "1", **options)
    assert refusal.value.code == "mechanism/option"
    assert str(refusal.value).count(". ") == 0
    assert str(refusal.value).endswith(".")


@pytest.mark.parametrize("form", FORMS, ids=title)
def test_one_key_is_no_choice(form: Form) -> None:
    with pytest.raises(KeyveilError) as refusal:
        create(form[0], Schema(keys=1), "1")
    assert refusal.value.code == "mechanism/too-few-keys"


@pytest.mark.parametrize("form", FORMS, ids=title)
def test_records_of_one_key(form: Form) -> None:
    mechanism = create(form[0], Schema(keys=["tea", "coffee", "water"]), "1", **form[1])
    for record in ("coffee", {"coffee": 0.3}, {"coffee": 1, "beer": 1}):
        report = mechanism.perturb(record, SeededCoins(1))
        assert mechanism.decode(mechanism.encode(report), report.public) == report
        assert mechanism.read(record) == [(1, 0)]


def test_unknown_keys_fall_on_other_if_the_schema_has_one() -> None:
    mechanism = create("grr", Schema(keys=["tea", "coffee"], other="else"), "1")
    assert mechanism.read("beer") == [(2, 0)]


@pytest.mark.parametrize(
    ("record", "code"),
    [
        ("beer", "record/unknown-key"),
        (17, "record/unknown-key"),
        ({}, "record/not-one-key"),
        ({"tea": 1, "coffee": 1}, "record/not-one-key"),
        (3.5, "record/type"),
        (None, "record/type"),
    ],
)
def test_records_that_do_not_fit(record: Any, code: str) -> None:
    mechanism = create("oue", Schema(keys=["tea", "coffee", "water"]), "1")
    with pytest.raises(KeyveilError) as refusal:
        mechanism.perturb(record, SeededCoins(1))
    assert refusal.value.code == code


@pytest.mark.parametrize("form", FORMS, ids=title)
def test_bulk_records_of_two_keys_are_refused(form: Form) -> None:
    mechanism = categorical(form, 4)
    keys = np.array([0, 1, 2], dtype=np.int32)
    records = Records(np.array([0, 1, 3]), keys, np.zeros_like(keys), 4)
    with pytest.raises(KeyveilError) as refusal:
        mechanism.perturb_many(records, SeededCoins(1))
    assert refusal.value.code == "record/not-one-key"


@pytest.mark.parametrize("form", FORMS, ids=title)
def test_a_foreign_tally_is_refused(form: Form) -> None:
    mechanism, other = categorical(form, 4), categorical(form, 4, "2")
    tally = other.tally(other.perturb_many(holding(np.zeros(3), 4), SeededCoins(1)))
    with pytest.raises(TallyError) as refusal:
        mechanism.estimate(tally)
    assert refusal.value.code == "tally/foreign"


@pytest.mark.parametrize("form", FORMS, ids=title)
def test_means_are_not_promised(form: Form) -> None:
    mechanism = categorical(form, 4)
    estimates = mechanism.estimate(mechanism.tally(mechanism.perturb_many(holding(np.zeros(9), 4), SeededCoins(1))))
    with pytest.raises(KeyveilError, match="give means") as refusal:
        estimates.mean["0"]
    assert refusal.value.code == "estimate/no-mean"
