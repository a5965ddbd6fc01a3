"""Errors of a mechanism before anybody reports: standard errors and bias of every frequency and mean.

Variances come from the closed forms that mechanisms declare (``capabilities.PredictedVariance``). Beside them stands
what a cap takes away from frequencies and, where an overflow group may correct that, what the correction leaves.
Everything is on the scale [-1, 1] of values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np

from keyveil.core.schema import Schema
from keyveil.core.undercount import Undercount
from keyveil.kernels.normal import hazard
from keyveil.lab.coins import SeededCoins
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import (
    Capped,
    Foreseen,
    ForeseenCases,
    ForeseenUndercount,
    ForeseenValues,
    KeyDependence,
    PredictedVariance,
    can,
    need,
)
from keyveil.mechanisms.overflow.undercount import with_undercount
from keyveil.mechanisms.responses import Solution, Spread, fieller
from keyveil.planning.costs import Cost, cost
from keyveil.planning.people import Floats, Kept, People, Places

CASES = 61  # equally likely errors of a frequency and of f·m, over which the error of a mean as shown is averaged
_STEP = 17  # the lattice of these cases in two dimensions has the points (k, 17·k modulo 61)
PAIRS = 25  # of keys of like frequencies, at which the smallest difference is looked for
MANY = 1_000_000  # people of whom one report's part is computed: rounding of shares of them does not matter
HALF_WIDTH = 1.96  # standard errors of half a 95 % interval
SEEN = 1.96 + 0.84
"""Standard errors that a difference must have to be seen: with a two-sided error of 5 % in four cases of five."""


@dataclass(frozen=True, eq=False)
class Stated:
    """What estimates will be made of: f and f·m as expected with their errors, and the errors that will be stated.

    ``cases`` are what may be said of the cap; nothing where nobody is asked of it.
    """

    expected: Solution
    stated: Spread
    cases: ForeseenCases | None

    @property
    def scales(self) -> Floats:
        """What frequencies will be divided by, in equally likely cases."""
        return _UNSCALED if self.cases is None else self.cases.scales

    def half_widths(self, schema: Schema) -> tuple[Floats, Floats]:
        """Half of the 95 % intervals of frequencies and means, in the middle of the cases: a few may be far wider."""
        cases = [Undercount(schema.d)] if self.cases is None else self.cases.each()
        both = [self._of_case(schema, one) for one in cases]
        return np.median([one for one, _ in both], axis=0), np.median([one for _, one in both], axis=0)

    def mean_errors(self, truth: Floats, keys: Places) -> Floats:
        """Root mean squared errors of some means as they are shown: cut to [-1, 1], and 0 where no key is seen.

        Averaged over errors of f and f·m that are equally likely in pairs (``CASES``), as a ratio has no closed form.
        """
        var_f, var_u, covariance = (part[keys] for part in self.expected.spread)
        frequency, product, truth = self.expected.frequency[keys], self.expected.product[keys], truth[keys]
        se = np.sqrt(np.maximum(var_f, 1e-300))
        along = covariance / se
        rest = np.sqrt(np.maximum(var_u - along**2, 0))
        total, score = np.zeros_like(truth), frequency / se
        for some in np.array_split(_PAIRS, max(1, len(_PAIRS) * len(truth) >> 17)):  # a few at a time, to fit in caches
            first, second = some.T[:, :, None]
            ratio = score + first
            moved = _hazard(ratio)  # as ``given_positive`` of estimates does
            shown = (first + moved) * along
            shown += product
            shown += second * rest
            moved += ratio
            moved *= se
            shown /= moved
            np.clip(shown, -1, 1, out=shown)
            shown[ratio <= 0] = 0.0
            shown -= truth
            total += np.einsum("ck,ck->k", shown, shown)
        errors: Floats = np.sqrt(total / len(_PAIRS))
        return errors

    def _of_case(self, schema: Schema, case: Undercount) -> tuple[Floats, Floats]:
        own = replace(self.expected, spread=self.stated)
        told = with_undercount(own, case)
        half = HALF_WIDTH * np.sqrt(told.spread.frequency)
        if case.widens:
            noise = np.sqrt(own.spread.frequency) / case.scale
            highest = case.highest(told.frequency, noise, HALF_WIDTH)
            half = (np.maximum(highest, told.frequency + half) - (told.frequency - half)) / 2
        if not np.isfinite(own.product).any():
            return half, np.full_like(half, np.nan)
        means = fieller(schema, told.frequency, told.product, told.spread, HALF_WIDTH)
        return half, (means.high - means.low) / 2


@dataclass(frozen=True, eq=False)
class Tried:
    """Half-widths and errors of means as shown that were seen in trials."""

    frequency: Floats
    mean: Floats
    errors: Floats

    def half_widths(self, schema: Schema) -> tuple[Floats, Floats]:
        return self.frequency, self.mean

    def mean_errors(self, truth: Floats, keys: Places) -> Floats:
        return self.errors[keys]


NORMAL_CASES = np.array([NormalDist().inv_cdf((place + 0.5) / CASES) for place in range(CASES)])
_PAIRS = np.stack((NORMAL_CASES, NORMAL_CASES[np.arange(CASES) * _STEP % CASES]), axis=1)
"""Points of a lattice as standard errors of two independent normal laws."""
_UNSCALED = np.ones(1)
_STEPS, _FAR = 200, 6  # of the table of hazards: places a unit, and up to where; beyond it they are 0
_HAZARDS = np.append(hazard(np.linspace(-_FAR, _FAR, 2 * _FAR * _STEPS + 1)), 0.0)


def _hazard(ratio: Floats) -> Floats:
    """The hazard of normal laws at the nearest place of the table, right to 0.003: much faster than to compute it."""
    place = ratio * _STEPS
    place += _FAR * _STEPS + 0.5
    np.clip(place, 0, len(_HAZARDS) - 1, out=place)
    found: Floats = _HAZARDS[place.astype(np.intp)]
    return found


@dataclass(frozen=True, eq=False)
class Prediction:
    """What to expect of a mechanism for some people: errors per key, and what they have to send.

    ``frequency_bias`` and ``mean_bias`` are what is wrong on average. Means are NaN where the mechanism tells none, or
    where nobody holds the key. ``changing_se`` is the standard error of a frequency for a population of which these
    people are a sample: what a comparison with another collection has to use. A cap that leaves a share of a frequency
    leaves the same share of a change: ``changing_se`` and ``absent_se``, the error of a key that nobody holds, are
    divided by it.
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
    stated: Stated | Tried  # what intervals will be made of
    sent: float | None = None  # bits that a person sends in all, where that is not one report of ``mechanism``
    asked: tuple[Mechanism, ...] = ()  # of every round that a person is asked, where there are several

    @cached_property
    def frequency_error(self) -> Floats:
        """Root mean squared error of every frequency: standard error and bias together."""
        return np.hypot(self.frequency_se, self.frequency_bias)

    @cached_property
    def mean_error(self) -> Floats:
        """Root mean squared error of every mean."""
        return np.hypot(self.mean_se, self.mean_bias)

    def shown_mean_errors(self, keys: Places) -> Floats:
        """The same of means as shown: cut to [-1, 1], and 0 where a key is not seen; of those keys that are held."""
        held = keys[np.isfinite(self.mean_bias[keys])]
        return self.stated.mean_errors(self.people.mean, held)

    @cached_property
    def half_widths(self) -> tuple[Floats, Floats]:
        """Half of the 95 % intervals of every frequency and mean that will be stated."""
        return self.stated.half_widths(self.mechanism.schema)

    @property
    def tells_means(self) -> bool:
        return bool(np.isfinite(self.mean_se).any())

    @property
    def smallest(self) -> float:
        """The smallest frequency that is told from absence, for a key that was named beforehand."""
        return min(SEEN * self.absent_se, 1.0)

    @cached_property
    def difference(self) -> float:
        """The smallest difference between two keys that is seen: in the middle of pairs of keys of like frequencies."""
        order = self.people.by_frequency
        if len(order) < 2:
            return 1.0
        places = np.unique(np.linspace(0, len(order) - 2, PAIRS).round().astype(np.intp))
        variances = [self._pair_variance(order[place : place + 2]) for place in places]
        return min(SEEN * math.sqrt(float(np.median(variances))), 1.0)

    @property
    def dependence_known(self) -> bool:
        """Whether ``difference`` allows for errors of keys that depend on each other."""
        return self.sent is None and can(self.mechanism, KeyDependence) is not None

    def _pair_variance(self, two: Places) -> float:
        """The variance of the difference of two frequencies.

        Where it is not known how the errors of two keys depend on each other, as if they did not.
        """
        se = self.frequency_se[two]
        known = can(self.mechanism, KeyDependence) if self.dependence_known else None
        if known is None:
            return float(se @ se)
        first, second = two.tolist()
        constants = replace(known.dependence(), n=self.people.n)
        frequency = self.people.frequency
        covariance = constants.covariance(
            float(frequency[first]), float(frequency[second]), self.people.together(first, second)
        )
        return max(float(se @ se) - 2 * covariance, 0.0)

    @property
    def change(self) -> float:
        """The smallest difference between two collections of so many people that is seen: in the middle of all keys."""
        return min(SEEN * math.sqrt(2) * float(np.median(self.changing_se)), 1.0)

    @property
    def bits(self) -> float:
        return self.mechanism.bits_per_report if self.sent is None else self.sent

    @property
    def cost(self) -> Cost | None:
        """What a person's reports cost in all; nothing where a mechanism was not measured."""
        costs = [cost(one) for one in self.asked or (self.mechanism,)]
        known = [one for one in costs if one is not None]
        return Cost(*map(sum, zip(*known, strict=True))) if len(known) == len(costs) else None

    def document(self) -> dict[str, Any]:
        """The numbers of all keys together, as JSON."""
        frequency_width, mean_width = self.half_widths
        widths = mean_width[np.isfinite(self.mean_se) & np.isfinite(mean_width)]
        return {
            **self.numbers(),
            "half_width_frequency": root_mean_square(frequency_width),
            "half_width_mean": float(np.median(widths)) if len(widths) else None,
            "heard": self.heard,
            "tally_numbers": math.prod(self.mechanism.tally_shape),
        }

    def numbers(self) -> dict[str, Any]:
        """Those of them that a table shows; half-widths take longer."""
        known, told = self.shown_mean_errors(self.people.typical_keys), np.isfinite(self.mean_se)
        return {
            "se_frequency": root_mean_square(self.frequency_se),
            "bias_frequency": root_mean_square(self.frequency_bias),
            "error_frequency": root_mean_square(self.frequency_error),
            "se_mean": float(np.median(self.mean_se[told])) if told.any() else None,
            "error_mean": root_mean_square(known) if len(known) else None,
            "smallest": self.smallest,
            "difference": self.difference,
            "difference_allows_for_dependence": self.dependence_known,
            "change": self.change,
            "bits": self.bits,
            "device_us": None if self.cost is None else self.cost.device,
            "server_us": None if self.cost is None else self.cost.server,
        }


