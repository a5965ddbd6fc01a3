"""A fast seeded hash of 32-bit values into [0, g), and counting what hashed reports support.

Values go through three rounds of xor-shift and multiplication (after Wellons' integer hashes), one half of the spread
seed entering before the first multiplication and the other before the last. For a fixed value and first half the map
from the second half to the hash is a bijection, so over uniform seeds every hash is exactly uniform on 32 bits. Two
rounds would let values that differ in one or two bits collide too often or too seldom, a bias that no number of reports
removes. The reduction to [0, g) is ``(x * g) >> 32``: symbol r stands for one interval of the 32-bit hashes, and
counting compares with that interval. Only the leading bits decide, so no further xor-shift follows.

Privacy never rests on this hash, only accuracy; ``collision`` gives the realised rate for the estimator.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from keyveil.kernels.backend import kernel

_FIRST, _MIDDLE, _SECOND = 0x21F0AAAD, 0x735A2D97, 0xD35A2D97
_SPREAD = 0x9E3779B97F4A7C15  # 2**64 over the golden ratio: neighbouring seeds fall far apart
_WORD = (1 << 32) - 1
_VALUES = 2048  # counted at once: their votes stay in the first cache
_REPORTS = 1 << 14  # handed to the kernel at once: what NumPy prepares of them stays in the second cache

Intervals = tuple[NDArray[np.uint32], NDArray[np.uint32]]
"""For each report the hashes that support it: the first of them, and how many there are."""


def hash_one(seed: int, value: int, g: int) -> int:
    """The hash of one value, in plain integers for devices."""
    low, high = _halves(seed)
    x = value ^ (value >> 16) ^ low
    x = x * _FIRST & _WORD
    x = (x ^ (x >> 15)) * _MIDDLE & _WORD
    x ^= (x >> 15) ^ high
    return (x * _SECOND & _WORD) * g >> 32


def hash_many(seeds: NDArray[np.uint64], values: NDArray[np.integer], g: int) -> NDArray[np.uint32]:
    """Elementwise hashes of seeds and values, which broadcast."""
    lows, highs = halves_many(seeds)
    x = mixed(prepared(values), lows, highs)
    return (x.astype(np.uint64) * np.uint64(g) >> np.uint64(32)).astype(np.uint32)


def hash_grid(seeds: NDArray[np.uint64], values: int, g: int) -> NDArray[np.uint32]:
    """The hashes of all values below a bound under every seed, [seed, value]; g may be 2**32, which keeps all bits."""
    return _fill_grid(*halves_many(seeds), prepared(np.arange(values, dtype=np.uint32)), g)


def count_support(seeds: NDArray[np.uint64], symbols: NDArray[np.integer], g: int, d: int) -> NDArray[np.int64]:
    """For every value v < d the number of reports i with hash(seed_i, v) == symbol_i."""

    def hashes_of(cells: NDArray[np.uint64]) -> Intervals:
        starts, stops = ((((cells + np.uint64(k)) << np.uint64(32)) + np.uint64(g - 1)) // np.uint64(g) for k in (0, 1))
        return starts.astype(np.uint32), (stops - starts).astype(np.uint32)

    return _count(seeds, symbols, hashes_of, d)


def count_arcs(seeds: NDArray[np.uint64], cells: NDArray[np.integer], arc: int, g: int, d: int) -> NDArray[np.int64]:
    """For every value v < d the number of reports i whose cell lies among the ``arc`` cells from hash(seed_i, v) on.

    The g cells form a circle and must be a power of two: then the hashes that start such an arc are one interval too.
    """
    places = np.uint64(33 - g.bit_length())

    def hashes_of(cells: NDArray[np.uint64]) -> Intervals:
        starts = (cells + np.uint64(g - arc + 1) & np.uint64(g - 1)) << places
        return starts.astype(np.uint32), np.full(len(cells), arc << int(places), dtype=np.uint32)

    return _count(seeds, cells, hashes_of, d)


def _count(
    seeds: NDArray[np.uint64],
    cells: NDArray[np.integer],
    hashes_of: Callable[[NDArray[np.uint64]], Intervals],
    d: int,
) -> NDArray[np.int64]:
    """How many reports each value supports, if a cell is supported by an interval of hashes."""
    counts, values = np.zeros(d, dtype=np.int64), prepared(np.arange(d, dtype=np.uint32))
    for first in range(0, len(seeds), _REPORTS):
        some = slice(first, first + _REPORTS)
        counts += _count_cells(*halves_many(seeds[some]), *hashes_of(cells[some].astype(np.uint64)), values)
    return counts


def collision(g: int) -> Fraction:
    """The exact probability that two independent uniform 32-bit hashes are reduced to the same symbol."""
    small, larger = divmod(1 << 32, g)  # ``larger`` of the g intervals are longer by one
    return Fraction((g - larger) * small**2 + larger * (small + 1) ** 2, 1 << 64)


def _halves(seed: int) -> tuple[int, int]:
    spread = seed * _SPREAD & ((1 << 64) - 1)
    spread ^= spread >> 32
    return spread & _WORD, spread >> 32


def halves_many(seeds: NDArray[np.uint64]) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """The two halves of the spread seeds."""
    spread = np.asarray(seeds, dtype=np.uint64) * np.uint64(_SPREAD)
    spread ^= spread >> np.uint64(32)
    return (spread & np.uint64(_WORD)).astype(np.uint32), (spread >> np.uint64(32)).astype(np.uint32)


def prepared(values: NDArray[np.integer]) -> NDArray[np.uint32]:
    """The first xor-shift of the values; it is linear, so it need not be repeated for every seed."""
    words = np.asarray(values).astype(np.uint32)
    return words ^ (words >> np.uint32(16))


def mixed(words: NDArray[np.uint32], lows: NDArray[np.uint32], highs: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """All 32 bits of the hashes of prepared values under the halves of seeds, which broadcast."""
    x = np.atleast_1d(words ^ lows)
    x *= np.uint32(_FIRST)
    x ^= x >> np.uint32(15)
    x *= np.uint32(_MIDDLE)
    x ^= x >> np.uint32(15)
    x = x ^ highs
    x *= np.uint32(_SECOND)
    return x


def mix_one(word: np.uint32, low: np.uint32, high: np.uint32) -> np.uint32:
    """``mixed`` for one value inside a loop. Cast back to 32 bits at each step: a wider one would halve the lanes."""
    x = np.uint32(np.uint32(word ^ low) * np.uint32(_FIRST))
    x = np.uint32(np.uint32(x ^ np.uint32(x >> np.uint32(15))) * np.uint32(_MIDDLE))
    x = np.uint32(np.uint32(x ^ np.uint32(x >> np.uint32(15))) ^ high)
    return np.uint32(x * np.uint32(_SECOND))


def _fill_grid_numpy(
    lows: NDArray[np.uint32], highs: NDArray[np.uint32], values: NDArray[np.uint32], g: int
) -> NDArray[np.uint32]:
    hashes = mixed(values, lows[:, None], highs[:, None])
    return (hashes.astype(np.uint64) * np.uint64(g) >> np.uint64(32)).astype(np.uint32)


@kernel(twin=_fill_grid_numpy, work=lambda lows, highs, values, g: len(lows) * len(values))
def _fill_grid(
    lows: NDArray[np.uint32], highs: NDArray[np.uint32], values: NDArray[np.uint32], g: int
) -> NDArray[np.uint32]:
    hashes = np.empty((len(lows), len(values)), dtype=np.uint32)
    for i in range(len(lows)):
        low, high = lows[i], highs[i]
        for v in range(len(values)):
            x = np.uint32(np.uint32(values[v] ^ low) * np.uint32(_FIRST))
            x = np.uint32(np.uint32(x ^ np.uint32(x >> np.uint32(15))) * np.uint32(_MIDDLE))
            x = np.uint32(np.uint32(x ^ np.uint32(x >> np.uint32(15))) ^ high)
            x = np.uint32(x * np.uint32(_SECOND))
            hashes[i, v] = np.uint32((np.uint64(x) * np.uint64(g)) >> np.uint64(32))
    return hashes


def _count_cells_numpy(
    lows: NDArray[np.uint32],
    highs: NDArray[np.uint32],
    starts: NDArray[np.uint32],
    lengths: NDArray[np.uint32],
    values: NDArray[np.uint32],
) -> NDArray[np.int64]:
    counts = np.zeros(len(values), dtype=np.int64)
    for first in range(0, len(values), 1024):
        chunk = values[first : first + 1024]
        for i in range(0, len(lows), 64):
            x = mixed(chunk, lows[i : i + 64, None], highs[i : i + 64, None])
            x -= starts[i : i + 64, None]
            counts[first : first + 1024] += (x < lengths[i : i + 64, None]).sum(axis=0, dtype=np.uint8)
    return counts


@kernel(twin=_count_cells_numpy, work=lambda lows, highs, starts, lengths, values: len(lows) * len(values))
def _count_cells(
    lows: NDArray[np.uint32],
    highs: NDArray[np.uint32],
    starts: NDArray[np.uint32],
    lengths: NDArray[np.uint32],
    values: NDArray[np.uint32],
) -> NDArray[np.int64]:
    # Everything is cast back to 32 bits at each step: one wider intermediate would halve the lanes or worse.
    n, d = len(lows), len(values)
    votes = np.zeros(d, dtype=np.uint32)
    for first in range(0, d, _VALUES):
        chunk, mine = values[first : first + _VALUES], votes[first : first + _VALUES]
        for i in range(n):
            low, high, begin, length = lows[i], highs[i], starts[i], lengths[i]
            for v in range(len(chunk)):
                x = np.uint32(np.uint32(chunk[v] ^ low) * np.uint32(_FIRST))
                x = np.uint32(np.uint32(x ^ np.uint32(x >> np.uint32(15))) * np.uint32(_MIDDLE))
                x = np.uint32(np.uint32(x ^ np.uint32(x >> np.uint32(15))) ^ high)
                x = np.uint32(x * np.uint32(_SECOND))
                mine[v] += np.uint32(np.uint32(x - begin) < length)
    return votes.astype(np.int64)
