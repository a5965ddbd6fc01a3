"""Rules on planted results: each holds where its inequality holds, and a verdict changes when it is broken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from keyveil.lab.experiments.catalogue import IDS, experiment
from keyveil.lab.experiments.plan import Plan, planned
from keyveil.lab.experiments.results import Curve, Results, View, summed
from keyveil.lab.experiments.rules import (
    Alike,
    Bounded,
    Dips,
    Flat,
    Less,
    Lower,
    Rule,
    Spot,
    Trend,
    both,
    falling,
    higher,
)
from keyveil.lab.experiments.shape import EXACT, FORMS, PUBLISHED, TIGHT, Claim
from keyveil.lab.experiments.verdicts import CONFIRMED, NOT_CONFIRMED, ONLY_PUBLISHED, Verdict, verdicts

X = (1.0, 2.0, 4.0, 8.0)
SURE, VAGUE = 0.01, 5.0  # standard errors as a share of the value


def planted(curves: Mapping[str, tuple[float, ...]], error: float = SURE, people: str = "P") -> View:
    found = {
        (people, name, "m"): Curve(np.array(X), np.array(values), error * np.abs(np.array(values)))
        for name, values in curves.items()
    }
    return View(found, (people,))


FALLING, RISING, LEVEL = (8.0, 4.0, 2.0, 1.0), (1.0, 2.0, 4.0, 8.0), (3.0, 3.0, 3.0, 3.0)
BOWL, HILL = (5.0, 2.0, 2.0, 6.0), (1.0, 4.0, 5.0, 1.0)
CASES: tuple[tuple[Rule, dict[str, tuple[float, ...]], dict[str, tuple[float, ...]]], ...] = (
    (Lower("a", ("b",), "m"), {"a": (1, 1, 1, 1), "b": (2, 2, 2, 2)}, {"a": (2, 2, 2, 2), "b": (1, 1, 1, 1)}),
    (Lower("a", ("b",), "m", by=3), {"a": (1, 1, 1, 1), "b": (4, 4, 4, 4)}, {"a": (1, 1, 1, 1), "b": (2, 2, 2, 2)}),
    (Lower("a", ("b",), "m", everywhere=True), {"a": (1, 1, 1, 1), "b": LEVEL}, {"a": (1, 1, 1, 4), "b": LEVEL}),
    (Lower("a", ("b",), "m", linear=True, margin=1), {"a": (0, 0, 0, 0), "b": LEVEL}, {"a": (2.5,) * 4, "b": LEVEL}),
    (higher("a", ("b",), "m"), {"a": (2, 2, 2, 2), "b": (1, 1, 1, 1)}, {"a": (1, 1, 1, 1), "b": (2, 2, 2, 2)}),
    (Alike("a", "b", "m", 0.2), {"a": (1.1,) * 4, "b": (1, 1, 1, 1)}, {"a": (1.5,) * 4, "b": (1, 1, 1, 1)}),
    (Alike("a", "b", "m", 0.2, everywhere=True), {"a": LEVEL, "b": LEVEL}, {"a": (3, 3, 3, 4), "b": LEVEL}),
    (Trend(("a",), "m"), {"a": FALLING}, {"a": RISING}),
    (Trend(("a",), "m", rising=True, by=0.5), {"a": RISING}, {"a": LEVEL}),
    (Trend(("a",), "m", rising=True, linear=True), {"a": (-1, 0, 1, 2)}, {"a": (2, 1, 0, -1)}),
    (Trend(("a",), "m", rising=True, against="b"), {"a": RISING, "b": LEVEL}, {"a": LEVEL, "b": RISING}),
    (Dips(("a",), "m"), {"a": BOWL}, {"a": FALLING}),
    (Dips(("a",), "m", peaks=True), {"a": HILL}, {"a": BOWL}),
    (Bounded(("a",), "m", most=4), {"a": LEVEL}, {"a": RISING}),
    (Bounded(("a",), "m", least=2), {"a": LEVEL}, {"a": RISING}),
    (Flat(("a",), "m", 0.3), {"a": (3, 3.3, 3, 3)}, {"a": RISING}),
    (Less(Spot("a", "m"), Spot("b", "m"), by=1.5), {"a": (1, 1, 1, 1), "b": LEVEL}, {"a": LEVEL, "b": LEVEL}),
    (both(Trend(("a",), "m"), Bounded(("a",), "m", most=9)), {"a": FALLING}, {"a": (10, 4, 2, 1)}),
    (falling(("a", "b"), "m"), {"a": LEVEL, "b": (1, 1, 1, 1)}, {"a": (1, 1, 1, 1), "b": LEVEL}),
)


@pytest.mark.parametrize(("rule", "right", "wrong"), CASES)
def test_a_rule_holds_on_one_side_of_its_inequality_only(
    rule: Rule, right: dict[str, tuple[float, ...]], wrong: dict[str, tuple[float, ...]]
) -> None:
    assert rule.judge(planted(right)).holds
    assert not rule.judge(planted(wrong)).holds


@pytest.mark.parametrize(("rule", "right", "wrong"), CASES)
def test_nothing_holds_that_the_standard_error_leaves_open(
    rule: Rule, right: dict[str, tuple[float, ...]], wrong: dict[str, tuple[float, ...]]
) -> None:
    found = rule.judge(planted({name: tuple(value + 1e-9 for value in some) for name, some in right.items()}, VAGUE))
    zeros = any(value == 0 for some in right.values() for value in some)  # an error that is a share of nothing
    assert zeros or not found.holds


def test_runs_that_two_curves_share_are_compared_run_by_run() -> None:
    noise = np.random.default_rng(1).lognormal(0, 1, (20, 1))
    one, other = (
        Curve(np.array([1.0]), *summed(runs, "mean"), runs, ("same",), count=20) for runs in (noise, 1.1 * noise)
    )
    rule = Lower("a", ("b",), "m")
    assert rule.judge(View({("P", "a", "m"): one, ("P", "b", "m"): other}, ("P",))).holds
    strangers = replace(other, pairing=("other",))
    assert not rule.judge(View({("P", "a", "m"): one, ("P", "b", "m"): strangers}, ("P",))).holds


def test_a_verdict_follows_the_forms_in_which_its_rule_holds() -> None:
    rule = Lower("a", ("b",), "m")
    right, wrong = planted(CASES[0][1]), planted(CASES[0][2])

    def word(**views: View) -> str:
        return Verdict(Claim("A is lower.", rule), {form: rule.judge(view) for form, view in views.items()}).word

    assert word(published=right, exact=right, tight=right) == CONFIRMED
    assert word(published=right, exact=right, tight=wrong) == ONLY_PUBLISHED
    assert word(published=right, exact=wrong, tight=right) == ONLY_PUBLISHED
    assert word(published=wrong, exact=right, tight=right) == NOT_CONFIRMED
    assert word(published=wrong) == NOT_CONFIRMED and (PUBLISHED, EXACT, TIGHT) == FORMS


@cache
def quick_plan(id: str) -> Plan:
    return planned(experiment(id), "quick", seed=1)


def planted_results(id: str, value: float | None = None, seed: int = 0) -> Results:
    plan = quick_plan(id)
    rng = np.random.default_rng(seed)
    points = np.array(plan.points)
    curves = {
        place: Curve(points, rng.lognormal(0, 2, len(points)) if value is None else np.full(len(points), value),
                     np.full(len(points), 1e-6))
        for place in plan.curves
    }  # fmt: skip
    return Results(plan, curves)


@pytest.mark.parametrize("id", IDS)
def test_every_claim_speaks_about_results_that_its_experiment_has(id: str) -> None:
    """A rule that names a series, measure or population by mistake would find nothing, and never hold."""
    for one in verdicts(planted_results(id, value=0.3)):
        for finding in one.findings.values():
            assert np.isfinite(finding.gap), f"{one.claim.text} {finding.text}"


@pytest.mark.parametrize("id", IDS)
def test_no_claim_holds_whatever_the_results_are(id: str) -> None:
    worlds = [verdicts(planted_results(id, seed=seed)) for seed in range(12)]
    for claims in zip(*worlds, strict=True):
        assert NOT_CONFIRMED in {one.word for one in claims}, claims[0].claim.text


def test_a_claim_of_a_paper_changes_its_verdict_when_its_inequality_is_broken() -> None:
    results = planted_results("ye-fig9", value=0.3)
    falls = {place: replace(curve, value=1 / curve.x) for place, curve in results.curves.items()}
    assert verdicts(replace(results, curves=falls))[0].word == CONFIRMED
    rises = {
        place: replace(curve, value=curve.x) if place[0] == TIGHT else falls[place] for place, curve in falls.items()
    }
    assert verdicts(replace(results, curves=rises))[0].word == ONLY_PUBLISHED
    all_rise = {place: replace(curve, value=curve.x) for place, curve in falls.items()}
    assert verdicts(replace(results, curves=all_rise))[0].word == NOT_CONFIRMED


def test_summaries_of_runs_have_standard_errors() -> None:
    """False alarms: each estimate is held to six of its own standard errors, 2e-9 for normal numbers."""
    runs = np.random.default_rng(3).normal(2, 1, (4000, 5))
    value, se = summed(runs, "mean")
    assert (np.abs(value - 2) < 6 * se).all() and np.allclose(se, 1 / np.sqrt(4000), rtol=0.1)
    value, se = summed(runs, "variance")
    assert (np.abs(value - 1) < 6 * se).all()
    value, se = summed(runs, "inverse")
    assert (np.abs(value - 0.5) < 6 * se).all()
    errors = np.random.default_rng(4).exponential([1.0, 2.0, 3.0], (400, 3))
    value, se = summed(errors, "jain")
    assert abs(value[0] - 36 / (3 * 14)) < 6 * se[0] < 0.2
    assert np.isnan(summed(errors[:1], "mean")[1]).all()
