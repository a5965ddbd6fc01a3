"""Errors of ``apart`` before anybody reports: from declared lengths, or from people who are known.

Vectors that are too long are cut. By how much on average follows from the declared length of vectors, or from a
sample of people, which also tells of every key whether its holders are cut more than others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from keyveil.core.coins import Coins
from keyveil.core.records import Records
from keyveil.core.schema import GRID
from keyveil.mechanisms.capabilities import Foreseen, KeyDependence, PredictedVariance, can, need
from keyveil.mechanisms.merging import Floats
from keyveil.mechanisms.responses import Spread
from keyveil.mechanisms.rounds.topsel_project import gain

if TYPE_CHECKING:
    from keyveil.mechanisms.base import Mechanism
    from keyveil.mechanisms.keyvalue.apart import Apart
    from keyveil.mechanisms.rounds.value_projection import ValueProjection

LEFT = {0.1: 0.33, 0.4: 0.66, 1.0: 0.90, 1.5: 0.965, 2.0: 0.99}
"""What cutting leaves of vectors, on average, at such squared radii over the mean squared length of a vector
(docs/mechanisms/apart.md; the first by proportion)."""
CONTROLLED = 0.08  # of a vector's energy that the control takes
GUESSED = 0.9  # of what is kept, where too few reports measure it
GUESSED_SPREAD = 0.1  # relative variance of that
SURE = 3.0  # standard errors that the control and the mean size must have
LEAST_KEPT, MOST_KEPT = 0.05, 1.05  # between which the measured share is believed
UNALIKE = 0.1  # of what is cut off on average, which may be cut off one holder more than another


class Errors(NamedTuple):
    """What follows from frequencies and sizes alone."""

    var_f: Floats
    noise: float  # variance of a sum of values, before it is divided by what cutting left
    size: float  # pairs a person
    var_size: float


class Moments(NamedTuple):
    """Averages over people, of keys and of all: a value v, what cutting leaves of it (cut), and pairs s and c·s.

    c is what cutting leaves of a person's vector; ``counted`` is c·s, ``held`` 1 for holders of the key.
    """

    whole: Floats  # v
    cut: Floats  # c·v
    squares: Floats  # (c·v)²
    counted: float  # c·s
    sizes: float  # s
    counted_squares: float
    counted_sizes: float
    size_squares: float
    cut_counted: Floats
    cut_sizes: Floats
    held_counted: Floats
    held_sizes: Floats


def _of_people(values: ValueProjection, kept: Records) -> Moments:
    """The moments of records within the cap."""
    factor, sizes, d = values.cut_factors(kept), kept.sizes.astype(np.float64), values.schema.d
    each, held = np.repeat(factor, kept.sizes), np.repeat(sizes, kept.sizes)
    value = kept.values / GRID
    cut, counted = each * value, factor * sizes

    def by_key(numbers: Floats) -> Floats:
        total: Floats = np.bincount(kept.keys, numbers, minlength=d) / kept.n
        return total

    return Moments(
        whole=by_key(value),
        cut=by_key(cut),
        squares=by_key(cut**2),
        counted=float(counted.mean()),
        sizes=float(sizes.mean()),
        counted_squares=float((counted**2).mean()),
        counted_sizes=float((counted * sizes).mean()),
        size_squares=float((sizes**2).mean()),
        cut_counted=by_key(cut * each * held),
        cut_sizes=by_key(cut * held),
        held_counted=by_key(each * held),
        held_sizes=by_key(held),
    )


@dataclass(frozen=True)
class Forecast:
    """What to expect of ``n`` people; of a sample of a ``population``, or of these people alone."""

    mechanism: Apart
    n: int
    population: bool = False

    def spread(self, frequency: Floats, mean: Floats, sizes: Floats) -> Spread:
        """As if cutting left what it leaves of vectors of the declared length; the cap is taken not to bind."""
        return self._spread(self._left(frequency, mean, sizes), frequency, mean, self._errors(frequency, sizes))

    def foreseen(
        self, records: Records | None, coins: Coins, frequency: Floats, mean: Floats, deviation: Floats, sizes: Floats
    ) -> Foreseen:
        """Errors of f·m to first order in the errors of keys and sizes; in what the control says they are exact.

        Derivation: docs/mechanisms/apart.md, "Errors before anybody reports".
        """
        moments = self._moments(records, coins, frequency, mean, deviation, sizes)
        own = self.mechanism
        _, noise, size, var_size = self._errors(frequency, sizes)
        weight = own.values.weight / own.values.unit
        cases = self._divisors(weight * moments.counted, noise, weight * size, size, var_size)
        times, square = float(np.mean(1 / cases)), float(np.mean(1 / cases**2))
        product = moments.cut * times
        heard = float(own.presence)
        ahead, back = math.sqrt(heard / (1 - heard)), math.sqrt((1 - heard) / heard)
        # what one person moves: a value by ahead·times, the control by -control, the mean size and the key by -back
        control, total = ahead * product / max(moments.counted, 1e-9), back * product / max(size, 1e-9)
        if not self._measures(weight * moments.counted, noise, size, var_size):
            control, total = np.zeros_like(product), np.zeros_like(product)
        one = ahead * times
        said, on_average = one * moments.cut, one * moments.cut - control * moments.counted - total * moments.sizes
        between = (
            one**2 * moments.squares
            + control**2 * moments.counted_squares
            + total**2 * moments.size_squares
            - 2 * one * (control * moments.cut_counted + total * moments.cut_sizes)
            + 2 * control * total * moments.counted_sizes
            - on_average**2
        )
        with_key = said - control * moments.held_counted - total * moments.held_sizes - frequency * on_average
        fixed_f, fixed_size = self._within(frequency, sizes)
        share = fixed_f / max(float(fixed_f.sum()), 1e-300)  # of the error of the size that a key has a part in
        relative = fixed_size / max(size, 1e-9) ** 2 if control.any() or total.any() else 0.0
        spread_of_times = float(np.var(1 / cases))
        variance = noise * square + np.maximum(between, 0) / self.n + moments.cut**2 * spread_of_times
        variance = variance + product**2 * relative
        covariance = -back * with_key / self.n + product * share * relative * size
        measured = noise / max(weight * moments.counted, 1e-9) ** 2 + var_size / max(size, 1e-9) ** 2
        middle = float(np.sort(cases)[len(cases) // 2])
        stated = noise * square + self._allowed(frequency, product, middle, min(measured, GUESSED_SPREAD))
        return Foreseen(product - moments.whole, variance, covariance, stated, -product * (1 - frequency) / self.n)

    def _allowed(self, frequency: Floats, product: Floats, left: float, relative: float) -> Floats:
        """What the stated variance of f·m has beyond noise, as ``Apart.decoded`` states it."""
        square, lost = float(self.mechanism.typical) ** 2, max(1 / left - 1, 0.0)
        unheard = float(self.mechanism.presence) * frequency * square / self._people[1]
        unalike = np.maximum(product**2, frequency**2 * square) * max(lost**2, UNALIKE * lost)
        return unheard + product**2 * relative + unalike

    def _moments(
        self, records: Records | None, coins: Coins, frequency: Floats, mean: Floats, deviation: Floats, sizes: Floats
    ) -> Moments:
        """Of people who are known; or as if sizes, values and what cutting leaves had nothing to do with each other."""
        if records is not None and records.n:
            return _of_people(self.mechanism.values, self.mechanism.values.encoder.draw_many(records, coins))
        left, pairs = self._left(frequency, mean, sizes), np.arange(len(sizes))
        size, square = float(pairs @ sizes), float(pairs**2 @ sizes)
        among_holders = square / max(size, 1e-9)  # pairs of a key's holder, on average
        whole, values = frequency * mean, frequency * (mean**2 + deviation**2)
        return Moments(
            whole=whole,
            cut=left * whole,
            squares=left**2 * values,
            counted=left * size,
            sizes=size,
            counted_squares=left**2 * square,
            counted_sizes=left * square,
            size_squares=square,
            cut_counted=left**2 * whole * among_holders,
            cut_sizes=left * whole * among_holders,
            held_counted=left * frequency * among_holders,
            held_sizes=frequency * among_holders,
        )

    def _divisors(self, control: float, noise: float, expected: float, size: float, var_size: float) -> Floats:
        """What sums will be divided by, in equally likely cases of what the control says."""
        told = control + math.sqrt(noise) * _cases()
        sure = (told >= SURE * math.sqrt(noise)) & (size >= SURE * math.sqrt(var_size)) & (expected > 0)
        share = np.clip(told / max(expected, 1e-9), LEAST_KEPT, MOST_KEPT)
        divisors: Floats = np.where(sure, share, GUESSED)
        return divisors

    def _measures(self, control: float, noise: float, size: float, var_size: float) -> bool:
        """Whether the control will mostly be sure."""
        return control >= SURE * math.sqrt(noise) and size >= SURE * math.sqrt(var_size)

    def _within(self, frequency: Floats, sizes: Floats) -> tuple[Floats, float]:
        """The variances of frequencies and of the mean size that come from coins alone."""
        who, people = self.mechanism.who, self._people[0]
        fixed, _ = _presence(_Asked(who, people, frequency, sizes))
        known = can(who, KeyDependence)
        if known is None:
            return fixed, self.mechanism.size_variance(people, float(frequency.sum()), fixed, 0.0)
        constants = replace(known.dependence(False), n=people)
        return fixed, constants.variance(np.ones_like(frequency), frequency, np.sqrt(fixed))

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
        unheard = 1.0 if self.population else 1 - heard
        fixed, sampled = _presence(_Asked(one.who, self._people[0], frequency, sizes))
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


class _Asked:
    """Who tells keys, how many they are, and what they hold; equal if the same arrays are meant."""

    def __init__(self, who: Mechanism, people: int, frequency: Floats, sizes: Floats) -> None:
        self.who, self.people, self.frequency, self.sizes = who, people, frequency, sizes

    def __hash__(self) -> int:
        return hash((id(self.who), self.people, id(self.frequency)))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Asked)
            and self.people == other.people
            and all(
                one is another
                for one, another in (
                    (self.who, other.who),
                    (self.frequency, other.frequency),
                    (self.sizes, other.sizes),
                )
            )
        )


@lru_cache(maxsize=1)  # a prediction asks for the same several times
def _presence(asked: _Asked) -> tuple[Floats, Floats]:
    """Variances of frequencies for the people who tell keys: of these people, and of those of whom they are a sample.

    Whoever tells keys tells nothing of values, so means do not matter.
    """
    own, frequency = need(asked.who, PredictedVariance), asked.frequency
    fixed = own.predicted_spread(frequency, np.zeros_like(frequency), asked.sizes, asked.people, False).frequency
    return fixed, fixed + frequency * (1 - frequency) / asked.people


@cache
def _cases() -> Floats:
    """Standard errors by which the control may be off, equally likely."""
    from statistics import NormalDist  # brings in much that a device never needs

    return np.array([NormalDist().inv_cdf((place + 0.5) / 99) for place in range(99)])
