"""Errors of ``apart`` before anybody reports: from declared lengths, or from people who are known.

Vectors that are too long are cut. By how much on average follows from the declared length of vectors, or from a
sample of people, which also tells of every key whether its holders are cut more than others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from keyveil.core.coins import Coins
from keyveil.core.records import Records
from keyveil.core.schema import GRID
from keyveil.mechanisms.capabilities import Cutting, PredictedVariance, need
from keyveil.mechanisms.merging import Floats
from keyveil.mechanisms.responses import Spread
from keyveil.mechanisms.rounds.topsel_project import gain

if TYPE_CHECKING:
    from keyveil.mechanisms.keyvalue.apart import Apart

LEFT = {0.1: 0.33, 0.4: 0.66, 1.0: 0.90, 1.5: 0.965, 2.0: 0.99}
"""What cutting leaves of vectors, on average, at such squared radii over the mean squared length of a vector
(docs/mechanisms/apart.md; the first by proportion)."""
CONTROLLED = 0.08  # of a vector's energy that the control takes
GUESSED = 0.9  # of what is kept, where too few reports measure it
SURE = 3.0  # standard errors that the control and the mean size must have


class Errors(NamedTuple):
    """What follows from frequencies and sizes alone."""

    var_f: Floats
    noise: float  # variance of a sum of values, before it is divided by what cutting left
    size: float  # pairs a person
    var_size: float


@dataclass(frozen=True)
class Forecast:
    """What to expect of ``n`` people; of a sample of a ``population``, or of these people alone."""

    mechanism: Apart
    n: int
    population: bool = False

    def spread(self, frequency: Floats, mean: Floats, sizes: Floats) -> Spread:
        """As if cutting left what it leaves of vectors of the declared length; the cap is taken not to bind."""
        return self._spread(self._left(frequency, mean, sizes), frequency, mean, self._errors(frequency, sizes))

    def cutting(
        self, records: Records | None, coins: Coins, frequency: Floats, mean: Floats, deviation: Floats, sizes: Floats
    ) -> Cutting:
        """What cutting does beyond ``spread``, averaged over values above and below the mean by ``deviation``.

        What a sum is divided by is the same for all holders, so its error counts at the mean, not at their values. Its
        noise also makes sums larger: the mean of 1/x is above 1/mean.
        """
        left = self._left(frequency, mean, sizes)
        whole = cut = frequency * mean
        if records is not None:
            values = self.mechanism.values
            kept = values.encoder.draw_many(records, coins)
            factor = values.cut_factors(kept)
            left = float(factor @ kept.sizes) / max(float(kept.sizes.sum()), 1.0)
            whole, cut = (
                np.bincount(kept.keys, share * kept.values / GRID, minlength=len(frequency)) / max(kept.n, 1)
                for share in (np.ones(len(kept.keys)), np.repeat(factor, kept.sizes) / left)
            )
        errors = self._errors(frequency, sizes)
        _, noise, size, var_size = errors
        share, relative = self._divisor(left, noise, size, var_size)
        upward = noise / self._counted(left, size) ** 2 if relative else 0.0
        usual = [
            self._spread(self._left(frequency, value, sizes), frequency, value, errors).product
            for value in (mean - deviation, mean + deviation)
        ]
        at_mean = self._spread(left, frequency, mean, errors).product
        between = frequency * deviation**2 * (1.0 if self.population else float(self.mechanism.presence))
        at_mean = at_mean + 3 * upward * noise / share**2  # the mean of 1/x² is above 1/mean²
        variance = at_mean + between / self._people[1] - (usual[0] + usual[1]) / 2
        return Cutting(cut * (left / share) * (1 + upward) - whole, variance)

    def _left(self, frequency: Floats, mean: Floats, sizes: Floats) -> float:
        """What cutting leaves of vectors of the declared length, on average."""
        values, size = self.mechanism.values, float(np.arange(len(sizes)) @ sizes)
        energy = max(float(self.mechanism.typical) ** 2 * size, float(frequency @ mean**2))
        reach = (values.radius / values.unit) ** 2 * (1 - CONTROLLED) / max(energy, 1e-9)
        return float(np.interp(reach, list(LEFT), list(LEFT.values())))

    def _spread(self, left: float, frequency: Floats, mean: Floats, errors: Errors) -> Spread:
        var_f, noise, size, var_size = errors
        share, relative = self._divisor(left, noise, size, var_size)
        heard = float(self.mechanism.presence)
        between = (1.0 if self.population else heard) * frequency * mean**2 / self._people[1]
        together = np.zeros_like(frequency) if self.population else -frequency * mean * (1 - frequency) / self.n
        var_u = noise / share**2 + between + (frequency * mean) ** 2 * relative
        if relative:  # sums are scaled by the mean size, and frequencies share its error
            shared = var_f / max(float(var_f.sum()), 1e-300) * var_size / max(size, 1e-9)
            together = together + frequency * mean * shared
        return Spread(var_f, var_u, together)

    def _errors(self, frequency: Floats, sizes: Floats) -> Errors:
        """Those of the two groups; who tells keys tells nothing of values, so means do not matter."""
        one, heard, size = self.mechanism, float(self.mechanism.presence), float(np.arange(len(sizes)) @ sizes)
        own, unheard = need(one.who, PredictedVariance), 1.0 if self.population else 1 - heard
        fixed, sampled = (
            own.predicted_spread(frequency, np.zeros_like(frequency), sizes, self._people[0], whole).frequency
            for whole in (False, True)
        )
        var_f = fixed + unheard * (sampled - fixed)
        noise = (one.values.radius / (gain(one.values.channel) * one.values.unit)) ** 2 / self._people[1]
        return Errors(var_f, noise, size, one.size_variance(self._people[0], size, var_f, unheard))

    @property
    def _people(self) -> tuple[int, int]:
        """How many tell keys, and how many tell values."""
        heard = float(self.mechanism.presence)
        return max(round(self.n * heard), 1), max(round(self.n * (1 - heard)), 1)

    def _counted(self, left: float, size: float) -> float:
        """The mean of the control."""
        return max(self.mechanism.values.weight / self.mechanism.values.unit * size * left, 1e-6)

    def _divisor(self, left: float, noise: float, size: float, var_size: float) -> tuple[float, float]:
        """By what sums are divided if the share ``left`` is left of vectors, and the relative variance of that."""
        relative = noise / self._counted(left, size) ** 2 + var_size / max(size**2, 1e-12)
        return (GUESSED, 0.0) if relative * SURE**2 > 1 else (left, relative)  # too little to measure what is left
