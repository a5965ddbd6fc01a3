"""Errors of a mechanism before anybody reports: standard errors and bias of every frequency and mean.

Variances come from the closed forms that mechanisms declare (``capabilities.PredictedVariance``). Beside them stands
what a cap takes away from frequencies and, where an overflow group may correct that, what the correction leaves.
Everything is on the scale [-1, 1] of values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np

from keyveil.lab.coins import SeededCoins
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import Capped, Cutting, PredictedCutting, PredictedVariance, can, need
from keyveil.mechanisms.responses import Spread
from keyveil.planning.people import Floats, Kept, People

PRIOR = 0.2
"""Variance of means over keys before any report, as in ``protocols.second_round``: where a mean is hardly known, this
is the squared error of whoever says 0, so that no mean counts as worse."""
HALF_WIDTH = 1.96  # standard errors of half a 95 % interval
SEEN = 1.96 + 0.84
"""Standard errors that a difference must have to be seen: with a two-sided error of 5 % in four cases of five."""


@runtime_checkable
class Corrected(Protocol):
    """Frequencies may be divided by what a cap leaves of them, as an overflow group tells it."""

    def predicted_scales(self, frequency: Floats, spread: Spread, sizes: Floats, n: int) -> Floats:
        """Equally likely divisors, at the frequencies that the cap leaves and the shares of people by set size."""


@dataclass(frozen=True, eq=False)
class Prediction:
    """What to expect of a mechanism for some people: errors per key, and what they have to send.

    ``frequency_bias`` and ``mean_bias`` are what is wrong on average. Means are NaN where the mechanism tells none, or
    where nobody holds the key. ``changing_se`` is the standard error of a frequency for a population of which these
    people are a sample: what a comparison with another collection has to use.
    """

    mechanism: Mechanism
    people: People
    frequency_se: Floats
    frequency_bias: Floats
    mean_se: Floats
    mean_bias: Floats
    changing_se: Floats
    absent_se: float
    heard: float  # the share of reports that say something about a key
    sent: float | None = None  # bits that a person sends in all, where that is not one report of ``mechanism``

    @cached_property
    def frequency_error(self) -> Floats:
        """Root mean squared error of every frequency: standard error and bias together."""
        return np.hypot(self.frequency_se, self.frequency_bias)

    @cached_property
    def mean_error(self) -> Floats:
        """Root mean squared error of every mean."""
        return np.hypot(self.mean_se, self.mean_bias)

    @cached_property
    def bounded_mean_error(self) -> Floats:
        """The same of who knows that means lie in [-1, 1]: at most √``PRIOR``; NaN where nobody holds a key."""
        square = self.mean_error**2
        bounded: Floats = np.sqrt(np.where(np.isinf(square), PRIOR, square * PRIOR / (square + PRIOR)))
        return bounded

    @property
    def tells_means(self) -> bool:
        return bool(np.isfinite(self.mean_se).any())

    @property
    def smallest(self) -> float:
        """The smallest frequency that is told from absence, for a key that was named beforehand."""
        return min(SEEN * self.absent_se, 1.0)

    @property
    def difference(self) -> float:
        """The smallest difference between two keys that is seen: in the middle of all keys."""
        return min(SEEN * math.sqrt(2) * float(np.median(self.frequency_se)), 1.0)

    @property
    def change(self) -> float:
        """The smallest difference between two collections of so many people that is seen: in the middle of all keys."""
        return min(SEEN * math.sqrt(2) * float(np.median(self.changing_se)), 1.0)

    @property
    def bits(self) -> float:
        return self.mechanism.bits_per_report if self.sent is None else self.sent

    def document(self) -> dict[str, Any]:
        """The numbers of all keys together, as JSON."""
        known = self.bounded_mean_error[np.isfinite(self.bounded_mean_error)]
        mean_se = self.mean_se[np.isfinite(self.mean_se)]
        return {
            "se_frequency": root_mean_square(self.frequency_se),
            "bias_frequency": root_mean_square(self.frequency_bias),
            "error_frequency": root_mean_square(self.frequency_error),
            "half_width_frequency": HALF_WIDTH * root_mean_square(self.frequency_se),
            "se_mean": float(np.median(mean_se)) if len(mean_se) else None,
            "half_width_mean": HALF_WIDTH * float(np.median(mean_se)) if len(mean_se) else None,
            "error_mean": root_mean_square(known) if len(known) else None,
            "smallest": self.smallest,
            "difference": self.difference,
            "change": self.change,
            "heard": self.heard,
            "bits": self.bits,
            "tally_numbers": math.prod(self.mechanism.tally_shape),
        }


def predict(mechanism: Mechanism, people: People) -> Prediction:
    """The errors of a mechanism; refused if it declares no closed form of them."""
    capped = can(mechanism, Capped)
    kept = Kept(np.ones(people.d), people.mean) if capped is None else people.kept(capped.cap())
    sizes = people.law.by_size if capped is None else people.cut(capped.cap())
    frequency = people.frequency * kept.share
    own = need(mechanism, PredictedVariance)
    absent, heard = _of_one_report(own, people.d, sizes, people.n)
    spread = _spread(own, frequency, kept.mean, people.spread(), sizes, people.n, heard)
    scales = (
        mechanism.predicted_scales(frequency, spread, people.law.by_size, people.n)
        if isinstance(mechanism, Corrected)
        else np.ones(1)
    )
    larger = float(np.mean(scales**-2))
    off = np.outer(1 / scales, frequency) - people.frequency  # in each of the equally likely cases
    bias, correcting = off.mean(axis=0), off.var(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        m = kept.mean
        cutting = _cutting(mechanism, people, frequency, m, sizes)
        var_m = (
            np.maximum(spread.product + cutting.variance + m**2 * spread.frequency - 2 * m * spread.covariance, 0)
            / frequency**2
        )
        cut = np.where(frequency > 0, cutting.bias / frequency, 0.0)
    held = people.frequency > 0
    return Prediction(
        mechanism,
        people,
        np.sqrt(spread.frequency * larger + correcting),
        bias,
        np.where(held, np.sqrt(var_m), np.nan),
        np.where(held & np.isfinite(spread.product), kept.mean - people.mean + cut, np.nan),
        np.sqrt((spread.frequency + frequency * (1 - frequency) / people.n) * larger),
        math.sqrt(absent),
        heard,
    )


def _cutting(mechanism: Mechanism, people: People, frequency: Floats, mean: Floats, sizes: Floats) -> Cutting:
    """What cutting large values off does, where a mechanism does that."""
    if not isinstance(mechanism, PredictedCutting):
        return Cutting(np.zeros_like(frequency), np.zeros_like(frequency))
    return mechanism.predicted_cutting(
        people.known_records, SeededCoins(0), frequency, mean, people.spread(), sizes, people.n
    )


def root_mean_square(numbers: Floats) -> float:
    return float(np.sqrt(np.mean(numbers**2)))


def _of_one_report(own: PredictedVariance, d: int, sizes: Floats, n: int) -> tuple[float, float]:
    """The variance of the frequency of a key that nobody holds, and the share of reports that speak about a key.

    The variance of f·m of a sample, at m = 1, is (a + b·f - f²)/(n·share): its bend in f says the share.
    """
    share = np.arange(d) % 3 / 2  # nobody, half of the people and everybody
    spread = own.predicted_spread(share, np.ones(d), sizes, n, True)
    absent, (least, middle, most) = float(spread.frequency[::3].mean()), (spread.product[at::3] for at in range(3))
    if d < 3 or not np.isfinite(spread.product).all():
        return absent, 1.0
    bend = float(2 * middle.mean() - least.mean() - most.mean())
    return absent, min(max(0.5 / (n * bend), 1 / d), 1.0) if bend > 0 else 1.0


def _spread(
    own: PredictedVariance, frequency: Floats, mean: Floats, deviation: Floats, sizes: Floats, n: int, heard: float
) -> Spread:
    """Variances where half of the holders have a value above the mean by ``deviation``, and half below.

    Closed forms take values as constant. What a report says of a person is linear in what the person is, so the
    variance within people is the average of those of the two halves. Between people, of whom reports about a key hear
    the share ``heard``, the average takes f²·deviation² too much off (docs/plan.md).
    """
    low, high = (own.predicted_spread(frequency, mean + side * deviation, sizes, n, False) for side in (-1, 1))
    product = (low.product + high.product) / 2 + (frequency * deviation) ** 2 * (1 / heard - 1) / n
    return Spread(low.frequency, product, (low.covariance + high.covariance) / 2)
