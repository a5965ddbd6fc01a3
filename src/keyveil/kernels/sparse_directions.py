"""Directions of which a person uses few coordinates: the numbers of ``kernels.directions``, addressed by coordinate.

A person with few of many keys ranks rows by the coordinates of these keys alone; the collector adds up all coordinates
of the rows that were told. Nothing is stored, and all of it is arithmetic on whole numbers.
"""

from __future__ import annotations

import numpy as np

from keyveil.kernels.backend import kernel
from keyveil.kernels.directions import _AT_ONCE, _LANES, _SETTLE, _STEP, _STIR, Integers, Words, directions

_UNTIL = 4095  # reports whose counts of sixteen bits fit into sixteen bits, added up


def ranked_sparse(
    offsets: Integers, places: Integers, numbers: Integers, words: Words, rows: int, coordinates: int, ranks: Integers
) -> Integers:
    """Everybody's row at a rank of the order in which the best aligned come first; of equal ones the first first.

    The vector of person i has ``numbers`` at the coordinates ``places`` from ``offsets[i]`` to ``offsets[i + 1]``, at
    least one of them, and 0 at all others of its ``coordinates``. Inner products must stay below 2^63.
    """
    per_row = -(-coordinates // _LANES)
    ranked = _ranked_sparse.twin if len(words) == 1 else _ranked_sparse  # a device alone compiles nothing
    return ranked(offsets, places, numbers, words, rows, per_row, ranks)


def sum_rows(words: Words, told: Integers, coordinates: int) -> Integers:
    """Sums of all coordinates of the rows that were told."""
    per_row = -(-coordinates // _LANES)
    return _sum_rows(words, told, per_row)[:coordinates]


def _ranked_sparse_numpy(
    offsets: Integers, places: Integers, numbers: Integers, words: Words, rows: int, per_row: int, ranks: Integers
) -> Integers:
    n, answers = len(words), np.empty(len(words), dtype=np.int64)
    start = 0
    while start < n:
        limit = offsets[start] + max(_AT_ONCE // rows, 1)
        stop = min(max(int(np.searchsorted(offsets, limit, side="right")) - 1, start + 1), n)
        some = slice(offsets[start], offsets[stop])
        owners = np.repeat(np.arange(start, stop), np.diff(offsets[start : stop + 1]))
        counters = np.arange(rows)[:, None] * per_row + places[some] // _LANES + 1  # [row, entry]
        bits = words[owners] + counters.astype(np.uint64) * np.uint64(_STEP)
        bits = (bits ^ bits >> np.uint64(30)) * np.uint64(_STIR)
        bits = (bits ^ bits >> np.uint64(27)) * np.uint64(_SETTLE)
        bits ^= bits >> np.uint64(31)
        lanes = bits >> (16 * (places[some] % _LANES)).astype(np.uint64) & np.uint64(0xFFFF)
        terms = (np.bitwise_count(lanes).astype(np.int64) - 8) * numbers[some]
        along = np.add.reduceat(terms, offsets[start:stop] - offsets[start], axis=1)
        order = np.argsort(-along, axis=0, kind="stable")
        answers[start:stop] = order[ranks[start:stop], np.arange(stop - start)]
        start = stop
    return answers


@kernel(twin=_ranked_sparse_numpy)
def _ranked_sparse(
    offsets: Integers, places: Integers, numbers: Integers, words: Words, rows: int, per_row: int, ranks: Integers
) -> Integers:
    n = len(words)
    along, answers = np.empty(rows, dtype=np.int64), np.empty(n, dtype=np.int64)
    for i in range(n):
        for row in range(rows):
            total, last, bits = np.int64(0), np.int64(-1), np.uint64(0)
            for at in range(offsets[i], offsets[i + 1]):
                quad = places[at] >> 2
                if quad != last:
                    bits = words[i] + np.uint64(row * per_row + quad + 1) * np.uint64(_STEP)
                    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(_STIR)
                    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(_SETTLE)
                    bits ^= bits >> np.uint64(31)
                    bits -= (bits >> np.uint64(1)) & np.uint64(0x5555555555555555)
                    bits = (bits & np.uint64(0x3333333333333333)) + (
                        (bits >> np.uint64(2)) & np.uint64(0x3333333333333333)
                    )
                    bits = (bits + (bits >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
                    bits = (bits + (bits >> np.uint64(8))) & np.uint64(0x00FF00FF00FF00FF)
                    last = quad
                count = np.int64((bits >> np.uint64(16 * (places[at] & 3))) & np.uint64(0xFF))
                total += (count - 8) * numbers[at]
            along[row] = total
        for row in range(rows):
            better = 0
            for other in range(rows):
                better += (along[other] > along[row]) | ((along[other] == along[row]) & (other < row))
            if better == ranks[i]:
                answers[i] = row
                break
    return answers


def _sum_rows_numpy(words: Words, told: Integers, per_row: int) -> Integers:
    coordinates, sums = _LANES * per_row, np.zeros(_LANES * per_row, dtype=np.int64)
    people = max(_AT_ONCE // coordinates, 1)
    for start in range(0, len(words), people):
        some = slice(start, start + people)
        sums += directions(words[some], told[some, None], coordinates)[:, 0].sum(axis=0, dtype=np.int64)
    return sums


@kernel(twin=_sum_rows_numpy)
def _sum_rows(words: Words, told: Integers, per_row: int) -> Integers:
    n, sums = len(words), np.zeros(4 * per_row, dtype=np.int64)
    packed = np.zeros(per_row, dtype=np.uint64)  # four sums of sixteen bits in each
    lanes = packed.view(np.uint16)
    for begin in range(0, n, _UNTIL):
        packed[:] = 0
        for i in range(begin, min(begin + _UNTIL, n)):
            start = words[i] + np.uint64(told[i] * per_row + 1) * np.uint64(_STEP)
            for k in range(per_row):
                x = start + np.uint64(k) * np.uint64(_STEP)
                x = (x ^ (x >> np.uint64(30))) * np.uint64(_STIR)
                x = (x ^ (x >> np.uint64(27))) * np.uint64(_SETTLE)
                x ^= x >> np.uint64(31)
                x -= (x >> np.uint64(1)) & np.uint64(0x5555555555555555)
                x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
                x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
                packed[k] += (x + (x >> np.uint64(8))) & np.uint64(0x00FF00FF00FF00FF)
        for k in range(4 * per_row):
            sums[k] += lanes[k]
    for k in range(4 * per_row):
        sums[k] -= 8 * n
    return sums
