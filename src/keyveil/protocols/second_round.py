"""What a pilot makes one believe, and how exact a second round would be if that were true: the planner of TopSel.

Everything here is in floats: it only chooses among rounds, each of which is private whatever is chosen.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np
from numpy.typing import NDArray

from keyveil.core.estimates import Estimates
from keyveil.core.schema import GRID, Schema
from keyveil.core.work import spend
from keyveil.learn.shrinkage import bayes
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import PredictedVariance, need
from keyveil.mechanisms.responses import Spread
from keyveil.mechanisms.rounds.energy import Energy
from keyveil.mechanisms.rounds.topsel_project import MOST_RADIUS, MOST_SCALE, MOST_TILT, Project, best_channel, gain
from keyveil.mechanisms.size_law import SizeLaw
from keyveil.protocols.lengths import Lengths

# The score and its constants are explained in docs/protocols-groups.md.
PRIOR = 0.2  # variance of means over keys before any report; predicted errors of means are capped at it
RARE = 0.02  # added to frequencies, so that the scale of a value stays finite for keys that nobody may hold
LEAST_SPREAD = 0.02  # of values around their mean m as a share of 1 - m²: keeps a radius where values seem certain
KEY_POWERS, VALUE_POWERS, ENERGIES = (0.0, 0.5), (0.0, 0.5, 1.0), (0.1, 0.25, 0.5, 1.0, 2.0)
_PROJECTED = 4  # units of work a key, to make one projected round: 0.15 s for 65,536 keys
LENIENT, PENALTIES = (0.06, 0.06, 0.0), (10.0, 5.0, 2.0)  # of frequencies, popular means, all means

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PilotBeliefs:
    """Frequencies and means after the pilot, how uncertain frequencies and products still are, and what sets are like.

    ``spread`` is the variance of values around their key's mean m, as a share of 1 - m²; ``uneven`` is the variance
    between people of the mean square of their values; ``law`` is the law of set sizes.
    """

    frequency: Floats
    mean: Floats
    var_frequency: Floats
    var_product: Floats
    spread: float
    uneven: float
    law: SizeLaw

    @classmethod
    def even(cls, d: int) -> PilotBeliefs:
        """As if half of the people held every key, without doubt."""
        nothing = np.zeros(d)
        return cls(np.full(d, 0.5), nothing, nothing, nothing, 1.0, 0.0, SizeLaw.read(max(d // 2, 1)))

    @classmethod
    def of(cls, pilot: Estimates, energy: Energy | None, law: SizeLaw | None) -> PilotBeliefs:
        """What empirical Bayes says after the reports of the pilot, and what its questions about sets found.

        Where nobody was asked, values are as far from their mean as can be, and all sizes equally likely.
        """
        seen = bayes(pilot)
        frequency = np.clip(np.nan_to_num(seen.frequency.values), 0, 1)
        mean = np.clip(np.nan_to_num(seen.mean.values), -1, 1)
        var_frequency = np.nan_to_num(seen.frequency.se, nan=1.0) ** 2
        var_mean = np.nan_to_num(seen.mean.se, nan=1.0) ** 2
        var_product = frequency**2 * var_mean + mean**2 * var_frequency
        law = law or SizeLaw.of([1.0] * (len(frequency) + 1))
        spread, uneven = (1.0, 0.0) if energy is None else _of_values(energy, frequency, mean, law)
        return cls(frequency, mean, var_frequency, var_product, spread, uneven, law)

    @property
    def product(self) -> Floats:
        return self.frequency * self.mean

    @property
    def sizes(self) -> Floats:
        """Shares of the people by number of pairs: all hold as many as they do on average."""
        return np.bincount([round(float(self.frequency.sum()))]).astype(np.float64)


def _of_values(energy: Energy, frequency: Floats, mean: Floats, law: SizeLaw) -> tuple[float, float]:
    """Spread and unevenness of values, from the means of r and r² over people, of whom those without pairs tell 0."""
    with_pairs = max(1 - float(law.by_size[0]), 0.5)
    typical = float(np.clip(energy.mean / with_pairs, 0, 1))
    uneven = float(np.clip(energy.square / with_pairs - typical**2, 0, typical * (1 - typical)))
    squares = float(frequency @ mean**2) / max(float(frequency.sum()), 1e-6)
    if squares >= 1 - LEAST_SPREAD:
        return LEAST_SPREAD, uneven
    return float(np.clip((typical - squares) / (1 - squares), LEAST_SPREAD, 1)), uneven


@dataclass(frozen=True)
class Risks:
    """Expected squared errors of frequencies, of popular means and of all means."""

    frequency: float
    popular: float
    means: float

    @classmethod
    def of(cls, beliefs: PilotBeliefs, errors: Spread) -> Risks:
        (var_f, var_u, cov), f, m = errors, np.maximum(beliefs.frequency, 1e-6), beliefs.mean
        var_m = np.maximum(var_u + m**2 * var_f - 2 * m * cov, 0) / f**2
        means = var_m * PRIOR / (var_m + PRIOR)
        popular = np.argsort(-f, kind="stable")[: max(len(f) // 5, 1)]
        spread = float(beliefs.frequency.var())
        error = float(var_f.mean())
        return cls(error * spread / (error + spread) if spread else error, float(means[popular].mean()), means.mean())

    def score(self, rivals: Sequence[Risks]) -> float:
        """Less is better; zero is as good as the best of rounds without a projection, in everything."""
        logs = [
            math.log(max(getattr(self, name), 1e-300) / max(min(getattr(one, name) for one in rivals), 1e-300))
            for name in ("frequency", "popular", "means")
        ]
        excess = [max(log - free, 0) for log, free in zip(logs, LENIENT, strict=True)]
        return sum(logs) + sum(cost * over for cost, over in zip(PENALTIES, excess, strict=True))


def risks(mechanism: Mechanism, beliefs: PilotBeliefs, n: int) -> Risks:
    """The errors that a second round of ``n`` people would leave, if what is believed were true."""
    law = need(mechanism, PredictedVariance)
    return Risks.of(beliefs, law.predicted_spread(beliefs.frequency, beliefs.mean, beliefs.sizes, n, population=True))


def projections(schema: Schema, epsilon: Fraction, beliefs: PilotBeliefs, n: int, rows: int) -> Iterator[Project]:
    """Projected rounds of ``n`` people around what is believed, with different weights for rare keys and for values.

    They are made one by one, and priced: a device that reads a document needs the first only.
    """
    f, m = np.clip(beliefs.frequency, 1e-3, 1 - 1e-3), beliefs.mean
    energy = f * (m**2 + beliefs.spread * (1 - m**2)) - (f * m) ** 2
    for key_power, value_power, ratio in product(KEY_POWERS, VALUE_POWERS, ENERGIES):
        keys, values = (f * (1 - f)) ** (-key_power / 2), (f + RARE) ** (-value_power / 2)
        values *= math.sqrt(ratio * (keys**2 * f * (1 - f)).sum() / (values**2 * energy).sum())
        spend(_PROJECTED * schema.d, "Planning a projected round")
        yield _around(schema, epsilon, beliefs, np.concatenate((keys, values)), n, rows)


def _around(schema: Schema, epsilon: Fraction, beliefs: PilotBeliefs, wanted: Floats, n: int, rows: int) -> Project:
    """A projected round with the radius that its vectors need."""
    d = schema.d
    # A long vector needs coarser numbers: its radius is bounded.
    size = min(MOST_SCALE / wanted.max(), MOST_RADIUS / (2 * math.sqrt(2 * d) * wanted.max()))
    while True:
        scales = np.maximum(np.rint(wanted * size), 1)
        lengths = Lengths.of(beliefs, scales[:d] ** 2, scales[d:] ** 2)
        radius = lengths.best_radius(beliefs.frequency, n * gain(best_channel(rows, epsilon)) ** 2)
        if radius <= MOST_RADIUS:
            break
        size *= 0.9 * MOST_RADIUS / radius
    cut = lengths.cut(radius)
    return Project(
        schema,
        epsilon,
        centres=tuple(int(centre) for centre in np.rint(GRID * np.concatenate((beliefs.frequency, beliefs.product)))),
        scales=tuple(int(scale) for scale in scales),
        radius=math.floor(radius),
        rows=rows,
        shrink=Fraction(round(cut.shrink * 10**6), 10**6),
        tilt=Fraction(round(min(max(cut.tilt, -MOST_TILT), MOST_TILT) * 10**6), 10**6),
    )
