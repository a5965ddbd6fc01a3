"""Seeded near-Gaussian directions: which of a report's own rows points how well along a person's vector.

Row r of a report has one number a coordinate: how many of sixteen bits are set, less eight, which is twice a number of
mean 0 and variance 1. The bits are those of SplitMix64 from the report's public word on. Nothing is stored: device and
collector make the same rows from the same word. All of it is arithmetic on whole numbers, and exact.

Privacy never rests on these numbers, only accuracy.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from keyveil.kernels.backend import kernel

_LANES = 4  # numbers of sixteen bits in a word
_STEP, _STIR, _SETTLE = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB  # of splitmix64
_AT_ONCE = 1 << 23  # numbers of directions that the twins hold at once
_ALONE = 1 << 20  # the same on a device, which has less memory
_UNTIL = 4095  # reports whose counts of sixteen bits fit into sixteen bits, added up

Words = NDArray[np.uint64]
Integers = NDArray[np.int64]


def directions(words: Words, rows: Integers, coordinates: int) -> NDArray[np.int8]:
    """Numbers of given rows of everybody's directions, [person, row, coordinate]."""
    per_row = -(-coordinates // _LANES)
    places = rows[:, :, None].astype(np.uint64) * np.uint64(per_row) + np.arange(1, per_row + 1, dtype=np.uint64)
    bits = np.asarray(words[:, None, None] + places * np.uint64(_STEP), dtype=np.uint64)
    bits = (bits ^ bits >> np.uint64(30)) * np.uint64(_STIR)
    bits = (bits ^ bits >> np.uint64(27)) * np.uint64(_SETTLE)
    bits ^= bits >> np.uint64(31)
    lanes = bits.astype("<u8", copy=False).view("<u2")[:, :, :coordinates]
    numbers: NDArray[np.int8] = np.bitwise_count(lanes).astype(np.int8) - np.int8(8)
    return numbers


def ranked_row(vectors: NDArray[np.int16], words: Words, rows: int, places: Integers) -> Integers:
    """Everybody's row at a place of the order in which the best aligned come first; of equal ones the first first.

    The vectors must be short enough for inner products below 2^24, where single precision is exact.
    """
    ranked = _ranked_row.twin if len(vectors) == 1 else _ranked_row  # a device alone compiles nothing
    return ranked(np.ascontiguousarray(vectors), words, rows, places)


def sum_told(words: Words, told: Integers, first: Integers, block: int, d: int) -> Integers:
    """Sums of the rows that were told: reports, first and second coordinates of every key, [3, d].

    A report is about ``block`` keys in a row from its ``first`` on, around the end of the d keys.
    """
    sums = np.zeros((3, d), dtype=np.int64)
    people = max(_AT_ONCE // (2 * block + 1), 1)
    for start in range(0, len(words), people):
        some = slice(start, start + people)
        keys = ((first[some, None] + np.arange(block)) % d).ravel()
        numbers = directions(words[some], told[some, None], 2 * block + 1)[:, 0]
        sums[0] += np.bincount(keys, minlength=d)
        for part in range(2):  # in doubles, but of whole numbers far below 2^53
            of_part = numbers[:, part * block : (part + 1) * block].ravel()
            sums[1 + part] += np.bincount(keys, of_part, minlength=d).astype(np.int64)
    return sums


def _ranked_row_numpy(vectors: NDArray[np.int16], words: Words, rows: int, places: Integers) -> Integers:
    n, coordinates = vectors.shape
    people, answers = max(_AT_ONCE // (rows * coordinates), 1), np.empty(n, dtype=np.int64)
    for start in range(0, n, people):
        some = slice(start, min(start + people, n))
        every = np.broadcast_to(np.arange(rows), (len(words[some]), rows))
        numbers = directions(words[some], every, coordinates).astype(np.float32)
        along = np.matmul(numbers, vectors[some, :, None].astype(np.float32))[:, :, 0]
        order = np.argsort(-along, axis=1, kind="stable")
        answers[some] = np.take_along_axis(order, places[some, None], axis=1)[:, 0]
    return answers


def _counts(x: np.uint64) -> np.uint64:
    """Four counts of the sixteen bits each of what SplitMix64 makes of a number, each in sixteen bits."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(_STIR)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(_SETTLE)
    x ^= x >> np.uint64(31)
    # Pairs of bits, then fours, eights and sixteens are added up, in all four at once.
    x -= (x >> np.uint64(1)) & np.uint64(0x5555555555555555)
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (x + (x >> np.uint64(8))) & np.uint64(0x00FF00FF00FF00FF)


@kernel(twin=_ranked_row_numpy, steps=(_counts,), work=lambda vectors, words, rows, places: vectors.size * rows)
def _ranked_row(vectors: NDArray[np.int16], words: Words, rows: int, places: Integers) -> Integers:
    n, coordinates = vectors.shape
    per_row = (coordinates + 3) // 4
    bits = np.empty(per_row, dtype=np.uint64)
    lanes = bits.view(np.uint16)
    along = np.empty(rows, dtype=np.int32)
    answers = np.empty(n, dtype=np.int64)
    for i in range(n):
        vector, word = vectors[i], words[i]
        for row in range(rows):
            start = word + np.uint64(row * per_row + 1) * np.uint64(_STEP)
            for k in range(per_row):
                bits[k] = _counts(start + np.uint64(k) * np.uint64(_STEP))
            total = np.int32(0)
            for k in range(coordinates):  # without the eight, which moves all rows alike
                total += np.int32(vector[k]) * np.int32(lanes[k])
            along[row] = total
        place = places[i]
        for row in range(rows):
            better = 0
            for other in range(rows):
                better += (along[other] > along[row]) | ((along[other] == along[row]) & (other < row))
            if better == place:
                answers[i] = row
                break
    return answers


# -- vectors of which most coordinates are zero -----------------------------------------------------------------------


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
    of_owner = np.repeat(words, np.diff(offsets))
    quads, lanes = places // _LANES + 1, (16 * (places % _LANES)).astype(np.uint64)
    along, step = np.empty((rows, len(words)), dtype=np.int64), max(_ALONE // max(len(places), 1), 1)
    for first in range(0, rows, step):  # however long somebody's vector is, so many numbers are held at once
        some = np.arange(first, min(first + step, rows))
        bits = of_owner + (some[:, None] * per_row + quads).astype(np.uint64) * np.uint64(_STEP)
        bits = (bits ^ bits >> np.uint64(30)) * np.uint64(_STIR)
        bits = (bits ^ bits >> np.uint64(27)) * np.uint64(_SETTLE)
        bits ^= bits >> np.uint64(31)
        terms = (np.bitwise_count(bits >> lanes & np.uint64(0xFFFF)).astype(np.int64) - 8) * numbers
        along[some] = np.add.reduceat(terms, offsets[:-1], axis=1)
    order = np.argsort(-along, axis=0, kind="stable")
    answers: Integers = order[ranks, np.arange(len(words))]
    return answers


@kernel(
    twin=_ranked_sparse_numpy,
    steps=(_counts,),
    work=lambda offsets, places, numbers, words, rows, *rest: len(places) * rows,
)
def _ranked_sparse(
    offsets: Integers, places: Integers, numbers: Integers, words: Words, rows: int, per_row: int, ranks: Integers
) -> Integers:
    n, stride = len(words), np.uint64(per_row) * np.uint64(_STEP)
    along, answers = np.empty(rows, dtype=np.int64), np.empty(n, dtype=np.int64)
    for i in range(n):
        along[:] = 0
        for at in range(offsets[i], offsets[i + 1]):
            start = words[i] + np.uint64((places[at] >> 2) + 1) * np.uint64(_STEP)
            shift, number = np.uint64(16 * (places[at] & 3)), numbers[at]
            for row in range(rows):  # innermost, so that several rows are hashed at once
                bits = _counts(start + np.uint64(row) * stride)
                # without the eight, which moves all rows alike
                along[row] += number * np.int64((bits >> shift) & np.uint64(0xFF))
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


@kernel(twin=_sum_rows_numpy, steps=(_counts,), work=lambda words, told, per_row: _LANES * per_row * len(words))
def _sum_rows(words: Words, told: Integers, per_row: int) -> Integers:
    n, sums = len(words), np.zeros(4 * per_row, dtype=np.int64)
    packed = np.zeros(per_row, dtype=np.uint64)  # four sums of sixteen bits in each
    lanes = packed.view(np.uint16)
    for begin in range(0, n, _UNTIL):
        packed[:] = 0
        for i in range(begin, min(begin + _UNTIL, n)):
            start = words[i] + np.uint64(told[i] * per_row + 1) * np.uint64(_STEP)
            for k in range(per_row):
                packed[k] += _counts(start + np.uint64(k) * np.uint64(_STEP))
        for k in range(4 * per_row):
            sums[k] += lanes[k]
    for k in range(4 * per_row):
        sums[k] -= 8 * n
    return sums
