"""Hashing signed keys into buckets so that the two signs of a key share one as often as one likes.

Symbol 2k is the low sign of key k, symbol 2k + 1 the high one. A seeded hash puts the low sign anywhere; a second one
decides how many buckets further the high sign lies: none with probability κ, every other distance equally often. For
this the 2³² values of the second hash are cut into ``step`` values for each distance and the rest for none, so κ is
exact. Different keys are independent of each other, and either sign alone is in every bucket equally often.

Privacy never rests on this hash, only accuracy.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyveil.kernels.backend import kernel
from keyveil.kernels.hashing import hash_grid, hash_many, hash_one

Integers = NDArray[np.int64]
Seeds = NDArray[np.uint64]

_WORDS = 1 << 32
_CELLS = 1 << 16  # hashes tabled at once: they stay in the second cache


class SignHash(NamedTuple):
    """``step`` of 2³² hashes put the high sign of a key into each of the buckets that its low sign is not in."""

    buckets: int
    step: int

    @classmethod
    def of(cls, buckets: int, kappa: Fraction) -> SignHash:
        """The nearest that there is: κ is rounded up by at most ``buckets`` of 2³²."""
        return cls(buckets, min(math.floor((1 - kappa) * _WORDS / (buckets - 1)), _WORDS - 1))

    @property
    def shared(self) -> int:
        """How many of 2³² hashes put both signs of a key into one bucket."""
        return _WORDS - (self.buckets - 1) * self.step

    @property
    def kappa(self) -> Fraction:
        return Fraction(self.shared, _WORDS)

    def steps(self, symbols: int) -> int:
        """What it takes to count one report under a seed of its own: a hash for every symbol."""
        return symbols

    def bucket(self, seed: int, symbol: int) -> int:
        """The bucket of a symbol under a 64-bit seed, in plain integers for devices."""
        low = hash_one(seed, symbol - symbol % 2, self.buckets)
        if symbol % 2 == 0:
            return low
        beyond = hash_one(seed, symbol, _WORDS) - self.shared
        return low if beyond < 0 else (low + 1 + beyond // self.step) % self.buckets

    def bucket_many(self, seeds: Seeds, symbols: Integers) -> Integers:
        """The same, elementwise."""
        signs = symbols % 2
        lows = hash_many(seeds, symbols - signs, self.buckets).astype(np.int64)
        beyond = hash_many(seeds, symbols, _WORDS).astype(np.int64) - self.shared
        return (lows + np.where((signs == 0) | (beyond < 0), 0, 1 + beyond // self.step)) % self.buckets

    def count_tables(self, seeds: Seeds, counts: Integers, symbols: int) -> Integers:
        """For each of the first ``symbols`` how many reports named its bucket; ``counts`` are [seed, bucket]."""
        supports = np.zeros(symbols, dtype=np.int64)
        busy = np.flatnonzero(counts.any(axis=1))
        for some in self._chunks(len(busy), symbols):
            _add_tables(supports, hash_grid(seeds[busy[some]], symbols, _WORDS), counts[busy[some]], *self)
        return supports

    def count_answers(self, seeds: Seeds, answers: Integers, symbols: int) -> Integers:
        """The same for reports that all have seeds of their own."""
        supports = np.zeros(symbols, dtype=np.int64)
        for some in self._chunks(len(seeds), symbols):
            _add_answers(supports, hash_grid(seeds[some], symbols, _WORDS), answers[some], *self)
        return supports

    def _chunks(self, seeds: int, symbols: int) -> list[slice]:
        """Symbols come in pairs, the two signs of a key."""
        rows = max(_CELLS // symbols, 1)
        return [slice(first, first + rows) for first in range(0, seeds, rows)]


def _placed(hashes: NDArray[np.uint32], buckets: int, step: int) -> tuple[Integers, Integers]:
    """The buckets of low and of high signs, by hashes [seed, symbol]."""
    low = (hashes[:, 0::2].astype(np.uint64) * np.uint64(buckets) >> np.uint64(32)).astype(np.int64)
    beyond = hashes[:, 1::2].astype(np.int64) - (_WORDS - (buckets - 1) * step)
    return low, (low + np.where(beyond < 0, 0, 1 + beyond // step)) % buckets


def _add_tables_numpy(
    supports: Integers, hashes: NDArray[np.uint32], counts: Integers, buckets: int, step: int
) -> None:
    rows = np.arange(len(counts))[:, None]
    for sign, places in enumerate(_placed(hashes, buckets, step)):
        supports[sign::2] += counts[rows, places].sum(axis=0)


@kernel(twin=_add_tables_numpy)
def _add_tables(supports: Integers, hashes: NDArray[np.uint32], counts: Integers, buckets: int, step: int) -> None:
    shared = _WORDS - (buckets - 1) * step
    inverse = 1.0 / step
    for g in range(len(counts)):
        words, table = hashes[g], counts[g]
        for key in range(len(supports) // 2):
            low = np.int64((np.uint64(words[2 * key]) * np.uint64(buckets)) >> np.uint64(32))
            beyond = np.int64(words[2 * key + 1]) - shared
            high = low
            if beyond >= 0:
                high += 1 + np.int64((beyond + 0.5) * inverse)  # the half keeps rounding harmless
                if high >= buckets:
                    high -= buckets
            supports[2 * key] += table[low]
            supports[2 * key + 1] += table[high]


def _add_answers_numpy(
    supports: Integers, hashes: NDArray[np.uint32], answers: Integers, buckets: int, step: int
) -> None:
    for sign, places in enumerate(_placed(hashes, buckets, step)):
        supports[sign::2] += (places == answers[:, None]).sum(axis=0)


@kernel(twin=_add_answers_numpy)
def _add_answers(supports: Integers, hashes: NDArray[np.uint32], answers: Integers, buckets: int, step: int) -> None:
    # All in 32 bits: distances and hashes below zero wrap around, and of two candidates the smaller one is meant.
    shared, wide, stride = np.uint32(_WORDS - (buckets - 1) * step), np.uint32(buckets), np.uint32(step)
    before = np.uint32(shared - stride)
    for g in range(len(answers)):
        words, answer = hashes[g], np.uint32(answers[g])
        for key in range(len(supports) // 2):
            low = np.uint32((np.uint64(words[2 * key]) * np.uint64(wide)) >> np.uint64(32))
            gap = np.uint32(answer - low)
            gap = min(gap, np.uint32(gap + wide))
            start = np.uint32(before + np.uint32(gap * stride)) if gap else np.uint32(0)
            room = stride if gap else shared
            supports[2 * key] += np.int64(gap == 0)
            supports[2 * key + 1] += np.int64(np.uint32(words[2 * key + 1] - start) < room)
