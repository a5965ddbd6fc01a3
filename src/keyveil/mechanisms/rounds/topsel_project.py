"""TopSel's project mode: of seeded directions, those that point best along a person's centred vector are marked.

For dense sets, after a pilot that tells where the middle is. The vector has two coordinates a key, presence and
value, less what is expected of everybody; a longer one is cut to ``radius``, a shorter one filled up by a coordinate
that nobody reads. Directions are whole numbers, near Gaussian, from the report's public word; marking is arithmetic on
whole numbers, and needs no protection: exactly ``marked`` of ``rows`` are marked for every person, and a marked one
is told e^ε times as readily. Derivation: docs/protocols-groups.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from keyveil.core.channels import Ratio, TwoLevel, two_level
from keyveil.core.codecs.symbols import Symbol
from keyveil.core.coins import Coins
from keyveil.core.errors import ProtocolError
from keyveil.core.estimates import Estimates
from keyveil.core.public import public_indices
from keyveil.core.records import Records
from keyveil.core.report import Payload
from keyveil.core.schema import GRID, Schema
from keyveil.core.tally import Tally
from keyveil.kernels.directions import ranked_row, sum_told
from keyveil.mechanisms.announcements import CalibratedOnDevice, accepted_forms
from keyveil.mechanisms.base import Mechanism, Pairs
from keyveil.mechanisms.dependence import PairTerms
from keyveil.mechanisms.families.key_value import KeyValue
from keyveil.mechanisms.responses import Solution, Spread

MOST_BLOCK = 128  # keys that a report is about
MOST_SCALE = 1 << 10
MOST_RADIUS = 1 << 14  # keeps every inner product below 2^24, where single precision is exact
MOST_TILT = 4  # would move a frequency of one half by one
REDUCED_KEYS, REDUCED_ROWS = 2, 4

_AT_ONCE = 1 << 12  # people whose vectors are held at once

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Words = NDArray[np.uint64]


@dataclass(frozen=True)
class Project(CalibratedOnDevice, KeyValue):
    """``centres`` are what is expected of everybody's presences and then values, out of 2^16, and ``scales`` how much
    each of these coordinates counts, all whole numbers. ``shrink`` is what cutting leaves of a vector on average, and
    ``tilt`` says how far it may move frequencies: by tilt·f·(1 - f), for which intervals allow.
    """

    centres: tuple[int, ...]
    scales: tuple[int, ...]
    radius: int
    rows: int = 64
    marked: int | None = None
    shrink: Fraction = Fraction(1)
    tilt: Fraction = Fraction(0)

    name: ClassVar[str] = "project"
    readings: ClassVar[frozenset[str]] = frozenset({"shrink", "tilt"})

    def validate(self) -> None:
        d = self.schema.d
        if len(self.centres) != 2 * d or len(self.scales) != 2 * d:
            raise _refused(f"project takes {2 * d} centres and scales, two for each of the {d} keys.")
        if not (all(abs(c) <= GRID for c in self.centres) and all(1 <= s <= MOST_SCALE for s in self.scales)):
            raise _refused(f"project takes centres up to {GRID} and scales from 1 to {MOST_SCALE}.")
        if not 1 <= self.radius <= MOST_RADIUS or not 2 <= self.rows <= 256 or not 0 < self.shrink <= 1:
            raise _refused(f"project takes a radius up to {MOST_RADIUS}, 2 to 256 rows, and a shrink of at most 1.")
        if abs(self.tilt) > MOST_TILT:
            raise _refused(f"project takes a tilt from -{MOST_TILT} to {MOST_TILT}, not {self.tilt}.")
        if self.marked is None:
            object.__setattr__(self, "marked", best_marked(self.rows, self.epsilon))
        if not 1 <= self.channel.marked < self.rows:
            raise _refused(f"project marks some of its {self.rows} rows, not {self.marked}.")

    # -- channel ------------------------------------------------------------------------------------------------

    @cached_property
    def channel(self) -> TwoLevel:
        assert self.marked is not None
        return two_level(self.rows, self.marked, self.epsilon)

    @property
    def ratio(self) -> Ratio:
        return self.channel.ratio

    @property
    def codec(self) -> Symbol:
        return Symbol(self.rows)

    @property
    def block(self) -> int:
        """How many keys a report is about."""
        return min(self.schema.d, MOST_BLOCK)

    @property
    def sizes(self) -> dict[str, int]:
        return {**super().sizes, "rows": self.rows, "marked": self.channel.marked}

    def every_word(self) -> list[int]:
        """Directions of all kinds: no finite list covers them, and the guarantee does not look at them."""
        return [number * 0x9E3779B97F4A7C15 % (1 << 64) for number in range(8)]

    def reduced(self) -> Self:
        d, keys = self.schema.d, min(self.schema.d, REDUCED_KEYS)
        rows = min(self.rows, REDUCED_ROWS)
        return replace(
            self,
            schema=self.schema if keys == d else Schema(keys=keys),
            centres=self.centres[:keys] + self.centres[d : d + keys],
            scales=self.scales[:keys] + self.scales[d : d + keys],
            rows=rows,
            marked=min(self.channel.marked, rows // 2),
        )

    # -- announcements ------------------------------------------------------------------------------------------

    def announced(self) -> frozenset[str]:
        return frozenset({"centres", "scales", "radius", "shrink", "tilt"})

    def announced_forms(self) -> Sequence[Mechanism]:
        """Centres, scales and radii at the ends of what a device accepts."""
        both = 2 * self.schema.d
        return accepted_forms(
            self,
            centres=[(centre,) * both for centre in (-GRID, 0, GRID)],
            scales=[(scale,) * both for scale in (1, MOST_SCALE)],
            radius=[1, MOST_RADIUS],
        )

    # -- device and bulk ----------------------------------------------------------------------------------------

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        keys, values = (np.array([pair[part] for pair in pairs], dtype=np.int32) for part in range(2))
        alone = Records(np.array([0, len(pairs)], dtype=np.int64), keys, values, self.schema.d)
        hit, rank = self.channel.draw(coins)
        place = np.array([rank if hit else self.channel.marked + rank])
        public = np.array([word], dtype=np.uint64)
        return int(ranked_row(self.vectors(alone, public), public, self.rows, place)[0])

    def respond_many(self, records: Records, words: Words, coins: Coins) -> NDArray[Any]:
        hits, ranks = self.channel.draw_many(records.n, coins)
        places = np.where(hits, ranks, self.channel.marked + ranks)
        answers = np.empty(records.n, dtype=np.int64)
        for start in range(0, records.n, _AT_ONCE):
            some = slice(start, min(start + _AT_ONCE, records.n))
            vectors = self.vectors(records.slice(some.start, some.stop), words[some])
            answers[some] = ranked_row(vectors, words[some], self.rows, places[some])
        return answers

    @property
    def coordinates(self) -> int:
        return 2 * self.block + 1

    def vectors(self, records: Records, words: Words) -> NDArray[np.int16]:
        """Everybody's centred vector of length ``radius``, over the keys of their block."""
        d, n, block, first = self.schema.d, records.n, self.block, self.first(words)
        owners = np.repeat(np.arange(n), records.sizes)
        places = (records.keys - first[owners]) % d
        inside = places < block
        owners, places = owners[inside], places[inside]
        held = np.zeros((n, 2 * block), dtype=np.int64)
        held[owners, places] = GRID
        held[owners, block + places] = records.values[inside]
        keys = (first[:, None] + np.arange(block)) % d
        both = np.concatenate((keys, d + keys), axis=1)
        scales = np.array(self.scales)[both]
        mine = _rounded(held * scales) - self.origins[both]
        norms = root((mine**2).sum(axis=1))
        longer = norms > self.radius
        cut = mine[longer] * self.radius
        mine[longer] = np.sign(cut) * (np.abs(cut) // norms[longer, None])
        rest = np.maximum(self.radius**2 - (mine**2).sum(axis=1), 0)
        return np.concatenate((mine, root(rest)[:, None]), axis=1).astype(np.int16)  # no longer than MOST_RADIUS

    @cached_property
    def origins(self) -> Integers:
        """The coordinates of the middle; apart from a person's, so that presences are not rounded at all."""
        return _rounded(np.array(self.centres) * np.array(self.scales))

    def first(self, words: Words) -> Integers:
        """The key from which on every report is about ``block`` keys in a row: all of them, or from a public one on."""
        return public_indices(words, self.schema.d) if self.block < self.schema.d else np.zeros(len(words), np.int64)

    # -- counts -------------------------------------------------------------------------------------------------

    @property
    def tally_shape(self) -> tuple[int, ...]:
        return (3, self.schema.d)

    def fold(self, payloads: NDArray[Any], words: Words) -> NDArray[np.int64]:
        """Per key the reports about it, and the sums of both its coordinates over the directions that were told."""
        return sum_told(words, payloads, self.first(words), self.block, self.schema.d)

    def solve(self, tally: Tally, population: bool) -> Solution:
        respondents, *totals = self._own(tally).astype(np.float64)
        d, people = self.schema.d, np.maximum(respondents, 1)
        scales = np.array(self.scales, dtype=np.float64)
        frequency, product = (
            (self.origins[part] + self._length * total / (2 * people)) / scales[part]
            for part, total in zip((slice(d), slice(d, 2 * d)), totals, strict=True)
        )
        share, known = np.clip(frequency, 0, 1), 0.0 if population else respondents / max(tally.reports, 1)
        mean = np.clip(product / np.maximum(share, 1 / people), -1, 1)
        return Solution(frequency, product, self._spread(share, mean, people, known))

    def predicted_spread(
        self, frequency: Floats, mean: Floats, sizes: Floats, n: int, population: bool = False
    ) -> Spread:
        """At the radius and scales that were announced; ``block`` of d keys are in a report, whatever the sizes."""
        known = self.block / self.schema.d
        people = np.full(self.schema.d, n * known)
        return self._spread(frequency, mean, people, 0.0 if population else known)

    @property
    def _length(self) -> float:
        """What one unit along a direction that is told stands for, in units of the scales."""
        return self.radius / (gain(self.channel) * float(self.shrink))

    def _spread(self, frequency: Floats, mean: Floats, people: Floats, known: Floats | float) -> Spread:
        """Variances when ``people`` reports are about a key, of the share ``known`` of everybody.

        Each coordinate of a direction has variance 1 (docs/protocols-groups.md). The errors of f and f·m are
        correlated, since both depend on whether the key is held. So are the moves by cutting, which are allowed for.
        """
        d, scales = self.schema.d, np.array(self.scales, dtype=np.float64)
        var_f, var_u = (self._length**2 / scales[part] ** 2 / people for part in (slice(d), slice(d, 2 * d)))
        between = frequency * (1 - frequency)
        along = (excess(self.channel) - known) * between / people + (float(self.tilt) * between) ** 2
        return Spread(np.maximum(var_f + along, 0), np.maximum(var_u + along * mean**2, 0), along * mean)

    def key_covariances(
        self, rows: Integers, columns: Integers, frequency: Floats, population: bool = False
    ) -> PairTerms:
        """Across a person's vector the coordinates of a direction are independent; along it they vary ``excess``-fold.

        Two keys are together in as many reports as blocks contain both.
        """
        d, block = self.schema.d, self.block
        apart = np.abs(rows[:, None] - columns)
        starts = np.maximum(block - apart, 0) + np.maximum(block - (d - apart), 0) if block < d else d
        held = excess(self.channel) * starts * (d / block**2) - 1.0
        f, g = frequency[rows], frequency[columns]
        return PairTerms(-held * np.outer(f, g), held).of_sets(f, g, population)

    def estimate(self, tally: Tally, confidence: float = 0.95, population: bool = False) -> Estimates:
        return self.solve(tally, population).estimates(
            self.header(tally.reports, confidence, population),
            respondents=self._own(tally)[0],
        )


def gain(channel: TwoLevel) -> float:
    """How far the direction that is told points along a vector of length one, on average."""
    return float(channel.hit - channel.miss) * channel.marked * _top_mean(channel.outputs, channel.marked)


def excess(channel: TwoLevel) -> float:
    """How much more the direction that is told varies along a vector than across it, by the square of the gain.

    Close to one, and then the errors of fixed people do not depend on who they are.
    """
    top = channel.marked * _top_mean(channel.outputs, channel.marked, power=2)
    square = float(channel.miss) * channel.outputs + float(channel.hit - channel.miss) * top
    return (square - 1) / gain(channel) ** 2


@lru_cache(maxsize=256)
def best_marked(rows: int, epsilon: Fraction) -> int:
    """How many marked rows tell most."""
    return max(range(1, rows), key=lambda marked: gain(two_level(rows, marked, epsilon)))


def best_channel(rows: int, epsilon: Fraction) -> TwoLevel:
    """The channel of so many rows that tells most."""
    return two_level(rows, best_marked(rows, epsilon), epsilon)


@lru_cache(maxsize=4096)
def _top_mean(rows: int, marked: int, power: int = 1) -> float:
    """The mean of the ``marked`` largest of ``rows`` standard normal numbers, or of a power of them."""
    points, density, binomials = _quadrature(rows)
    inside = binomials[:marked].sum(axis=0)  # fewer than ``marked`` of the others lie above
    return float(rows / marked * (points**power * density * inside).sum())


@lru_cache(maxsize=16)
def _quadrature(rows: int) -> tuple[Floats, Floats, Floats]:
    """Points, normal weights, and how likely so many of the other rows lie above each point."""
    from statistics import NormalDist  # brings in much that a device never needs

    points = np.linspace(-9, 9, 1801)
    above = np.array([NormalDist().cdf(-point) for point in points.tolist()])
    counts = np.arange(rows)[:, None]
    choose = np.array([math.comb(rows - 1, count) for count in range(rows)], dtype=np.float64)[:, None]
    density = np.exp(-(points**2) / 2) / math.sqrt(2 * math.pi) * (points[1] - points[0])
    return points, density, choose * above**counts * (1 - above) ** (rows - 1 - counts)


def _rounded(parts: Integers) -> Integers:
    """Parts of 2^16 to the nearest whole number, halves upwards."""
    return (2 * parts + GRID) // (2 * GRID)


def root(squares: Integers) -> Integers:
    """Square roots rounded down, exactly."""
    roots = np.sqrt(squares.astype(np.float64)).astype(np.int64)
    roots -= roots**2 > squares
    roots += (roots + 1) ** 2 <= squares
    return roots


def _refused(sentence: str) -> ProtocolError:
    return ProtocolError("protocol/broadcast", sentence)
