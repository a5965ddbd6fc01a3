"""Predicted variances against what happens: the same forms collect again and again from new people.

Every repeat asks new people, so that one simulation shows both errors: against the truth of those who were asked, and
against the truth of the population that they come from. Squared errors over their predicted variance are added up over
keys and repeats. Their sum is compared with chi-square quantiles whose degrees of freedom allow for keys that depend on
each other. Each comparison raises a false alarm with probability ``ALARM``, and there are fewer than 1,100 of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from keyveil.core.records import Records
from keyveil.core.report import Reports
from keyveil.core.schema import GRID, Schema
from keyveil.frames.rows import offsets_of
from keyveil.lab.aggregate import aggregate, has_aggregate
from keyveil.lab.coins import SeededCoins
from keyveil.lab.datasets.crowds import fixed_size_sets, single_keys
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import PredictedVariance, Takes, can, need
from keyveil.mechanisms.keyvalue.kvue import KVUE
from keyveil.mechanisms.keyvalue.ssr import SSR
from keyveil.mechanisms.registry import create, create_round, find_mechanism, mechanism_names
from keyveil.mechanisms.responses import Spread
from tests.sweeps import sampled

Floats = NDArray[Any]
Prediction = Callable[[bool], Spread]

ALARM = 5e-10
D, PEOPLE, REPEATS = 12, 1_500, 200
"""A variance that is wrong by 30 % lies two standard errors beyond the quantile. More people would take longer and show
no more: variances are inversely proportional to their number."""
SIZES = np.array([0.0, 0.6, 0.4])  # shares of people with 0, 1, 2 pairs: within the cap of every form
SHARES = np.array([0.8, 0.4, 0.25, 0.15, 0.1, 0.08, 0.06, 0.05, 0.04, 0.03, 0.02, 0.02])  # of people with two pairs
MEANS = np.round(np.array([0.9, -0.8, 0.7, -0.6, 0.5, -0.4, 0.3, -0.2, 0.1, 0, -0.9, 0.9]) * GRID) / GRID

KEYS = {"ioh": 3}  # of which there are 3^d cells
SIZE = {  # people and repeats, where others are needed
    "moments": (4_000, REPEATS),  # one report in eighty speaks about a key
    "apart": (12_000, 80),  # so many that what is cut off vectors can be measured
    "ioh": (400, 900),  # errors of different keys are nearly the same, so that more keys show no more
}
SMALL: dict[str, dict[str, Any]] = {
    "kv-sw": {"cells": 16},  # a law of its own for each cell takes time
    "apart": {"typical": "0.9", "expected": 10**9},  # nothing is cut off: that would move means
}


def for_twelve(options: dict[str, Any]) -> dict[str, Any]:
    """Options for these people: what has an entry for each key is repeated, and the law of set sizes is theirs."""
    others = {"weights": lambda value: ",".join([value] * 4), "set_sizes": lambda value: "1:0.6,2:0.4"}
    return {name: others[name](value) if name in others else value for name, value in options.items()}


USUAL = [(name, for_twelve(options)) for name in mechanism_names() for options in find_mechanism(name).examples]
OTHERS: list[tuple[str, dict[str, Any]]] = [  # other estimators and channels, at one epsilon
    ("hr", {"form": "bit"}),
    ("privkv", {"fake_mean": "0.5"}),
    ("privkv", {"estimator": "published"}),
    ("f2m", {"estimator": "mle"}),
    ("f2m", {"split": "paper", "default": "1"}),
    ("kvoh", {"bits": "optimised", "constrained": "false"}),
    ("ioh", {"oracle": "grr"}),
    ("moments", {"order": 1, "law": "uniform"}),
    ("marginals", {"size": 3, "members": 40, "oracle": "oue"}),
    ("pckv-ue", {"max_pairs": 2, "split": "paper"}),
    ("kv-sw", {"max_pairs": 2, "split": "paper", "cells": 4}),
    ("piecewise", {"steps": 2}),
    ("rappor", {"bits": 12, "cohorts": 4}),
]


class Crowd(NamedTuple):
    """New people for every repeat, and the true f and f·m of the population and of the people of each repeat."""

    records: Records
    frequency: Floats
    mean: Floats
    own_frequency: Floats  # [repeat, key]
    own_product: Floats


@lru_cache(maxsize=8)
def crowd(takes: Takes, d: int, n: int, repeats: int) -> Crowd:
    """Everybody's value of a key is its mean, as the predictions suppose."""
    rng, people = np.random.default_rng(3), n * repeats
    shares = SHARES if d == D else np.array([0.9, 0.7, 0.4])
    frequency = shares / 2
    if takes == "every key":
        users, keys, frequency = np.repeat(np.arange(people), d), np.tile(np.arange(d), people), np.ones(d)
    elif takes == "one key":
        users, keys = single_keys(people, shares, rng)
    else:
        one = round(SIZES[1] * people)
        users, keys = single_keys(one, shares, rng)
        more, others = fixed_size_sets(people - one, shares, rng)
        place = rng.permutation(people)  # who holds one pair and who two is independent of the repeat
        users, keys = place[np.concatenate([users, one + more])], np.concatenate([keys, others])
        order = np.lexsort((keys, users))
        users, keys = users[order], keys[order]
        frequency = SIZES[1] * shares / 2 + SIZES[2] * shares
    values = np.round(MEANS[keys] * GRID).astype(np.int32)
    counts = np.bincount(users // n * d + keys, minlength=repeats * d).reshape(repeats, d) / n
    return Crowd(
        Records(offsets_of(users, people), keys.astype(np.int32), values, d),
        frequency,
        MEANS[:d],
        counts,
        counts * MEANS[:d],
    )


class Found(NamedTuple):
    """Estimates of f and f·m [repeat, key] and the people that they are about; NaN where there is none."""

    crowd: Crowd
    n: int
    frequency: Floats
    product: Floats

    def errors(self, population: bool) -> tuple[Floats, Floats]:
        """Against the population, or against the people who were asked."""
        crowd = self.crowd
        if population:
            return self.frequency - crowd.frequency, self.product - crowd.frequency * crowd.mean
        return self.frequency - crowd.own_frequency, self.product - crowd.own_product


def simulated(mechanism: Mechanism, seed: int = 5) -> Found:
    n, repeats = SIZE.get(mechanism.name, (PEOPLE, REPEATS))
    people = crowd(mechanism.takes, mechanism.schema.d, n, repeats)
    parts = [slice(start, start + n) for start in range(0, n * repeats, n)]
    if has_aggregate(mechanism):
        blocks = (people.records.slice(part.start, part.stop) for part in parts)
        tallies = [aggregate(mechanism, block, SeededCoins(seed, run)) for run, block in enumerate(blocks)]
    else:
        reports = mechanism.perturb_many(people.records, SeededCoins(seed))
        tallies = [mechanism.tally(Reports(reports.publics[part], reports.payloads[part])) for part in parts]
    nothing = np.full(mechanism.schema.d, np.nan)
    rows = []
    for tally in tallies:
        estimates = mechanism.estimate(tally)
        total = estimates.mean.values if mechanism.takes == "every key" else estimates.product
        share = np.ones_like(nothing) if estimates.frequency.absent else estimates.frequency.values
        rows.append((share, nothing if total is None else total))
    return Found(people, n, *np.moveaxis(np.array(rows), 1, 0))


def hold(found: Found, prediction: Prediction) -> None:
    """f, f·m, and their sum and difference in standard errors, which see the covariance, vary as predicted."""
    for population in (False, True):
        (frequency, total), spread = found.errors(population), prediction(population)
        if spread.frequency.any():
            fits(frequency, spread.frequency, "f", population)
        if np.isnan(spread.product).all():
            continue
        fits(total, spread.product, "f·m", population)
        if spread.frequency.any():
            one, other = frequency / np.sqrt(spread.frequency), total / np.sqrt(spread.product)
            together = spread.covariance / np.sqrt(spread.frequency * spread.product)
            fits(other + one, 2 + 2 * together, "the sum of both", population)
            fits(other - one, 2 - 2 * together, "their difference", population)


def fits(errors: Floats, variance: Floats, what: str, population: bool) -> None:
    """Squares over predicted variances are on average 1, as far as chance goes; they and their keys may depend."""
    z = errors / np.sqrt(variance)
    products = z.T @ z / len(z)
    freedom = len(z) * np.trace(products) ** 2 / (products**2).sum()
    ratio, whose = (z**2).mean(), "the population" if population else "these people"
    low, high = stats.chi2.ppf(ALARM / 2, freedom) / freedom, stats.chi2.isf(ALARM / 2, freedom) / freedom
    assert low < ratio < high, f"the variance of {what} for {whose} is {ratio:.3f} of what was predicted"


def predicted(mechanism: Mechanism, found: Found) -> Prediction:
    capability, (_, frequency, mean, *_) = need(mechanism, PredictedVariance), found.crowd
    return lambda population: capability.predicted_spread(frequency, mean, SIZES, found.n, population)


def made(name: str, epsilon: str, **options: Any) -> Mechanism:
    given = {**SMALL.get(name, {}), **options}
    return create(name, Schema(keys=KEYS.get(name, D)), epsilon, **given)


PREDICTED = [(name, options) for name, options in USUAL if can(made(name, "1", **options), PredictedVariance)]


@pytest.mark.parametrize(("name", "options", "epsilon"), sampled(PREDICTED, ["0.5", "1", "3"]))
def test_errors_are_as_predicted(name: str, options: dict[str, Any], epsilon: str) -> None:
    mechanism = made(name, epsilon, **options)
    found = simulated(mechanism)
    hold(found, predicted(mechanism, found))


@pytest.mark.parametrize(("name", "options"), OTHERS, ids=str)
def test_other_estimators_and_channels_err_as_predicted(name: str, options: dict[str, Any]) -> None:
    mechanism = made(name, "2", **options)
    found = simulated(mechanism)
    hold(found, predicted(mechanism, found))


def test_everybody_predicts() -> None:
    views = {"hierarchy", "coordinates"}  # nobody has the law of the sizes of a view
    assert {name for name, _ in USUAL} - views == {name for name, _ in PREDICTED}


@pytest.mark.parametrize("name", ["privkv-round", "label-round"])
def test_rounds_that_are_read_together_predict_nothing_alone(name: str) -> None:
    assert can(create_round(name, Schema(keys=3), 1), PredictedVariance) is None


@dataclass(frozen=True)
class EveryReportSpeaks(KVUE):
    """As if all n reports spoke about every key."""

    def predicted_spread(
        self, frequency: Floats, mean: Floats, sizes: Floats, n: int, population: bool = False
    ) -> Spread:
        return self.response.predicted(frequency, mean, n, population)


@dataclass(frozen=True)
class OtherSign(SSR):
    """A covariance of the wrong sign."""

    def predicted_spread(
        self, frequency: Floats, mean: Floats, sizes: Floats, n: int, population: bool = False
    ) -> Spread:
        spread = super().predicted_spread(frequency, mean, sizes, n, population)
        return spread._replace(covariance=-spread.covariance)


@pytest.mark.parametrize(
    ("mutant", "what"),
    [
        (EveryReportSpeaks(Schema(keys=D), Fraction(1)), "f for these people"),
        (OtherSign(Schema(keys=D), Fraction(3), max_pairs=2), "the sum of both for these people"),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, Mechanism) else None,
)
def test_wrong_predictions_are_noticed(mutant: Mechanism, what: str) -> None:
    found = simulated(mutant)
    with pytest.raises(AssertionError, match=f"the variance of {what}"):
        hold(found, predicted(mutant, found))


@pytest.mark.parametrize("name", ["kvue", "ssr", "ioh"])
def test_a_variance_that_is_wrong_by_30_percent_is_noticed(name: str) -> None:
    mechanism = made(name, "1", **find_mechanism(name).examples[0])
    found = simulated(mechanism)
    right = predicted(mechanism, found)
    for part, factor in product(("frequency", "product"), (1.3, 1 / 1.3)):

        def wrong(population: bool, part: str = part, factor: float = factor) -> Spread:
            spread = right(population)
            return spread._replace(**{part: getattr(spread, part) * factor})

        with pytest.raises(AssertionError, match="of what was predicted"):
            hold(found, wrong)
