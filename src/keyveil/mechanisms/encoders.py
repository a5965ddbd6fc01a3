"""Encoders: how a record becomes the effective input of a channel. Each step once for a device, once for arrays.

Nothing here needs protecting by itself: an encoder only decides which rows of the channel are mixed, so rounding and
ties are free, and utility alone asks for exactness.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.core.coins import Coins
from keyveil.core.public import public_index, public_indices, public_words_covering
from keyveil.core.records import Records
from keyveil.core.schema import GRID

Pairs = Sequence[tuple[int, int]]


def is_positive(value: int, coins: Coins) -> bool:
    """Round a value on the grid to plus with probability (1 + v) / 2, else to minus: unbiased."""
    return coins.chance(GRID + value, 2 * GRID)


def each_positive(values: NDArray[np.int64], coins: Coins) -> NDArray[np.bool_]:
    """``is_positive`` for the values of one person: equal values together, the lowest first."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    starts = [0, *((ordered[1:] != ordered[:-1]).nonzero()[0] + 1).tolist(), len(values)]
    positive = np.empty(len(values), dtype=np.bool_)
    positive[order] = np.concatenate(
        [
            coins.chances(GRID + value, 2 * GRID, stop - start)
            for value, (start, stop) in zip(ordered[starts[:-1]].tolist(), pairwise(starts), strict=True)
        ]
    )
    return positive


def are_positive(values: NDArray[np.int32], coins: Coins) -> NDArray[np.bool_]:
    """``is_positive`` for many values."""
    return coins.chance_each((values + np.int32(GRID)).astype(np.uint32), (2 * GRID).bit_length() - 1)


def round_to(value: int, top: int, coins: Coins) -> int:
    """Round a value on the grid to one of 0…top, low to high end of the range, unbiased."""
    floor, rest = divmod((GRID + value) * top, 2 * GRID)
    return floor + coins.chance(rest, 2 * GRID) if rest else floor


def round_many(values: NDArray[np.int32], top: int, coins: Coins) -> NDArray[np.int64]:
    """``round_to`` for many values."""
    floors, rests = np.divmod((GRID + values.astype(np.int64)) * top, 2 * GRID)
    rounded: NDArray[np.int64] = floors + (coins.below_many(2 * GRID, len(values)) < rests)
    return rounded


def value_of(pairs: Pairs, key: int) -> int | None:
    """The value that a record holds for a key."""
    return next((value for held, value in pairs if held == key), None)


