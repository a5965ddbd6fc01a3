"""Seeded partitions: a pseudo-random permutation of [0, buckets · each) puts ``each`` symbols into every bucket.

With one symbol to a bucket nothing needs mixing, and every symbol is its own bucket. Otherwise the permutation is a
Feistel network on a rectangle rows × columns just large enough: in turns the row moves by a hash of the column and the
column by a hash of the row, and a symbol that lands outside is sent on until it is inside. So many rounds are made that
two symbols meet as often as in a random partition, to a millionth. A device finds the bucket of one symbol in a few
hashes. The collector tables the hashes of a seed once; with many reports for a seed it looks up all symbols, with one
it walks the network backwards, and finds the few symbols of the bucket that was named.

Privacy never rests on this permutation, only accuracy.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyveil.kernels.backend import kernel
from keyveil.kernels.hashing import hash_grid, hash_many, hash_one
from keyveil.kernels.threads import small_parts, sum_in_parts

Integers = NDArray[np.int64]
Seeds = NDArray[np.uint64]

_MASK = (1 << 64) - 1
_STEP, _STIR, _SETTLE = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB  # of splitmix64
_ONE_BY_ONE = 1 << 14  # steps that a report costs a twin which serves one after the other
_SEEDS = 64  # tabled at once: their tables stay in the second cache
_CALLS = 10_000  # steps that take as long as the calls of NumPy for one seed: about 60 µs


class Partition(NamedTuple):
    """``buckets`` of ``each`` symbols."""

    buckets: int
    each: int

    @property
    def symbols(self) -> int:
        return self.buckets * self.each

    @property
    def rows(self) -> int:
        return math.isqrt(self.symbols - 1) + 1

    @property
    def columns(self) -> int:
        return -(-self.symbols // self.rows)

    @property
    def rounds(self) -> int:
        """Two rounds bring the meeting of two symbols closer to chance by a factor of about the shorter side."""
        return 2 * max(3, math.ceil(20 / math.log2(max(2, min(self.rows, self.columns)))))

    def steps(self, symbols: int) -> int:
        """What it takes to count one report under a seed of its own: the tables, and the way of each member."""
        return self.rounds * (self.rows + self.each) if self.each > 1 else 1

    def bucket(self, seed: int, symbol: int) -> int:
        """The bucket of a symbol under a 64-bit seed, in plain integers for devices."""
        if self.each == 1:
            return symbol
        rows, columns = self.rows, self.columns
        seeds = [_stirred(seed + turn) for turn in range(self.rounds)]
        while True:
            row, column = divmod(symbol, columns)
            for turn, own in enumerate(seeds):
                if turn % 2:
                    column = (column + hash_one(own, row, columns)) % columns
                else:
                    row = (row + hash_one(own, column, rows)) % rows
            symbol = row * columns + column
            if symbol < self.symbols:
                return symbol // self.each

    def bucket_many(self, seeds: Seeds, symbols: Integers) -> Integers:
        """The same, elementwise."""
        places, columns = np.array(symbols, dtype=np.int64), self.columns
        if self.each == 1:
            return places
        moving = np.arange(len(places))
        while len(moving):
            row, column = np.divmod(places[moving], columns)
            for turn in range(self.rounds):
                own = _stirred_many(seeds[moving] + np.uint64(turn))
                if turn % 2:
                    column = (column + hash_many(own, row, columns)) % columns
                else:
                    row = (row + hash_many(own, column, self.rows)) % self.rows
            places[moving] = row * columns + column
            moving = moving[places[moving] >= self.symbols]
        return places // self.each

    def count_tables(self, seeds: Seeds, counts: Integers, symbols: int, threads: int = 1) -> Integers:
        """For each of the first ``symbols`` how many reports named its bucket; ``counts`` are [seed, bucket]."""
        if self.each == 1:
            return np.asarray(counts.sum(axis=0)[:symbols], dtype=np.int64)
        busy = np.flatnonzero(counts.any(axis=1))
        narrow = small_parts(counts)

        def work(start: int, stop: int) -> Integers:
            supports = np.zeros(self.symbols, dtype=np.int64)
            for first in range(start, stop, _SEEDS):
                some = busy[first : min(first + _SEEDS, stop)]
                shifts = self._shifts(seeds[some])
                for part, weight in narrow:
                    rows = part[some]
                    kind = np.min_scalar_type(rows.max(initial=0))  # small numbers: a grid of them stays in the cache
                    supports += weight * _sum_grids(rows.astype(kind), shifts, *self, self.rows)
            return supports[:symbols]

        return sum_in_parts(work, len(busy), symbols, threads, _SEEDS)

    def count_answers(self, seeds: Seeds, answers: Integers, symbols: int) -> Integers:
        """The same for reports that all have seeds of their own."""
        if self.each == 1:
            return np.bincount(answers, minlength=self.symbols)[:symbols]
        supports = np.zeros(self.symbols, dtype=np.int64)
        for first in range(0, len(seeds), _SEEDS):
            some = slice(first, first + _SEEDS)
            _add_members(supports, answers[some], self._shifts(seeds[some]), self.each, self.rows)
        return supports[:symbols]

    def _shifts(self, seeds: Seeds) -> NDArray[np.uint32]:
        """How far each round moves, [seed, round, row or column]."""
        rows, columns = self.rows, self.columns
        turns = np.arange(self.rounds, dtype=np.uint64)
        own = _stirred_many(np.add.outer(seeds, turns, dtype=np.uint64))
        shifts = np.zeros((len(seeds), self.rounds, rows), dtype=np.uint32)  # there are no more columns than rows
        for first, moved, count in ((0, rows, columns), (1, columns, rows)):
            some = own[:, first::2]
            shifts[:, first::2, :count] = hash_grid(some.ravel(), count, moved).reshape(*some.shape, count)
        return shifts


def _sum_grids_numpy(
    counts: NDArray[Any], shifts: NDArray[np.uint32], buckets: int, each: int, rows: int
) -> NDArray[np.int64]:
    columns = -(-buckets * each // rows)
    supports = np.zeros(buckets * each, dtype=np.int64)
    for table, moves in zip(counts, shifts, strict=True):
        places = np.arange(len(supports))
        moving = np.arange(len(supports))
        while len(moving):
            row, column = np.divmod(places[moving], columns)
            for turn in range(0, len(moves), 2):
                row = (row + moves[turn][column]) % rows
                column = (column + moves[turn + 1][row]) % columns
            places[moving] = row * columns + column
            moving = moving[places[moving] >= buckets * each]
        supports += table[places // each]
    return supports


def _grid_steps(counts: NDArray[Any], shifts: NDArray[np.uint32], buckets: int, each: int, rows: int) -> int:
    return len(counts) * (buckets * each + _CALLS)


@kernel(twin=_sum_grids_numpy, work=_grid_steps)
def _sum_grids(
    counts: NDArray[Any], shifts: NDArray[np.uint32], buckets: int, each: int, rows: int
) -> NDArray[np.int64]:
    """Sums over seeds of the count of each symbol's bucket.

    A round of the network turns every row (or column) of the grid of symbols by its own number of places. So the counts
    are written into the grid where the network ends, and all rounds are taken back, whole rows at a time.
    """
    symbols = buckets * each
    wide = -(-symbols // rows)
    cells = rows * wide
    sums = np.zeros(symbols, dtype=np.uint32)
    grid, turned = np.zeros(cells, dtype=counts.dtype), np.zeros(cells, dtype=counts.dtype)
    twice, sources = np.empty(2 * wide, dtype=counts.dtype), np.empty(wide, dtype=np.uint32)
    for g in range(len(counts)):
        table, moves = counts[g], shifts[g]
        for bucket in range(buckets):
            grid[bucket * each : (bucket + 1) * each] = table[bucket]
        for outside in range(symbols, cells):  # sent on until it is inside
            row, column = outside // wide, outside % wide
            while True:
                for turn in range(0, len(moves), 2):
                    row = (row + int(moves[turn, column])) % rows
                    column = (column + int(moves[turn + 1, row])) % wide
                place = row * wide + column
                if place < symbols:
                    grid[outside] = table[place // each]
                    break
                if place == outside:  # a circle of places outside, which no symbol comes to
                    break
        for turn in range(len(moves) - 2, -1, -2):
            for row in range(rows):
                move = np.int64(moves[turn + 1, row])
                line, into = grid[row * wide : (row + 1) * wide], turned[row * wide : (row + 1) * wide]
                for column in range(wide):  # a row that stands twice is turned by one copy
                    twice[column] = line[column]
                    twice[wide + column] = line[column]
                for column in range(wide):
                    into[column] = twice[move + column]
            for column in range(wide):
                sources[column] = np.uint32(moves[turn, column] * np.uint32(wide) + np.uint32(column))
            for row in range(rows):
                into = grid[row * wide : (row + 1) * wide]
                for column in range(wide):
                    into[column] = turned[sources[column]]
                for column in range(wide):
                    # Below zero wraps around, so the smaller one is the remainder, without a branch to mispredict.
                    source = np.uint32(sources[column] + np.uint32(wide))
                    sources[column] = min(source, np.uint32(source - np.uint32(cells)))
        for symbol in range(symbols):
            sums[symbol] += np.uint32(grid[symbol])
    return sums.astype(np.int64)


def _add_members_numpy(supports: Integers, answers: Integers, shifts: NDArray[np.uint32], each: int, rows: int) -> None:
    columns = -(-len(supports) // rows)
    for answer, moves in zip(answers, shifts.astype(np.int64), strict=True):
        moving = np.arange(answer * each, (answer + 1) * each)
        while len(moving):
            row, column = np.divmod(moving, columns)
            for turn in range(len(moves) - 2, -1, -2):
                column = (column - moves[turn + 1][row]) % columns
                row = (row - moves[turn][column]) % rows
            places = row * columns + column
            supports[places[places < len(supports)]] += 1  # a permutation: each of them once
            moving = places[places >= len(supports)]


@kernel(twin=_add_members_numpy, work=lambda supports, answers, *rest: _ONE_BY_ONE * len(answers))
def _add_members(supports: Integers, answers: Integers, shifts: NDArray[np.uint32], each: int, rows: int) -> None:
    symbols = np.uint32(len(supports))
    tall, wide = np.uint32(rows), np.uint32(-(-len(supports) // rows))
    for g in range(len(answers)):
        moves = shifts[g]
        start = np.uint32(answers[g] * each)
        row = np.uint32(start // wide)
        column = np.uint32(start - row * wide)
        for _ in range(each):
            r, c = row, column
            while True:
                for turn in range(len(moves) - 2, -1, -2):
                    c = np.uint32(c - moves[turn + 1, r])
                    c = min(c, np.uint32(c + wide))  # of what wrapped around, the sum is the smaller one
                    r = np.uint32(r - moves[turn, c])
                    r = min(r, np.uint32(r + tall))
                place = np.uint32(r * wide + c)
                if place < symbols:
                    break
            supports[place] += 1
            column = np.uint32(column + np.uint32(1))
            if column == wide:
                row, column = np.uint32(row + np.uint32(1)), np.uint32(0)


def _stirred(number: int) -> int:
    word = (number + 1) * _STEP & _MASK
    word = (word ^ word >> 30) * _STIR & _MASK
    word = (word ^ word >> 27) * _SETTLE & _MASK
    return word ^ word >> 31


def _stirred_many(numbers: Seeds) -> Seeds:
    words = (numbers + np.uint64(1)) * np.uint64(_STEP)
    words = (words ^ words >> np.uint64(30)) * np.uint64(_STIR)
    words = (words ^ words >> np.uint64(27)) * np.uint64(_SETTLE)
    return words ^ words >> np.uint64(31)
