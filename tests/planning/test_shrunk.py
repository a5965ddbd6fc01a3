"""Errors that are foreseen after empirical Bayes, against what empirical Bayes leaves of collections that happened."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from keyveil.core.errors import PlanError
from keyveil.core.schema import Schema
from keyveil.lab import datasets
from keyveil.lab.datasets import Dataset
from keyveil.lab.decoders import decoded
from keyveil.lab.metrics import metrics
from keyveil.lab.simulate import simulate
from keyveil.mechanisms.registry import make
from keyveil.planning import auto
from keyveil.planning.ask import plan
from keyveil.planning.people import sampled
from keyveil.planning.plan import Plan
from keyveil.planning.predict import predict
from keyveil.planning.shrunk import shrunk

RUNS = 6


def people_of(name: str, n: int) -> tuple[Dataset, Schema]:
    data = datasets.load(name, n=n, seed=2)
    return data, Schema(keys=data.schema.d)


def told_and_seen(
    name: str, n: int, mechanism: str, epsilon: float | str, **options: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Foreseen and measured squared errors: of frequencies, means, and means of the 20 most frequent keys."""
    data, schema = people_of(name, n)
    made = make(mechanism, schema, epsilon, **options)
    crowd = sampled(data.population, schema)
    found = shrunk(predict(made, crowd))
    told = [found.frequency[crowd.frequency > 0], found.means(crowd.typical_keys), found.means(crowd.by_frequency[:20])]
    truth, seen = data.population.keyed(schema).truth(schema), []
    for run in range(RUNS):
        measured = metrics(decoded("bayes", simulate(made, data.population, seed=run).estimates), truth)
        seen.append([measured[one] for one in ("mse_frequency", "mse_mean", "mse_mean_top")])
    return np.array([np.mean(one**2) for one in told]), np.mean(np.array(seen, dtype=float), axis=0)


@pytest.mark.parametrize(
    ("name", "n", "mechanism", "epsilon", "options"),
    [
        ("survey", 10_000, "kvue", 1, {}),
        ("skewed", 10_000, "ssr", 1, {"max_pairs": 17}),
        ("plaw", 10_000, "apart", 2, {"max_pairs": 16, "overflow": "0.03"}),
        ("zipf", 10_000, "ssr", 2, {"max_pairs": 1}),
        ("activity", 2_000, "pckv-grr", 1, {"max_pairs": 8, "overflow": "0.03"}),  # much noise: by formula a sixth
        ("heavy", 2_000, "ssr", "0.5", {"max_pairs": 6, "overflow": "0.03"}),  # and a fifth
    ],
)
def test_what_is_foreseen_is_what_happens(
    name: str, n: int, mechanism: str, epsilon: float | str, options: dict[str, Any]
) -> None:
    """Within a factor of two of squared errors: a law that is learnt from few keys is not the one that is true."""
    told, seen = told_and_seen(name, n, mechanism, epsilon, **options)
    assert (np.abs(np.log(told / seen)) < np.log(2)).all(), (told, seen)


def test_noise_is_taken_away_and_what_a_cap_hides_is_not() -> None:
    """With hardly any people the errors of ``ssr`` are a small part of its noise; a cap of one pair hides the rest."""
    data, schema = people_of("lnr", 300)
    crowd = sampled(data.population, schema)
    wide, narrow = (predict(make("ssr", schema, 1, max_pairs=cap), crowd) for cap in (450, 1))
    assert np.mean(shrunk(wide).frequency ** 2) < 0.1 * np.mean(wide.frequency_error**2)
    hidden = np.mean(narrow.frequency_bias**2)
    assert np.mean(shrunk(narrow).frequency ** 2) > 0.9 * hidden > np.mean(shrunk(wide).frequency ** 2)


def test_a_plan_for_shrunk_means_takes_what_tells_more_and_not_what_shows_nothing() -> None:
    """Thousands of rare keys at one pair each: as estimated it is best to show a mean of 0, which tells nothing."""
    n, d = 10_000, 1_000
    share = 1 / np.arange(1, d + 1)
    people = datasets.one_key(n, share / share.sum(), np.full(d, 0.7), seed=1)
    told: dict[str, Any] = {"sample": people, "schema": Schema(keys=d), "epsilon": 4, "goal": "mean"}
    raw, after = plan(**told), plan(**told, postprocess="bayes")
    assert raw.best.options.get("mode") == "dense"
    of_raw = shrunk(raw.best.prediction).means(raw.people.typical_keys)
    assert after.best.error < 0.8 * float(np.sqrt(np.mean(of_raw**2)))
    assert after.document()["postprocess"] == "bayes" and "postprocess" not in raw.document()


def test_caps_below_half_of_the_people_are_tried_where_nothing_is_learnt_or_errors_are_shrunk() -> None:
    """At an epsilon of 4 a plan keeps to caps of half of the people; where a guess is better, it says so."""
    data, schema = people_of("peaks", 2_000)
    half = sampled(data.population, schema).cap_for(0.5)

    def planned(epsilon: float, **told: Any) -> Plan:
        return plan(sample=data.population, schema=schema, epsilon=epsilon, goal="frequency", **told)

    def caps(found: Plan) -> list[int]:
        return [line.options["max_pairs"] for line in found.lines if line.options.get("max_pairs")]

    some, nothing, shrunken = planned(4), planned(0.25), planned(0.25, postprocess="bayes")
    assert min(caps(some)) >= half > min(caps(nothing)) and half > min(caps(shrunken))
    assert some.note is None and "note" not in some.document()
    assert nothing.note is not None and "Nothing is learnt about single keys" in nothing.document()["note"]
    assert "hides" in nothing.best.why


def test_where_nothing_is_learnt_the_reason_of_auto_says_so() -> None:
    found = auto.resolve(Schema(keys=300), 0.5, users=1_000, pairs=4, goal="frequency")
    assert "Nothing is learnt about single keys" in found.reason and auto.planned_for(found.reason) == (1_000, 4.0)


def test_few_keys_are_drawn_and_many_are_not() -> None:
    few, many = (plan(users=9_000, keys=d, pairs=2, goal="frequency", postprocess="bayes") for d in (20, 600))
    assert {line.method for line in few.lines} == {"drawn estimates"}
    assert {line.method for line in many.lines} == {"closed form"}


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        ({"postprocess": "norm-sub"}, "foreseen after bayes, not after 'norm-sub'"),
        ({"postprocess": "bayes", "goal": "rare"}, "rare is about estimates as they are"),
        ({"postprocess": "bayes", "goal": "frequency,change"}, "change is about estimates as they are"),
    ],
)
def test_what_is_not_foreseen_is_said(told: dict[str, Any], sentence: str) -> None:
    with pytest.raises(PlanError, match=sentence):
        plan(users=1_000, keys=10, pairs=2, **told)


def test_protocols_are_left_out_where_shrinkage_is_foreseen() -> None:
    found = plan(users=1_000, keys=6, pairs=2, goal="frequency", rounds=2, postprocess="bayes")
    assert "foreseen for mechanisms of one round" in found.left_out["pilot"]
