"""How the errors of two keys' estimates go together: what sums over keys and comparisons of keys need to know.

Bounded    from constants of the mechanism and the frequencies alone (docs/queries.md); the share of people who hold
           both keys is not known then, and taken as what makes the answer least certain
Told       from reports about both keys together, so that nothing has to be bounded
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from keyveil.core.errors import MechanismError
from keyveil.core.estimates import Estimates
from keyveil.core.tally import Tally
from keyveil.learn.source import source
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import JointStatistics, KeyDependence, can, who_can
from keyveil.mechanisms.dependence import Dependence
from keyveil.mechanisms.joint.statistics import Statistic, share, total
from keyveil.mechanisms.registry import mechanism_names

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BLOCK = 1 << 16  # pairs of keys at once: bounded memory for sums over thousands of keys
_SHARES = (share({0: True}), share({1: True}), share({0: True, 1: True}))
_SUMS = (total(0, {}), total(1, {}))


class Links(Protocol):
    """What is known of the errors of several keys together."""

    def variance(self, keys: Ints, weights: Floats) -> float:
        """Of the weighted sum of the frequencies of these keys; NaN if the reports do not tell it."""

    def of_means(self, first: int, second: int) -> float:
        """Covariance of the means of two keys, on [-1, 1], or the least that it may be; NaN if it is not told."""


def links(estimates: Estimates, mechanism: Mechanism | None = None, tally: Tally | None = None) -> Links:
    """What is known for these unbiased estimates; reports about keys together are used if there is a ``tally``."""
    own = source(estimates, mechanism)
    joint = None if own is None else can(own, JointStatistics)
    if joint is None or (tally is None and can(own, KeyDependence)):
        return Bounded(estimates, dependence(estimates, mechanism))
    if tally is None:
        raise MechanismError(
            "queries/tally",
            f"How estimates of {estimates.mechanism} depend on each other is in the reports; give tally.",
        )
    if tally.reports != estimates.n:
        raise MechanismError(
            "queries/tally", f"The estimates come from {estimates.n:,} reports, and the tally counts {tally.reports:,}."
        )
    return Told(estimates, joint, tally)


def dependence(estimates: Estimates, mechanism: Mechanism | None = None) -> Dependence:
    """The constants of the covariance of two frequencies, for the number of reports behind these estimates."""
    own = source(estimates, mechanism)
    if own is None and estimates.mechanism in mechanism_names():
        raise MechanismError(
            "queries/mechanism",
            f"How estimates of {estimates.mechanism} depend on each other follows from its options, which these "
            "estimates do not have; give mechanism.",
        )
    known = None if own is None else can(own, KeyDependence)
    if known is None:
        name = estimates.mechanism if own is None else own.title
        raise MechanismError(
            "queries/dependence",
            f"The estimates of {name} do not tell how they depend on each other; "
            f"those of {who_can(KeyDependence, JointStatistics)} do.",
        )
    return replace(known.dependence(estimates.population), n=max(estimates.n, 1))


@dataclass(frozen=True, eq=False)
class Bounded:
    """Upper bounds from the constants of a mechanism."""

    estimates: Estimates
    constants: Dependence

    def variance(self, keys: Ints, weights: Floats) -> float:
        column = self.estimates.frequency
        return self.constants.variance(weights, column.values[keys], column.se[keys])

    def of_means(self, first: int, second: int) -> float:
        """Errors of two means meet in what their frequencies share, and once more in what their values do."""
        f = np.clip(self.estimates.frequency.values[[first, second]], 0.0, 1.0)
        m = np.abs(self.estimates.mean.values[[first, second]])
        return -2 * float(m[0] * m[1]) * self.constants.at_most(float(f[0]), float(f[1])) / float(f[0] * f[1])


@dataclass(frozen=True, eq=False)
class Told:
    """Covariances as the reports tell them, pair by pair."""

    estimates: Estimates
    mechanism: JointStatistics
    tally: Tally

    def variance(self, keys: Ints, weights: Floats) -> float:
        se = self.estimates.frequency.se[keys]
        one, other = np.triu_indices(len(keys), 1)
        shared = 0.0
        for start in range(0, len(one), BLOCK):
            i, j = one[start : start + BLOCK], other[start : start + BLOCK]
            covariance = self._covariance(np.stack([keys[i], keys[j]], axis=1), _SHARES)
            shared += float((weights[i] * weights[j]) @ covariance[:, 0, 1])
        return math.nan if math.isnan(shared) else max(float(weights**2 @ se**2) + 2 * shared, 0.0)

    def of_means(self, first: int, second: int) -> float:
        """To first order: m = u / f with u = f·m, so that dm = (du - m·df) / f."""
        covariance = self._covariance(np.array([[first, second]]), (*_SHARES, *_SUMS))[0]
        f, m = (column.values[[first, second]] for column in (self.estimates.frequency, self.estimates.mean))
        slopes = np.zeros((2, len(covariance)))
        for key in (0, 1):
            slopes[key, key], slopes[key, len(_SHARES) + key] = -m[key] / f[key], 1 / f[key]
        return float(slopes[0] @ covariance @ slopes[1])

    def _covariance(self, pairs: Ints, statistics: tuple[Statistic, ...]) -> Floats:
        """Of these statistics of pairs of keys, [pairs, i, j]; NaN for a pair of which no report tells."""
        population = self.estimates.population
        answers = self.mechanism.answer_jointly(self.tally, pairs, statistics, population)
        silent = np.flatnonzero(answers.respondents == 0)
        if len(silent) and len(pairs) > 1:  # alone, a pair that reports can never tell of is refused with the reason
            self.mechanism.answer_jointly(self.tally, pairs[silent[:1]], statistics, population)
        return np.where((answers.respondents == 0)[:, None, None], np.nan, answers.covariance)
