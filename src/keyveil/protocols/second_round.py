"""What a pilot makes one believe, and how exact a second round would be if that were true: the planner of TopSel.

Everything here is in floats: it only chooses among rounds, each of which is private whatever is chosen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from keyveil.core.estimates import Estimates
from keyveil.core.schema import GRID, Schema
from keyveil.learn.shrinkage import bayes
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import PredictedVariance, need
from keyveil.mechanisms.responses import Spread
from keyveil.mechanisms.rounds.topsel_project import MOST_BLOCK, MOST_RADIUS, MOST_SCALE, Project

# The score and its constants are explained in docs/protocols-groups.md.
CUT = NormalDist().inv_cdf(0.8)  # the radius is the 80 % quantile of lengths: four vectors of five are not cut
PRIOR = 0.2  # variance of means over keys before any report; predicted errors of means are capped at it
RARE = 0.02  # added to frequencies, so that the scale of a value stays finite for keys that nobody may hold
SPREAD = 1 / 9  # variance of values around their mean m as a share of 1 - m²: of Beta values with concentration 8
KEY_POWERS, VALUE_POWERS, ENERGIES = (0.0, 0.5), (0.0, 0.5, 1.0), (0.1, 0.25, 0.5, 1.0, 2.0)
LENIENT, PENALTIES = (0.06, 0.06, 0.0), (10.0, 5.0, 2.0)  # of frequencies, popular means, all means

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PilotBeliefs:
    """Frequencies and means after the pilot, and how uncertain frequencies and products still are."""

    frequency: Floats
    mean: Floats
    var_frequency: Floats
    var_product: Floats

    @classmethod
    def of(cls, pilot: Estimates) -> PilotBeliefs:
        """What empirical Bayes says after the reports of the pilot."""
        seen = bayes(pilot)
        frequency = np.clip(np.nan_to_num(seen.frequency.values), 0, 1)
        mean = np.clip(np.nan_to_num(seen.mean.values), -1, 1)
        var_frequency = np.nan_to_num(seen.frequency.se, nan=1.0) ** 2
        var_mean = np.nan_to_num(seen.mean.se, nan=1.0) ** 2
        return cls(frequency, mean, var_frequency, frequency**2 * var_mean + mean**2 * var_frequency)

    @property
    def product(self) -> Floats:
        return self.frequency * self.mean

    @property
    def sizes(self) -> Floats:
        """Shares of the people by number of pairs: all hold as many as they do on average."""
        return np.bincount([round(float(self.frequency.sum()))]).astype(np.float64)


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


def projections(schema: Schema, epsilon: Fraction, beliefs: PilotBeliefs, rows: int) -> list[Project]:
    """Projected rounds around what is believed, with different weights for rare keys and for values."""
    f, m = np.clip(beliefs.frequency, 1e-3, 1 - 1e-3), beliefs.mean
    energy = f * (m**2 + SPREAD * (1 - m**2)) - (f * m) ** 2
    found = []
    for key_power, value_power, ratio in product(KEY_POWERS, VALUE_POWERS, ENERGIES):
        keys, values = (f * (1 - f)) ** (-key_power / 2), (f + RARE) ** (-value_power / 2)
        values *= math.sqrt(ratio * (keys**2 * f * (1 - f)).sum() / (values**2 * energy).sum())
        found.append(_around(schema, epsilon, beliefs, np.concatenate((keys, values)), rows))
    return found


def _around(schema: Schema, epsilon: Fraction, beliefs: PilotBeliefs, wanted: Floats, rows: int) -> Project:
    """A projected round with the radius that its vectors need."""
    d, block = schema.d, min(schema.d, MOST_BLOCK) / schema.d
    f, m, u = beliefs.frequency, beliefs.mean, beliefs.product
    # A long vector needs coarser numbers: its radius is bounded.
    size = min(MOST_SCALE / wanted.max(), MOST_RADIUS / (2 * math.sqrt(2 * d) * wanted.max()))
    while True:
        scales = np.maximum(np.rint(wanted * size), 1)
        keys, values = scales[:d] ** 2, scales[d:] ** 2
        held = keys * (1 - f) ** 2 + values * ((m - u) ** 2 + SPREAD * (1 - m**2))
        missing = keys * f**2 + values * u**2
        middle = block * float((f * held + (1 - f) * missing).sum())
        spread = math.sqrt(block * float((f * (1 - f) * (held - missing) ** 2).sum()))
        unsure = block * float((keys * beliefs.var_frequency + values * beliefs.var_product).sum())
        radius = math.sqrt(max(middle + CUT * spread + unsure, 1.0))
        if radius <= MOST_RADIUS:
            break
        size *= 0.9 * MOST_RADIUS / radius
    squares = middle + unsure + spread * np.array([NormalDist().inv_cdf((i + 0.5) / 99) for i in range(99)])
    shrink = float(np.minimum(1, radius / np.sqrt(np.maximum(squares, 1.0))).mean())
    return Project(
        schema,
        epsilon,
        centres=tuple(int(centre) for centre in np.rint(GRID * np.concatenate((f, u)))),
        scales=tuple(int(scale) for scale in scales),
        radius=math.floor(radius),
        rows=rows,
        shrink=Fraction(round(shrink * 10**6), 10**6),
    )
