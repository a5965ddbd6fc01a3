"""What are your values? The question to the value group of ``apart``: of seeded directions, those along a person's own
values are marked, and a marked one is told e^ε times as readily.

A vector has a coordinate for every key, with the value as it is, and one for the number of pairs, whose true mean is
known from elsewhere: it measures how much is cut off vectors that are longer than ``radius``. Shorter ones are filled
up by coordinates that nobody reads. Exactly ``marked`` of ``rows`` are marked for every person, so nothing here needs
protection but the choice of the row that is told. Derivation: docs/mechanisms/apart.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from keyveil.core.channels import Ratio, TwoLevel, two_level
from keyveil.core.codecs.symbols import Symbol
from keyveil.core.coins import Coins
from keyveil.core.records import Records
from keyveil.core.report import Payload
from keyveil.core.schema import GRID, Schema
from keyveil.kernels.directions import ranked_sparse, sum_rows
from keyveil.mechanisms.base import Pairs
from keyveil.mechanisms.encoders import Cap
from keyveil.mechanisms.families.key_value import REDUCED_KEYS, refused
from keyveil.mechanisms.rounds.about_sets import AboutSets
from keyveil.mechanisms.rounds.topsel_project import best_marked, root

FILLERS, CONTROL = 4, 4  # coordinates that nobody reads; the one that counts pairs
BEFORE = FILLERS + 1  # coordinates before those of keys
MOST_UNIT = MOST_WEIGHT = 1 << 10
MOST_RADIUS = 1 << 14
MOST_COUNT = 1 << 30  # weight times pairs; with it every number on a device stays below 2^62
REDUCED_ROWS = 4

Integers = NDArray[np.int64]
Words = NDArray[np.uint64]


class Vectors(NamedTuple):
    """Coordinates of people that are not zero: person i has ``numbers`` at ``places`` from ``offsets[i]`` on."""

    offsets: Integers
    places: Integers
    numbers: Integers


@dataclass(frozen=True)
class ValueProjection(AboutSets):
    """A value of 1 is ``unit`` long, a pair ``weight`` along the control, and vectors are ``radius`` long."""

    max_pairs: int
    unit: int
    weight: int
    radius: int
    rows: int = 64
    marked: int | None = None

    name: ClassVar[str] = "value-projection"
    exhaustive: ClassVar[bool] = False
    tells: ClassVar[str] = "sums of values, not who holds a key"

    def validate(self) -> None:
        d = self.schema.d
        if not 1 <= self.max_pairs <= d:
            raise refused(f"{self.name} takes max_pairs from 1 to {d}, the number of keys.")
        if not 2 <= self.rows <= 256 or not 1 <= self.radius <= MOST_RADIUS:
            raise refused(f"{self.name} takes 2 to 256 rows and a radius from 1 to {MOST_RADIUS}.")
        if not 1 <= self.unit <= MOST_UNIT or not 0 <= self.weight <= MOST_WEIGHT:
            raise refused(f"{self.name} takes a unit from 1 to {MOST_UNIT} and a weight up to {MOST_WEIGHT}.")
        if self.weight * self.max_pairs > MOST_COUNT:
            raise refused(f"{self.name} takes a weight times max_pairs of at most {MOST_COUNT}.")
        if self.marked is None:
            object.__setattr__(self, "marked", best_marked(self.rows, self.epsilon))
        if not 1 <= self.channel.marked < self.rows:
            raise refused(f"{self.name} marks some of its {self.rows} rows, not {self.marked}.")

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
    def sizes(self) -> dict[str, int]:
        return {**super().sizes, "max_pairs": self.max_pairs, "rows": self.rows, "marked": self.channel.marked}

    @property
    def coordinates(self) -> int:
        return BEFORE + self.schema.d

    def every_word(self) -> list[int]:
        """Directions of all kinds: no finite list covers them, and the guarantee does not look at them."""
        return [number * 0x9E3779B97F4A7C15 % (1 << 64) for number in range(2)]

    def reduced(self) -> Self:
        keys, rows = min(self.schema.d, REDUCED_KEYS), min(self.rows, REDUCED_ROWS)
        schema = self.schema if keys == self.schema.d else Schema(keys=keys)
        marked = min(self.channel.marked, rows // 2)
        return replace(self, schema=schema, max_pairs=min(self.max_pairs, keys), rows=rows, marked=marked)

    # -- device and bulk ----------------------------------------------------------------------------------------

    @cached_property
    def encoder(self) -> Cap:
        return Cap(self.max_pairs)

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        kept = self.encoder.draw(pairs, coins)
        keys, values = (np.array([pair[part] for pair in kept], dtype=np.int32) for part in range(2))
        vectors = self.vectors(Records(np.array([0, len(kept)], dtype=np.int64), keys, values, self.schema.d))
        hit, rank = self.channel.draw(coins)
        place = np.array([rank if hit else self.channel.marked + rank])
        public = np.array([word], dtype=np.uint64)
        return int(ranked_sparse(*vectors, public, self.rows, self.coordinates, place)[0])

    def respond_many(self, records: Records, words: Words, coins: Coins) -> NDArray[Any]:
        vectors = self.vectors(self.encoder.draw_many(records, coins))
        hits, ranks = self.channel.draw_many(records.n, coins)
        places = np.where(hits, ranks, self.channel.marked + ranks)
        return ranked_sparse(*vectors, words, self.rows, self.coordinates, places)

    def vectors(self, kept: Records) -> Vectors:
        """Everybody's vector, cut or filled up to ``radius``; of records that are within the cap."""
        n, sizes = kept.n, kept.sizes
        owners = np.repeat(np.arange(n), sizes)
        control, numbers = self.weight * sizes, (2 * kept.values.astype(np.int64) * self.unit + GRID) // (2 * GRID)
        squares = _squares(control, numbers, owners)
        lengths = root(squares)
        lengths += lengths**2 < squares
        longer, lengths = squares > self.radius**2, np.maximum(lengths, 1)

        def cut(parts: Integers, whose: Integers) -> Integers:
            length = lengths[whose]
            shorter = np.sign(parts) * ((2 * np.abs(parts) * self.radius + length) // (2 * length))
            return np.where(longer[whose], shorter, parts)

        control, numbers = cut(control, np.arange(n)), cut(numbers, owners)
        rest = np.maximum(self.radius**2 - _squares(control, numbers, owners), 0)
        offsets = np.concatenate(([0], np.cumsum(sizes + BEFORE)))
        places, parts = np.empty(offsets[-1], dtype=np.int64), np.empty(offsets[-1], dtype=np.int64)
        first = offsets[:-1, None] + np.arange(BEFORE)
        places[first], parts[first] = np.arange(BEFORE), root(rest // FILLERS)[:, None]
        parts[first[:, CONTROL]] = control
        of_keys = np.arange(len(numbers)) + BEFORE * (owners + 1)
        places[of_keys], parts[of_keys] = BEFORE + kept.keys, numbers
        return Vectors(offsets, places, parts)

    def cut_factors(self, kept: Records) -> NDArray[np.float64]:
        """What cutting leaves of everybody's vector, for predictions; of records that are within the cap."""
        owners = np.repeat(np.arange(kept.n), kept.sizes)
        squares = (self.weight * kept.sizes.astype(np.float64)) ** 2
        squares += np.bincount(owners, (kept.values * (self.unit / GRID)) ** 2, minlength=kept.n)
        factors: NDArray[np.float64] = np.minimum(1.0, self.radius / np.sqrt(np.maximum(squares, 1e-9)))
        return factors

    # -- counts -------------------------------------------------------------------------------------------------

    @property
    def tally_shape(self) -> tuple[int, ...]:
        """The sum of every coordinate over the rows that were told."""
        return (self.coordinates,)

    def fold(self, payloads: NDArray[Any], words: Words) -> NDArray[np.int64]:
        return sum_rows(words, payloads.astype(np.int64), self.coordinates)


def _squares(control: Integers, numbers: Integers, owners: Integers) -> Integers:
    """The squared length of everybody's vector, without its fillers."""
    squares = control**2
    np.add.at(squares, owners, numbers**2)
    return squares
