"""Channels: where probabilities live, as integer weights over a constant total.

Four shapes carry every mechanism. Each knows how to draw an output, how likely it is, and the largest ratio of two
of its rows, all from the same integers:

* ``Table``: every weight written out, for small alphabets;
* ``Product``: one small table at each of many coordinates (unary encodings, Bloom filters);
* ``Subset``: all subsets of one size, heavier if they meet what a person holds;
* ``TwoLevel``: one weight on the marked outputs, another on the rest.

Whatever an encoder does before — sampling, rounding, padding — only mixes rows, and the ratio of two mixtures never
exceeds the largest ratio of two rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.core.coins import Coins
from keyveil.core.epsilon import RESOLUTION, levels, lie_threshold
from keyveil.core.errors import PrivacyError
from keyveil.core.work import priced_comb

Ratio = Fraction | float  # a float only when infinite


def universal_variation(ratio: Ratio) -> Fraction:
    """The largest total variation of two laws whose probabilities differ by a factor of at most ``ratio``."""
    return Fraction(1) if ratio == math.inf else (Fraction(ratio) - 1) / (Fraction(ratio) + 1)


@dataclass(frozen=True)
class Table:
    """``weights[input][output]``; every row has the same total."""

    weights: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        totals = {sum(row) for row in self.weights}
        if len(totals) != 1 or min(min(row) for row in self.weights) < 0 or 0 in totals:
            raise PrivacyError("privacy/weights", "The rows of a table need weights of one positive total.")

    @property
    def total(self) -> int:
        return sum(self.weights[0])

    def probability(self, input: int, output: int) -> Fraction:
        return Fraction(self.weights[input][output], self.total)

    def ratio_between(self, input: int, other: int) -> Ratio:
        """The most that an output can be likelier under one input than under another."""
        pairs = zip(self.weights[input], self.weights[other], strict=True)
        return max((math.inf if low == 0 else Fraction(high, low)) for high, low in pairs if high)

    @cached_property
    def ratio(self) -> Ratio:
        """The same over all pairs of inputs: of every output, the largest weight against the smallest."""
        extremes = [(max(column), min(column)) for column in zip(*self.weights, strict=True)]
        return max((math.inf if low == 0 else Fraction(high, low)) for high, low in extremes if high)

    @cached_property
    def variation(self) -> Fraction:
        """The largest total variation of two rows; that of mixtures of rows is never larger."""
        rows = combinations(self.weights, 2)
        apart = (sum(max(a - b, 0) for a, b in zip(one, other, strict=True)) for one, other in rows)
        return Fraction(max(apart, default=0), self.total)

    def draw(self, input: int, coins: Coins) -> int:
        return coins.choose(self.weights[input])

    def draw_many(self, inputs: NDArray[np.int64], coins: Coins) -> NDArray[np.int64]:
        outputs = np.empty(len(inputs), dtype=np.int64)
        for input, weights in enumerate(self.weights):
            places = np.flatnonzero(inputs == input)
            outputs[places] = coins.choose_many(weights, len(places))
        return outputs

    def matrix(self) -> NDArray[np.float64]:
        """P[output | input] as floats, outputs down and inputs across, for EM."""
        return np.array([[weight / self.total for weight in row] for row in self.weights]).T


def binary(truth_of_one: int, truth_of_zero: int, resolution: int = RESOLUTION) -> Table:
    """A table on {0, 1}: a one stays one, and a zero becomes one, in so many of ``resolution`` draws."""
    return Table(((resolution - truth_of_zero, truth_of_zero), (resolution - truth_of_one, truth_of_one)))


def true_state(states: int, epsilon: Fraction) -> Table:
    """Randomised response over so many states: the true one with weight e^epsilon, each other one with weight 1."""
    (high, low), each = levels(epsilon), range(states)
    return Table(tuple(tuple(high if output == state else low for output in each) for state in each))


def randomised_response(epsilon: Fraction) -> Table:
    """Binary randomised response: the truth with probability e^epsilon / (e^epsilon + 1), rounded down."""
    lie = lie_threshold(epsilon)
    return binary(RESOLUTION - lie, lie)


@dataclass(frozen=True)
class Product:
    """The same small table at each of ``length`` coordinates; state 0 is cold, and at most ``hot`` are not."""

    factor: Table
    length: int
    hot: int = 1

    @cached_property
    def ratio(self) -> Ratio:
        """A coordinate may be hot in one input, in the other, or in both; disjoint ones tell most, if there is room."""
        states = range(1, len(self.factor.weights))
        gained = max(self.factor.ratio_between(state, 0) for state in states)
        lost = max(self.factor.ratio_between(0, state) for state in states)
        changed = max(self.factor.ratio_between(state, other) for state in states for other in states)
        if math.inf in (gained, lost, changed):
            return math.inf
        return max(
            Fraction(gained) ** mine * Fraction(lost) ** theirs * Fraction(changed) ** both
            for both in range(min(self.hot, self.length) + 1)
            for mine in range(min(self.hot, self.length) - both + 1)
            for theirs in [min(self.hot - both, self.length - both - mine)]
        )

    @cached_property
    def variation(self) -> Fraction:
        """The largest total variation of two inputs: exact if one coordinate is hot, otherwise that of any channel."""
        if self.hot > 1:
            return universal_variation(self.ratio)
        cold, *states = self.factor.weights
        two = product(states, repeat=2) if self.length > 1 else ()
        others = ((_pairs(one, cold), _pairs(cold, other)) for one, other in two)
        apart = (sum(max(a - b, 0) for a, b in zip(one, other, strict=True)) for one, other in others)
        return max(self.factor.variation, Fraction(max(apart, default=0), self.factor.total**2))

    def draw_ones(self, hot: Sequence[int], coins: Coins) -> NDArray[np.bool_]:
        """Of a binary factor: which coordinates answer one, if those of ``hot`` (rising) have state 1.

        The cold ones are drawn first, then the hot ones.
        """
        outside = self.length - len(hot)
        cold, own = (self.factor.weights[state][1] for state in (0, 1))
        drawn = coins.chances(cold, self.factor.total, outside)
        ones = coins.chances(own, self.factor.total, len(hot))
        return spread(drawn, hot, ones)


def spread(others: NDArray[Any], places: Sequence[int], own: NDArray[Any]) -> NDArray[Any]:
    """``own`` at the given places, which rise, and ``others`` in order around them."""
    together = np.empty(len(others) + len(own), dtype=others.dtype)
    start = 0
    for number, place in enumerate(places):
        together[start:place] = others[start - number : place - number]
        together[place] = own[number]
        start = place + 1
    together[start:] = others[start - len(own) :]
    return together


@dataclass(frozen=True)
class Subset:
    """All subsets of one ``size``: weight ``high`` if one meets the ``held`` symbols of a person, else ``low``."""

    symbols: int
    size: int
    held: int
    high: int
    low: int

    @cached_property
    def hit_weights(self) -> tuple[int, ...]:
        """Weight of all subsets with exactly j held symbols, j = 0, 1, … ."""
        others = self.symbols - self.held
        return tuple(
            (self.high if hits else self.low) * math.comb(self.held, hits) * priced_comb(others, self.size - hits)
            for hits in range(min(self.held, self.size) + 1)
        )

    @cached_property
    def total(self) -> int:
        return sum(self.hit_weights)

    @property
    def ratio(self) -> Ratio:
        return Fraction(self.high, self.low) if self.hit_weights[0] else Fraction(1)

    @property
    def variation(self) -> Fraction:
        """The largest total variation of two persons, who hold as few symbols in common as possible."""
        apart = max(self.symbols - 2 * self.held, 0)  # symbols that neither holds
        count = priced_comb(self.symbols - self.held, self.size) - priced_comb(apart, self.size)
        return Fraction((self.high - self.low) * count, self.total)

    def _containing(self, chosen: int, held: int) -> Fraction:
        """P[a report contains ``chosen`` given symbols, ``held`` of which the person holds]."""
        symbols, size = self.symbols - chosen, self.size - chosen
        if size < 0:
            return Fraction(0)
        everything = priced_comb(symbols, size)
        if held:
            return Fraction(self.high * everything, self.total)
        missing = priced_comb(symbols - self.held, size) if symbols >= self.held else 0
        return Fraction(self.low * missing + self.high * (everything - missing), self.total)

    @cached_property
    def own(self) -> Fraction:
        """P[a held symbol is in the report]."""
        return self._containing(1, 1)

    @cached_property
    def other(self) -> Fraction:
        """P[a symbol that is not held is in the report]."""
        return self._containing(1, 0)

    @cached_property
    def own_and_other(self) -> Fraction:
        """P[a held and a foreign symbol are both in the report]."""
        return self._containing(2, 1)

    @cached_property
    def two_others(self) -> Fraction:
        """P[two symbols that are not held are both in the report]."""
        return self._containing(2, 0)

    @property
    def chances(self) -> tuple[Fraction, Fraction, Fraction, Fraction]:
        """``own``, ``other``, ``own_and_other`` and ``two_others``."""
        return self.own, self.other, self.own_and_other, self.two_others

    def draw(self, held: Sequence[int], coins: Coins) -> tuple[int, ...]:
        hits = coins.choose(self.hit_weights)
        mine = [held[place] for place in coins.subset(hits, self.held)]
        others = coins.among(self.size - hits, self.symbols - self.held)
        places = sorted(held)
        own = np.array([place in mine for place in places], dtype=np.bool_)
        return tuple(spread(others, places, own).nonzero()[0].tolist())


@dataclass(frozen=True)
class TwoLevel:
    """Of ``outputs`` answers an input marks exactly ``marked``: weight ``high`` on those, ``low`` on the others."""

    outputs: int
    marked: int
    high: int
    low: int

    @property
    def total(self) -> int:
        return self.marked * self.high + (self.outputs - self.marked) * self.low

    @property
    def ratio(self) -> Ratio:
        return Fraction(self.high, self.low) if 0 < self.marked < self.outputs else Fraction(1)

    @property
    def variation(self) -> Fraction:
        """The largest total variation of two inputs, which mark as few outputs in common as possible."""
        apart = min(self.marked, self.outputs - self.marked)
        return Fraction((self.high - self.low) * apart, self.total)

    @property
    def hit(self) -> Fraction:
        """Probability of one marked output."""
        return Fraction(self.high, self.total)

    @property
    def miss(self) -> Fraction:
        """Probability of one output that is not marked."""
        return Fraction(self.low, self.total)

    def draw(self, coins: Coins) -> tuple[bool, int]:
        """Whether the answer is a marked one, and its rank among the marked or the others."""
        run, rank = coins.pick(*self._runs)
        return run == 0, rank

    @cached_property
    def _runs(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Marked answers and the others: how many, and their weight."""
        return (self.marked, self.high), (self.outputs - self.marked, self.low)

    def draw_many(self, count: int, coins: Coins) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        hits = coins.chance_many(self.marked * self.high, self.total, count)
        ranks = np.zeros(count, dtype=np.int64)
        for chosen, room in ((hits, self.marked), (~hits, self.outputs - self.marked)):
            if room > 1:
                ranks[chosen] = coins.below_many(room, int(np.count_nonzero(chosen)))
        return hits, ranks


def two_level(outputs: int, marked: int, epsilon: Fraction) -> TwoLevel:
    """The two-level channel that spends at most epsilon."""
    return TwoLevel(outputs, marked, *levels(epsilon))


def _pairs(one: Sequence[int], other: Sequence[int]) -> list[int]:
    """Weights of what two coordinates say together."""
    return [first * second for first in one for second in other]


def subset(symbols: int, size: int, held: int, epsilon: Fraction) -> Subset:
    """The subset channel that spends at most epsilon."""
    return Subset(symbols, size, held, *levels(epsilon))
