"""Seeded partitions: a pseudo-random permutation of [0, buckets · each) puts ``each`` symbols into every bucket.

With one symbol to a bucket nothing needs mixing, and every symbol is its own bucket. Otherwise the permutation is a
Feistel network on a rectangle rows × columns just large enough: in turns the row moves by a hash of the column and the
column by a hash of the row, and a symbol that lands outside is sent on until it is inside. So many rounds are made that
two symbols meet as often as in a random partition, to a millionth. A device finds the bucket of one symbol in a few
hashes; the collector tables the hashes of a cohort once and looks up all symbols.

Privacy never rests on this permutation, only accuracy.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyveil.kernels.backend import kernel
from keyveil.kernels.hashing import hash_many, hash_one

_MASK = (1 << 64) - 1
_STEP, _STIR, _SETTLE = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB  # of splitmix64
_COHORTS = 256  # tabled at once


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


def bucket_one(cohort: int, symbol: int, partition: Partition) -> int:
    """The bucket of a symbol in a cohort's partition, in plain integers for devices."""
    if partition.each == 1:
        return symbol
    rows, columns = partition.rows, partition.columns
    seeds = [_stirred(cohort * partition.rounds + turn) for turn in range(partition.rounds)]
    while True:
        row, column = divmod(symbol, columns)
        for turn, seed in enumerate(seeds):
            if turn % 2:
                column = (column + hash_one(seed, row, columns)) % columns
            else:
                row = (row + hash_one(seed, column, rows)) % rows
        symbol = row * columns + column
        if symbol < partition.symbols:
            return symbol // partition.each


def bucket_many(cohorts: NDArray[np.int64], symbols: NDArray[np.int64], partition: Partition) -> NDArray[np.int64]:
    """The same, elementwise."""
    places, columns = np.array(symbols, dtype=np.int64), partition.columns
    if partition.each == 1:
        return places
    moving = np.arange(len(places))
    while len(moving):
        row, column = np.divmod(places[moving], columns)
        for turn in range(partition.rounds):
            seeds = _stirred_many(cohorts[moving] * partition.rounds + turn)
            if turn % 2:
                column = (column + hash_many(seeds, row, columns)) % columns
            else:
                row = (row + hash_many(seeds, column, partition.rows)) % partition.rows
        places[moving] = row * columns + column
        moving = moving[places[moving] >= partition.symbols]
    return places // partition.each


def count_buckets(counts: NDArray[np.int64], symbols: int, partition: Partition) -> NDArray[np.int64]:
    """For each of the first ``symbols`` how many reports named its bucket; ``counts`` are [cohort, bucket]."""
    if partition.each == 1:
        return np.asarray(counts.sum(axis=0)[:symbols], dtype=np.int64)
    supports = np.zeros(symbols, dtype=np.int64)
    busy = np.flatnonzero(counts.any(axis=1))
    for first in range(0, len(busy), _COHORTS):
        cohorts = busy[first : first + _COHORTS]
        _add_supports(supports, counts[cohorts], _shifts(cohorts, partition), *partition, partition.rows)
    return supports


def count_answers(
    cohorts: NDArray[np.int64], answers: NDArray[np.int64], symbols: int, partition: Partition
) -> NDArray[np.int64]:
    """The same for reports that all have cohorts of their own."""
    supports = np.zeros(symbols, dtype=np.int64)
    for first in range(0, len(cohorts), _COHORTS):
        chunk = cohorts[first : first + _COHORTS]
        counts = np.zeros((len(chunk), partition.buckets), dtype=np.int64)
        counts[np.arange(len(chunk)), answers[first : first + _COHORTS]] = 1
        _add_supports(supports, counts, _shifts(chunk, partition), *partition, partition.rows)
    return supports


def _shifts(cohorts: NDArray[np.int64], partition: Partition) -> NDArray[np.uint32]:
    """How far each round moves, [cohort, round, row or column]."""
    rows, columns = partition.rows, partition.columns
    turns = np.arange(partition.rounds)
    seeds = _stirred_many(cohorts[:, None] * partition.rounds + turns)[..., None]
    shifts = np.zeros((len(cohorts), partition.rounds, rows), dtype=np.uint32)  # there are no more columns than rows
    shifts[:, 0::2, :columns] = hash_many(seeds[:, 0::2], np.arange(columns), rows)
    shifts[:, 1::2] = hash_many(seeds[:, 1::2], np.arange(rows), columns)
    return shifts


def _add_supports_numpy(
    supports: NDArray[np.int64],
    counts: NDArray[np.int64],
    shifts: NDArray[np.uint32],
    buckets: int,
    each: int,
    rows: int,
) -> None:
    columns = -(-buckets * each // rows)
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


@kernel(twin=_add_supports_numpy)
def _add_supports(
    supports: NDArray[np.int64],
    counts: NDArray[np.int64],
    shifts: NDArray[np.uint32],
    buckets: int,
    each: int,
    rows: int,
) -> None:
    symbols = np.uint32(buckets * each)
    tall, wide = np.uint32(rows), np.uint32(-(-buckets * each // rows))
    inverse = 1.0 / each
    for g in range(len(counts)):
        moves, table = shifts[g], counts[g]
        row, column = np.uint32(0), np.uint32(0)
        for v in range(len(supports)):
            r, c = row, column
            while True:
                for turn in range(0, len(moves), 2):
                    # Below zero wraps around, so the smaller one is the remainder, without a branch to mispredict.
                    r = np.uint32(r + moves[turn, c])
                    r = min(r, np.uint32(r - tall))
                    c = np.uint32(c + moves[turn + 1, r])
                    c = min(c, np.uint32(c - wide))
                place = np.uint32(r * wide + c)
                if place < symbols:
                    break
            supports[v] += table[np.int64((place + 0.5) * inverse)]  # the half keeps rounding harmless
            column = np.uint32(column + np.uint32(1))
            if column == wide:
                row, column = np.uint32(row + np.uint32(1)), np.uint32(0)


def _stirred(number: int) -> int:
    word = (number + 1) * _STEP & _MASK
    word = (word ^ word >> 30) * _STIR & _MASK
    word = (word ^ word >> 27) * _SETTLE & _MASK
    return word ^ word >> 31


def _stirred_many(numbers: NDArray[np.int64]) -> NDArray[np.uint64]:
    words = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(_STEP)
    words = (words ^ words >> np.uint64(30)) * np.uint64(_STIR)
    words = (words ^ words >> np.uint64(27)) * np.uint64(_SETTLE)
    return words ^ words >> np.uint64(31)