@dataclass(frozen=True)
class Labels:
    """What a report may say of a value: its sign (0 minus, 1 plus, drawn without bias), or which of ``bins`` cells."""

    bins: int | None = None

    @property
    def count(self) -> int:
        return 2 if self.bins is None else self.bins

    @property
    def signed(self) -> bool:
        return self.bins is None

    def every_value(self, key: int = 0) -> list[int]:
        """One value of a key for each label: the ends of the range, or the middles of the cells."""
        if self.bins is None:
            return [-GRID, GRID]
        return [(2 * cell + 1) * GRID // self.bins - GRID for cell in range(self.bins)]

    def draw(self, value: int, coins: Coins, key: int = 0) -> int:
        """The label of a value of a key."""
        if self.bins is None:
            return int(is_positive(value, coins))
        return min((GRID + value) * self.bins // (2 * GRID), self.bins - 1)

    def draw_many(
        self, values: NDArray[np.int32], coins: Coins, keys: NDArray[np.integer[Any]] | None = None
    ) -> NDArray[np.int64]:
        """``draw`` for many values of the given keys."""
        if self.bins is None:
            return are_positive(values, coins).astype(np.int64)
        return np.minimum((GRID + values.astype(np.int64)) * self.bins // (2 * GRID), self.bins - 1)

    def shares(self, values: NDArray[np.int32], keys: NDArray[np.integer[Any]]) -> NDArray[np.float64]:
        """How likely ``draw`` gives each label to each value of the given keys, [value, label]."""
        if self.bins is None:
            plus = (GRID + values.astype(np.int64)) / (2 * GRID)
            return np.stack([1 - plus, plus], axis=1)
        cells = np.minimum((GRID + values.astype(np.int64)) * self.bins // (2 * GRID), self.bins - 1)
        return np.eye(self.bins)[cells]


@dataclass(frozen=True)
class PointLabels(Labels):
    """Label i is point i; a value between two points is rounded to one of them at random, so that means are unbiased.

    ``rows`` has the points on the grid, rising: one row for all keys, or one for each. ``bins`` is the longest one.
    """

    rows: tuple[tuple[int, ...], ...] = ()

    @property
    def signed(self) -> bool:
        return False

    def row(self, key: int) -> tuple[int, ...]:
        return self.rows[0 if len(self.rows) == 1 else key]

    def every_value(self, key: int = 0) -> list[int]:
        return list(self.row(key))

    def draw(self, value: int, coins: Coins, key: int = 0) -> int:
        row = self.row(key)
        lower = min(max(bisect_right(row, value) - 1, 0), len(row) - 2)
        above, step = value - row[lower], row[lower + 1] - row[lower]
        return lower + coins.chance(above, step) if 0 < above < step else lower + (above >= step)

    def draw_many(
        self, values: NDArray[np.int32], coins: Coins, keys: NDArray[np.integer[Any]] | None = None
    ) -> NDArray[np.int64]:
        if len(self.rows) == 1 or keys is None:
            return _rounded(values, self.rows[0], coins)
        labels = np.zeros(len(values), dtype=np.int64)
        kinds = {row: number for number, row in enumerate(dict.fromkeys(self.rows))}
        kind = np.array([kinds[row] for row in self.rows])[keys]
        for row, number in kinds.items():
            mine = np.flatnonzero(kind == number)
            labels[mine] = _rounded(values[mine], row, coins)
        return labels

    def shares(self, values: NDArray[np.int32], keys: NDArray[np.integer[Any]]) -> NDArray[np.float64]:
        found = np.zeros((len(values), self.count))
        for key in np.unique(keys).tolist():
            mine, row = np.flatnonzero(keys == key), np.asarray(self.row(key), dtype=np.int64)
            lower = np.clip(np.searchsorted(row, values[mine], side="right") - 1, 0, len(row) - 2)
            upper = np.clip((values[mine] - row[lower]) / np.diff(row)[lower], 0.0, 1.0)
            found[mine, lower], found[mine, lower + 1] = 1 - upper, upper
        return found


def _rounded(values: NDArray[np.int32], points: tuple[int, ...], coins: Coins) -> NDArray[np.int64]:
    """Each value rounded to one of the two points around it, without bias."""
    row, at = np.asarray(points, dtype=np.int64), values.astype(np.int64)
    labels = np.clip(np.searchsorted(row, at, side="right") - 1, 0, len(row) - 2)
    above, steps = at - row[labels], np.diff(row)[labels]
    for step in np.unique(steps):
        mine = np.flatnonzero(steps == step)
        labels[mine] += coins.below_many(int(step), len(mine)) < above[mine]
    return labels


@dataclass(frozen=True)
class UniformKey:
    """Every report speaks about one key, drawn from its public bytes: independent of the record, and not sent."""

    d: int

    def key(self, word: int) -> int:
        return public_index(word, self.d)

    def keys(self, words: NDArray[np.uint64]) -> NDArray[np.int64]:
        return public_indices(words, self.d)

    def every_word(self) -> list[int]:
        return public_words_covering(self.d)


@dataclass(frozen=True)
class PadAndSample:
    """One pair out of max(|S|, cap) places; an empty place gives ``None`` (docs/theory.md, padding and sampling)."""

    cap: int

    def draw(self, pairs: Pairs, coins: Coins) -> tuple[int, int] | None:
        place = coins.below(max(len(pairs), self.cap))
        return pairs[place] if place < len(pairs) else None

    def draw_many(self, records: Records, coins: Coins) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Key (-1 for none) and value of everybody's sampled pair."""
        sizes = records.sizes
        places = np.empty(records.n, dtype=np.int64)
        rooms = np.maximum(sizes, self.cap)
        for room in np.unique(rooms):
            people = np.flatnonzero(rooms == room)
            places[people] = coins.below_many(int(room), len(people))
        real = places < sizes
        at = np.where(real, records.offsets[:-1] + places, 0)
        if not len(records.keys):
            return np.full(records.n, -1, dtype=np.int64), np.zeros(records.n, dtype=np.int32)
        keys, values = np.where(real, records.keys[at], -1), np.where(real, records.values[at], 0)
        return keys.astype(np.int64), values.astype(np.int32)


@dataclass(frozen=True)
class Cap:
    """At most ``cap`` pairs of a record, a uniform choice where there are more."""

    cap: int

    def draw(self, pairs: Pairs, coins: Coins) -> Pairs:
        if len(pairs) <= self.cap:
            return pairs
        return [pairs[place] for place in coins.subset(self.cap, len(pairs))]

    def draw_many(self, records: Records, coins: Coins) -> Records:
        sizes, over = records.sizes, np.flatnonzero(records.sizes > self.cap)
        if not len(over):
            return records
        kept = np.ones(len(records.keys), dtype=bool)
        people = np.repeat(over, sizes[over])  # of every pair that is in the lottery
        starts = np.concatenate(([0], np.cumsum(sizes[over])[:-1]))
        places = np.arange(len(people)) - np.repeat(starts, sizes[over]) + records.offsets[people]
        order = np.lexsort((coins.words(len(people)), people))  # the order within a person is uniform
        ranks = np.arange(len(people)) - np.repeat(starts, sizes[over])
        kept[places[order[ranks >= self.cap]]] = False
        offsets = np.concatenate(([0], np.cumsum(np.minimum(sizes, self.cap)))).astype(np.int64)
        return Records(offsets, records.keys[kept], records.values[kept], records.d)