def predict(mechanism: Mechanism, people: People) -> Prediction:
    """The errors of a mechanism; refused if it declares no closed form of them."""
    capped = can(mechanism, Capped)
    kept = Kept(np.ones(people.d), people.mean) if capped is None else people.kept(capped.cap())
    sizes = people.law.by_size if capped is None else people.cut(capped.cap())
    frequency = people.frequency * kept.share
    own = need(mechanism, PredictedVariance)
    absent, heard = _of_one_report(_Asked.of(mechanism, sizes))
    absent /= people.n
    values = _values(mechanism, people, frequency, kept.mean, sizes)
    if values is None:
        spread = stated = _spread(own, frequency, kept.mean, people.spread, sizes, people.n, heard)
    else:
        var_f = own.predicted_spread(frequency, kept.mean, sizes, people.n, False).frequency
        spread = Spread(var_f, values.product, values.covariance)
        stated = Spread(var_f, values.stated_product, values.stated_covariance)
    undercount = can(mechanism, ForeseenUndercount)
    cases = (
        None if undercount is None else undercount.foreseen_undercounts(frequency, spread, people.law.by_size, people.n)
    )
    scales = _UNSCALED if cases is None else cases.scales
    factors = 1 / scales
    times, larger = float(factors.mean()), float(factors @ factors) / len(factors)
    bias, correcting = frequency * times - people.frequency, frequency**2 * max(larger - times**2, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        m = kept.mean + (0.0 if values is None else np.where(frequency > 0, values.bias / frequency, 0.0))
        var_m = np.maximum(spread.product + m**2 * spread.frequency - 2 * m * spread.covariance, 0) / frequency**2
    held = people.frequency > 0
    seen = kept.share * times  # what is left of a frequency, and so of a change of it
    seen_of_all = float(seen @ people.frequency) / max(people.pairs, 1e-12)
    return Prediction(
        mechanism,
        people,
        np.sqrt(spread.frequency * larger + correcting),
        bias,
        np.where(held, np.sqrt(var_m), np.nan),
        np.where(held & np.isfinite(spread.product), m - people.mean, np.nan),
        np.sqrt((spread.frequency + frequency * (1 - frequency) / people.n) * larger) / np.maximum(seen, 1e-9),
        math.sqrt(absent) / max(seen_of_all, 1e-9),
        heard,
        Stated(Solution(frequency, frequency * m, spread), stated, cases),
    )


def _values(mechanism: Mechanism, people: People, frequency: Floats, mean: Floats, sizes: Floats) -> Foreseen | None:
    """Errors of f·m that depend on how values are cut, where a mechanism does that."""
    cutting = can(mechanism, ForeseenValues)
    if cutting is None:
        return None
    return cutting.foreseen_values(
        people.known_records, SeededCoins(0), frequency, mean, people.spread, sizes, people.n
    )


def root_mean_square(numbers: Floats) -> float:
    return float(np.sqrt(np.mean(numbers**2)))


@dataclass(frozen=True)
class _Asked:
    """A mechanism and the law of set sizes of those whom it asks; equal if they are, whatever objects they are."""

    key: tuple[Any, ...]
    mechanism: Mechanism = field(compare=False)
    sizes: Floats = field(compare=False)

    @classmethod
    def of(cls, mechanism: Mechanism, sizes: Floats) -> _Asked:
        options = mechanism.options if mechanism.readings else {}
        readings = tuple(str(options.get(name)) for name in sorted(mechanism.readings))
        return cls((mechanism.fingerprint, readings, sizes.tobytes()), mechanism, sizes)


@lru_cache(maxsize=512)
def _of_one_report(asked: _Asked) -> tuple[float, float]:
    """The variance of the frequency of a key that nobody holds, of one report; the share of reports about a key.

    Both are the same for any number of people, so plans for other people need not find them again. The variance of f·m
    of a sample of n, at m = 1, is (a + b·f - f²)/(n·share): its bend in f says the share.
    """
    own, d, n = need(asked.mechanism, PredictedVariance), asked.mechanism.schema.d, MANY
    share = np.resize((0.0, 0.5, 1.0), d)  # nobody, half of the people and everybody
    spread = own.predicted_spread(share, np.ones(d), asked.sizes, n, True)
    absent, product = n * float(spread.frequency[0]), spread.product
    if d < 3 or not np.isfinite(product[:3]).all():
        return absent, 1.0
    least, middle, most = (float(product[at::3].mean()) for at in range(3))
    bend = 2 * middle - least - most
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
