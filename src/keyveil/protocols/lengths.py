"""How long the centred vectors of a projected round are, if what a pilot found is true, and what cutting them does.

People differ in how many pairs they hold, and hence in how far they are from the middle of everybody; so lengths are
modelled by set size. Floats are welcome: these numbers choose a public radius and read counts. Derivation:
docs/protocols-groups.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyveil.mechanisms.rounds.topsel_project import MOST_BLOCK

if TYPE_CHECKING:
    from keyveil.protocols.second_round import PilotBeliefs

CUTS = (0.97, 0.99, 0.999)  # quantiles of lengths that a radius may have: hardly anybody's vector is cut
STEPS = 33  # points that stand for the law of lengths among people with equally many pairs

Floats = NDArray[np.float64]

_NORMAL = np.array([NormalDist().inv_cdf((step + 0.5) / STEPS) for step in range(STEPS)])


class Cut(NamedTuple):
    """What a radius leaves of vectors on average, and how far that moves frequencies: by tilt·f·(1 - f)."""

    shrink: float
    tilt: float


@dataclass(frozen=True, eq=False)
class Lengths:
    """Squared lengths, [size, step], with the share of the people of every size, and the sizes."""

    squares: Floats
    shares: Floats
    sizes: Floats
    variance: float  # Σ f·(1 - f)
    keys: Floats  # squared scales of presences

    @classmethod
    def of(cls, beliefs: PilotBeliefs, keys: Floats, values: Floats) -> Lengths:
        """Lengths under squared scales of presences and of values.

        Who holds more pairs than others holds each key more often, in proportion to its variance f·(1 - f). Squared
        lengths of people with equally many pairs follow a gamma law (by the cube root of Wilson and Hilferty).
        """
        f, m, u = beliefs.frequency, beliefs.mean, beliefs.product
        block, law = min(len(f), MOST_BLOCK) / len(f), beliefs.law
        around = beliefs.spread * (1 - m**2)
        held, missing = keys * (1 - f) ** 2 + values * ((m - u) ** 2 + around), keys * f**2 + values * u**2
        variance = max(float((f * (1 - f)).sum()), 1e-6)
        middle, spread = np.empty(len(law.sizes)), np.empty(len(law.sizes))
        for place, size in enumerate(law.sizes.tolist()):  # one after the other: there may be very many keys
            share = np.clip(f + (size - law.mean) * f * (1 - f) / variance, 0, 1)
            middle[place] = block * float((share * held + (1 - share) * missing).sum())
            presence = block * float((share * (1 - share) * (held - missing) ** 2).sum())
            spread[place] = presence + beliefs.uneven * (block * float((share * values).sum())) ** 2
        middle += block * float((keys * beliefs.var_frequency + values * beliefs.var_product).sum())
        middle = np.maximum(middle, 1.0)
        narrow = (spread / middle**2 / 9)[:, None]
        squares = middle[:, None] * np.maximum(1 - narrow + _NORMAL * np.sqrt(narrow), 0.0) ** 3
        return cls(squares, law.of_people, law.sizes.astype(np.float64), variance, keys)

    def radius(self, quantile: float) -> float:
        """The length that this share of the people do not exceed."""
        weights = np.repeat(self.shares / STEPS, STEPS)
        order = np.argsort(self.squares, axis=None)
        reached = min(int(np.searchsorted(np.cumsum(weights[order]), quantile - 1e-9)), len(order) - 1)
        return math.sqrt(max(float(self.squares.ravel()[order[reached]]), 1.0))

    def cut(self, radius: float) -> Cut:
        """What is left of vectors, and how unevenly it is left of those who hold few pairs and many."""
        left = np.minimum(1, radius / np.sqrt(np.maximum(self.squares, 1.0))).mean(axis=1)
        shrink = float(self.shares @ left)
        moved = float(self.shares @ (left * self.sizes)) / shrink - float(self.shares @ self.sizes)
        return Cut(shrink, moved / self.variance)

    def best_radius(self, frequency: Floats, reports: float) -> float:
        """The radius of least predicted error of frequencies, after ``reports`` of gain one.

        Cutting moves all keys to the same side, so that sums of keys are moved most; therefore its square counts once
        for every key.
        """

        def error(radius: float) -> float:
            cut = self.cut(radius)
            noise = radius**2 / (max(reports, 1.0) * cut.shrink**2) * float((1 / self.keys).mean())
            moved = cut.tilt * frequency * (1 - frequency)
            return noise + float(moved @ moved)

        return min((self.radius(quantile) for quantile in CUTS), key=error)
