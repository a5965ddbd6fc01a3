"""Questions as data: strict to read, and answered with the numbers that the functions behind them give."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

import keyveil as kv
from keyveil.core.coins import Coins
from keyveil.core.errors import KeyveilError, MechanismError, SchemaError
from keyveil.core.estimates import Estimates, Interval
from keyveil.core.schema import Schema
from keyveil.core.tally import Tally
from keyveil.frames.population import Population
from keyveil.learn.comparisons import compare_keys, subset_sum
from keyveil.learn.conditionals import Conditionals
from keyveil.learn.distributions import distribution
from keyveil.learn.questions import Question, answer, numbers
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.registry import create

SCHEMA = Schema(keys=["burger", "fries", "pepsi"], low=1, high=5)
PEOPLE = Population.from_records([{"burger": 4, "fries": 3}, {"burger": 2, "pepsi": 5}, {"fries": 1}, {}] * 2000)

Collected = tuple[Mechanism, Tally, Estimates]


def collected(name: str, **options: Any) -> Collected:
    mechanism = create(name, SCHEMA, 4, **options)
    tally = mechanism.tally(mechanism.perturb_many(PEOPLE.records(SCHEMA), Coins()))
    return mechanism, tally, mechanism.estimate(tally)


@pytest.fixture(scope="module")
def ssr() -> Collected:
    return collected("ssr", max_pairs=2)


@pytest.fixture(scope="module")
def moments() -> Collected:
    return collected("moments")


@pytest.fixture(scope="module")
def windows() -> Collected:
    return collected("kv-sw", max_pairs=2)


def test_a_conditional_question(moments: Collected) -> None:
    question = {"kind": "conditional", "key": "fries", "given": {"burger": True}}
    (row,) = answer(question, *moments)

    mechanism, tally, _ = moments
    expected = Conditionals(mechanism, tally)
    assert (row["key"], row["given"]) == ("fries", {"burger": True})
    assert row["frequency"] == numbers(expected.frequency("fries", {"burger": True}))
    assert row["mean"] == numbers(expected.mean("fries", {"burger": True}))


def test_quantiles_of_all_keys_or_of_some(windows: Collected) -> None:
    every = answer({"kind": "quantiles", "quantiles": ["0.25", 0.5]}, *windows)
    some = answer({"kind": "quantiles", "quantiles": ["0.5"], "keys": ["pepsi"]}, *windows)

    assert [(row["key"], row["quantile"]) for row in every] == [(key, q) for key in SCHEMA.keys for q in (0.25, 0.5)]
    assert some == [row for row in every if row["key"] == "pepsi" and row["quantile"] == 0.5]
    assert some[0]["value"] == numbers(distribution(windows[0], windows[1]).quantile(0.5, "pepsi"))


def test_sums_comparisons_and_the_top(ssr: Collected) -> None:
    mechanism, _, estimates = ssr
    (total,) = answer({"kind": "subset", "keys": ["burger", "fries"]}, *ssr)
    (shares,) = answer({"kind": "compare", "keys": ["burger", "pepsi"]}, *ssr)
    (means,) = answer({"kind": "compare", "keys": ["pepsi", "burger"], "of": "mean"}, *ssr)
    ranks = answer({"kind": "top", "count": 2}, *ssr)

    assert total["sum"] == numbers(subset_sum(estimates, ["burger", "fries"], mechanism=mechanism))
    assert shares["p_value"] == compare_keys(estimates, "burger", "pepsi", mechanism=mechanism).p_value
    assert means["of"] == "mean" and means["difference"]["value"] > 0
    assert [row["rank"] for row in ranks] == [1, 2]
    assert all(row["certain"] == (row["worst"] <= 2) for row in ranks)


def test_the_question_may_say_its_own_confidence(ssr: Collected) -> None:
    question = {"kind": "subset", "keys": ["burger"]}
    (usual,) = answer(question, *ssr, confidence=0.95)
    (wide,) = answer({**question, "confidence": "0.999"}, *ssr, confidence=0.95)

    assert wide["sum"]["low"] < usual["sum"]["low"] < usual["sum"]["high"] < wide["sum"]["high"]
    assert wide["sum"]["value"] == usual["sum"]["value"]


def test_the_top_has_intervals_of_the_confidence_that_the_question_wants(ssr: Collected) -> None:
    mechanism, tally, estimates = ssr
    for confidence in (0.5, 0.999):
        rows = answer({"kind": "top", "count": 3, "confidence": confidence}, *ssr)
        expected = mechanism.estimate(tally, confidence).frequency

        assert estimates.confidence == 0.95
        for row in rows:
            one = expected[row["key"]]
            assert (row["value"], row["low"], row["high"]) == pytest.approx((one.value, one.low, one.high), rel=1e-12)


def test_nothing_is_said_about_few_people(moments: Collected, windows: Collected) -> None:
    question = {"kind": "conditional", "key": "fries", "given": {"burger": True, "pepsi": True}}
    for kind in ({"kind": "top", "count": 1}, {"kind": "quantiles", "quantiles": ["0.5"]}, question):
        with pytest.raises(MechanismError) as refused:
            answer(kind, *moments, min_reports=8001)
        assert refused.value.code == "question/too-few"

    (row,) = answer({"kind": "conditional", "key": "pepsi", "given": {"burger": False}}, *moments, min_reports=7000)
    assert row["frequency"]["flag"] == "suppressed" and row["frequency"]["value"] is None
    rows = answer({"kind": "quantiles", "quantiles": ["0.5"]}, *windows, min_reports=7000)
    assert all(row["value"] == {"value": None, "low": 1, "high": 5, "se": None, "flag": "suppressed"} for row in rows)


@pytest.mark.parametrize("name", ["ssr", "wsr", "wheel", "kvue", "pckv-ue"])
def test_what_reports_cannot_tell_names_those_that_could(name: str) -> None:
    options = {"max_pairs": 2} if name != "kvue" else {}
    reports = collected(name, **options)
    for question, code, could in (
        ({"kind": "conditional", "key": "fries"}, "question/no-joint", "moments"),
        ({"kind": "quantiles", "quantiles": ["0.5"]}, "estimate/no-distribution", "kv-sw"),
    ):
        with pytest.raises(MechanismError) as refused:
            answer(question, *reports)
        assert refused.value.code == code and could in refused.value.sentence


@pytest.mark.parametrize(
    ("question", "code"),
    [
        (7, "question/document"),
        ([], "question/document"),
        ({}, "question/kind"),
        ({"kind": "sql"}, "question/kind"),
        ({"kind": ["top"]}, "question/kind"),
        ({"kind": "top"}, "question/document"),
        ({"kind": "top", "count": 3, "keys": ["burger"]}, "question/document"),
        ({"kind": "top", "count": 0}, "question/count"),
        ({"kind": "top", "count": True}, "question/count"),
        ({"kind": "top", "count": 1.0}, "question/count"),
        ({"kind": "top", "count": 1, "round": 0}, "question/round"),
        ({"kind": "top", "count": 1, "round": "1"}, "question/round"),
        ({"kind": "top", "count": 1, "confidence": 1}, "question/confidence"),
        ({"kind": "top", "count": 1, "confidence": "0.9999999999999999"}, "question/confidence"),
        ({"kind": "top", "count": 1, "confidence": 1e-9}, "question/confidence"),
        ({"kind": "top", "count": 1, "confidence": None}, "question/confidence"),
        ({"kind": "top", "count": 1, "confidence": "most"}, "question/confidence"),
        ({"kind": "subset", "keys": []}, "question/keys"),
        ({"kind": "subset", "keys": "burger"}, "question/keys"),
        ({"kind": "subset", "keys": [1]}, "question/key"),
        ({"kind": "compare", "keys": ["burger"]}, "question/keys"),
        ({"kind": "compare", "keys": ["burger", "fries", "pepsi"]}, "question/keys"),
        ({"kind": "compare", "keys": ["burger", "burger"]}, "question/keys"),
        ({"kind": "compare", "keys": ["burger", "fries"], "of": "variance"}, "question/of"),
        ({"kind": "conditional", "key": 1}, "question/key"),
        ({"kind": "conditional", "key": "burger", "given": ["fries"]}, "question/given"),
        ({"kind": "conditional", "key": "burger", "given": {"fries": 1}}, "question/given"),
        ({"kind": "conditional", "key": "burger", "given": {str(n): True for n in range(33)}}, "question/given"),
        ({"kind": "quantiles", "quantiles": []}, "question/quantiles"),
        ({"kind": "quantiles", "quantiles": "0.5"}, "question/quantiles"),
        ({"kind": "quantiles", "quantiles": ["half"]}, "question/quantiles"),
        ({"kind": "quantiles", "quantiles": [1.5]}, "question/quantiles"),
        ({"kind": "quantiles", "quantiles": [math.nan]}, "question/quantiles"),
        ({"kind": "quantiles", "quantiles": ["0.5"] * 101}, "question/quantiles"),
    ],
    ids=str,
)
def test_a_question_that_makes_no_sense_is_refused_before_it_is_asked(question: Any, code: str) -> None:
    with pytest.raises(KeyveilError) as refused:
        Question.read(question)

    assert refused.value.code == code


def test_unknown_keys_are_refused(ssr: Collected) -> None:
    with pytest.raises(SchemaError) as refused:
        answer({"kind": "subset", "keys": ["burger", "pizza"]}, *ssr)
    assert refused.value.code == "schema/unknown-key"


def test_numbers_that_are_not_known_are_null_in_json() -> None:
    row = numbers(Interval(0.5, -math.inf, math.inf, math.nan, "insufficient"))

    assert json.loads(json.dumps(row, allow_nan=False)) == {
        "value": 0.5, "low": None, "high": None, "se": None, "flag": "insufficient"
    }  # fmt: skip


def test_a_name_that_stands_for_several_keys_is_no_key_to_compare() -> None:
    schema = kv.Schema(keys=["fries", "pepsi"], groups=["de", "fr"])
    mechanism = kv.mechanism("kvue", schema, 1)
    tally = kv.Tally.empty(mechanism.fingerprint, mechanism.tally_shape)
    with pytest.raises(KeyveilError) as refused:
        answer({"kind": "compare", "keys": ["de/*", "fr/fries"]}, mechanism, tally, mechanism.estimate(tally))
    assert refused.value.code == "question/keys"
