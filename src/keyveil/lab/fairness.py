"""Who measures the means of rare keys as well as those of frequent ones, and at what price: a study on linear-s.

Everybody holds exactly five of twenty keys, whose frequencies rise linearly with slope s. All contenders have the same
true ε; one that spends less than it is given gets more. Every run draws new people and new means: a single draw of
twenty means, of which the rarest two or three carry most of the error, would decide more than the mechanism does. All
contenders get the same treatment: means are cut to [-1, 1] and count as 0 where there is none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.core.estimates import Estimates
from keyveil.core.records import Records
from keyveil.core.schema import Schema
from keyveil.frames.truth import Truth
from keyveil.lab import datasets
from keyveil.lab.coins import SeededCoins
from keyveil.lab.matching import spending, true_ratio_of
from keyveil.lab.metrics import jain
from keyveil.lab.rounds import ask
from keyveil.mechanisms import registry as mechanisms
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import PredictedVariance, need
from keyveil.protocols import registry as protocols
from keyveil.protocols.base import Protocol
from keyveil.protocols.weights import fair_weights

SLOPES, EPSILONS = (0.1, 1.0, 5.0), (1, 2, 4)
PEOPLE, PAIRS, SCHEMA = 20_000, 5, Schema(keys=20)
EXPONENT = 0.5  # of the weights β ∝ max(f, τ)^-exponent

Floats = NDArray[np.float64]
Contender = Callable[[int, Records, Truth, int, int], Estimates]  # ε, people, truth, seed, run


@dataclass(frozen=True, eq=False)
class FairnessScore:
    """Squared errors of means and of frequencies, [run, key]."""

    errors: Floats
    of_frequency: Floats

    @property
    def mse(self) -> float:
        return float(self.errors.mean())

    @property
    def noise(self) -> float:
        """The standard error of ``mse`` over runs."""
        return float(self.errors.mean(axis=1).std(ddof=1) / np.sqrt(len(self.errors)))

    @property
    def fairness(self) -> float:
        """Jain's index over keys; blind to the size of errors, so never to be read without them."""
        return jain(self.errors.mean(axis=0))


@dataclass(frozen=True)
class Cell:
    """All contenders on one population at one ε."""

    slope: float
    epsilon: int
    scores: Mapping[str, FairnessScore]

    @property
    def least_error(self) -> str:
        return min(self.scores, key=lambda name: self.scores[name].mse)

    @property
    def fairest(self) -> str:
        return max(self.scores, key=lambda name: self.scores[name].fairness)


def study(contenders: Mapping[str, Contender], slope: float, epsilon: int, runs: int, seed: int = 1) -> Cell:
    """Every contender over the same people, run by run."""
    recipe = datasets.recipe("linear-s", slope=slope)
    errors: dict[str, list[tuple[Floats, Floats]]] = {name: [] for name in contenders}
    for run in range(runs):
        people = recipe.draw(PEOPLE, seed * 1_000_000 + run)
        records, truth = people.records(SCHEMA), people.truth(SCHEMA)
        for name, contender in contenders.items():
            found = contender(epsilon, records, truth, seed, run)
            mean = np.nan_to_num(np.clip(found.mean.values, -1, 1))
            errors[name].append(((mean - truth.mean) ** 2, (found.frequency.values - truth.frequency) ** 2))
    return Cell(
        slope, epsilon, {name: FairnessScore(*map(np.array, zip(*each, strict=True))) for name, each in errors.items()}
    )


# -- contenders -----------------------------------------------------------------------------------------------------


def weighted(exponent: float, floored: bool = True) -> Contender:
    """WSR with weights from known frequencies, such as those of an earlier collection."""

    def estimates(epsilon: int, records: Records, truth: Truth, seed: int, run: int) -> Estimates:
        return _one_round(weighted_wsr(epsilon, truth.frequency, exponent, floored), records, seed, run)

    return estimates


def pckv_grr(epsilon: int, records: Records, truth: Truth, seed: int, run: int) -> Estimates:
    """PCKV-GRR with its tight budget."""
    return _one_round(mechanisms.create("pckv-grr", SCHEMA, epsilon, max_pairs=PAIRS), records, seed, run)


def protocol(name: str, **options: Any) -> Contender:
    """A protocol of the registry that finds out for itself which keys are rare."""

    @cache
    def raised(epsilon: int) -> Protocol:
        return with_true_epsilon(protocols.create(name, SCHEMA, epsilon, max_pairs=PAIRS, **options))

    def estimates(epsilon: int, records: Records, truth: Truth, seed: int, run: int) -> Estimates:
        return raised(epsilon).estimate(ask(raised(epsilon), [records], seed, run))

    return estimates


CONTENDERS: dict[str, Contender] = {
    "wsr": weighted(EXPONENT),
    "wsr, no floor": weighted(EXPONENT, floored=False),
    "pilot, then wsr": protocol("pilot", then="wsr", theta=Fraction(1, 4)),
    "adaptive, repaired": protocol("adaptive"),
    "adaptive, published": protocol("adaptive", variant="published"),
    "adaptive, parted": protocol("adaptive", variant="parted"),
    "pckv-grr": pckv_grr,
}


def weighted_wsr(epsilon: int, frequency: Floats, exponent: float = EXPONENT, floored: bool = True) -> Mechanism:
    """WSR with β ∝ max(f, τ)^-exponent."""
    weights = fair_weights(frequency, told_from_zero(epsilon) if floored else 0.0, exponent)
    return mechanisms.create("wsr", SCHEMA, epsilon, max_pairs=PAIRS, weights=weights)


@cache
def told_from_zero(epsilon: int) -> float:
    """The floor τ: the standard error of a frequency of zero with even weights."""
    even = need(mechanisms.create("wsr", SCHEMA, epsilon, max_pairs=PAIRS), PredictedVariance)
    nothing, sizes = np.zeros(SCHEMA.d), np.bincount([PAIRS], minlength=PAIRS + 1).astype(np.float64)
    return float(np.sqrt(even.predicted_spread(nothing, nothing, sizes, PEOPLE, population=True).frequency[0]))


def with_true_epsilon(protocol: Protocol) -> Protocol:
    """The same with a request that is raised, in thousandths, until the exact loss is the wanted epsilon."""
    thousandths = math.ceil(1000 * protocol.epsilon)
    return spending(lambda more: replace(protocol, epsilon=more), protocol.epsilon, true_ratio_of, thousandths)


def _one_round(mechanism: Mechanism, records: Records, seed: int, run: int) -> Estimates:
    return mechanism.estimate(mechanism.tally(mechanism.perturb_many(records, SeededCoins(seed, run))))
