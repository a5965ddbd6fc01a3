"""Errors after empirical Bayes where there are few keys: estimates are drawn as they may come out, and shrunk.

Few keys do not teach ``learn.shrinkage`` the law that they follow, and what it does without one has no closed form. So
estimates with the predicted errors are drawn and shrunk by the very decoder that will be used. Nobody's report is
simulated, so that this takes milliseconds. All mechanisms meet the same chances.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from keyveil.core.coins import Coins
from keyveil.core.undercount import Undercount
from keyveil.lab.coins import SeededCoins
from keyveil.learn.shrinkage import bayes
from keyveil.mechanisms.capabilities import KeyDependence, can
from keyveil.mechanisms.overflow.undercount import judged
from keyveil.mechanisms.responses import Solution
from keyveil.planning.people import Floats, Places
from keyveil.planning.predict import Prediction, Stated

DRAWS = 6
SEED = 17


@dataclass(frozen=True, eq=False)
class Drawn:
    """Root mean squared errors of all frequencies and of all means after shrinkage; of means NaN where none is told."""

    frequency: Floats
    mean: Floats

    def means(self, keys: Places) -> Floats:
        """Errors of the means of some keys, without keys whose mean nobody tells."""
        found = self.mean[keys]
        return found[np.isfinite(found)]


def drawn(one: Prediction) -> Drawn:
    """What shrinkage leaves of errors in ``DRAWS`` equally likely collections; only of a mechanism of one round."""
    assert isinstance(one.stated, Stated)
    coins, people = SeededCoins(SEED), one.people
    squares = np.zeros((2, people.d))
    for case in _cases(one.stated):
        common, *own = _normal(coins, 2 * people.d + 1)
        solution = _solution(one, one.stated, np.reshape(own, (2, people.d)), float(common))
        header = one.mechanism.header(people.n)
        unknown = None if np.isfinite(solution.product).any() else "unknown"
        told = solution.estimates(header, respondents=np.full(people.d, people.n), no_mean=unknown)
        if case is not None:
            told = judged(header, solution, told, case)
        shown = bayes(told)
        squares[0] += (shown.frequency.values - people.frequency) ** 2
        squares[1] += (np.clip(shown.mean.values, -1, 1) - people.mean) ** 2
    frequency, mean = np.sqrt(squares / DRAWS)
    return Drawn(frequency, np.where(np.isfinite(one.mean_se), np.nan_to_num(mean, nan=1.0), np.nan))


def _normal(coins: Coins, count: int) -> Floats:
    """Independent numbers of a standard normal law (Box and Muller)."""
    first, second = (coins.words(2 * count).reshape(2, count) + 0.5) / 2.0**64
    drawn: Floats = np.sqrt(-2 * np.log(first)) * np.cos(2 * np.pi * second)
    return drawn


def _cases(stated: Stated) -> list[Undercount | None]:
    """What may be said of a cap in each draw: some of the equally likely cases, evenly."""
    if stated.cases is None:
        return [None] * DRAWS
    each = stated.cases.each()
    return [each[place * len(each) // DRAWS] for place in range(DRAWS)]


def _solution(one: Prediction, stated: Stated, chances: Floats, common: float) -> Solution:
    """Estimates that are off by so many standard errors, and the errors that they state."""
    expected = stated.expected
    var_f, var_u, covariance = expected.spread
    se = np.sqrt(np.maximum(var_f, 1e-300))
    along = covariance / se
    shared = np.sqrt(min(_shared(one), float(var_f.min())))
    off = np.sqrt(np.maximum(1 - (shared / se) ** 2, 0)) * chances[0] + shared / se * common
    rest = np.sqrt(np.maximum(var_u - along**2, 0))
    return replace(
        expected,
        frequency=expected.frequency + se * off,
        product=expected.product + along * off + rest * chances[1],
        spread=stated.stated,
        noise=None if stated.stated is expected.spread else var_u,
    )


def _shared(one: Prediction) -> float:
    """The variance that the errors of all frequencies have in common: the covariance of two average keys."""
    people, d = one.people, one.people.d
    known = can(one.mechanism, KeyDependence) if one.dependence_known and d > 1 else None
    if known is None:
        return 0.0
    sizes = people.law.sizes
    together = float(people.law.of_people @ (sizes * (sizes - 1.0))) / (d * (d - 1))
    average = people.pairs / d
    return max(replace(known.dependence(), n=people.n).covariance(average, average, together), 0.0)
