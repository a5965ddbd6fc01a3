"""Hashing signed keys into buckets so that the two signs of a key share one as often as one likes.

Symbol 2k is the low sign of key k, symbol 2k + 1 the high one. A seeded hash puts the low sign anywhere; a second one
decides how many buckets further the high sign lies: none with probability κ, every other distance equally often. For
this the 2³² values of the second hash are cut into ``step`` values for each distance and the rest for none, so κ is
exact. Different keys are independent of each other, and either sign alone is in every bucket equally often.

Privacy never rests on this hash, only accuracy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyveil.kernels.backend import kernel
from keyveil.kernels.hashing import halves_many, hash_many, hash_one, mix_one, mixed, prepared
from keyveil.kernels.threads import small_parts, sum_in_parts

Integers = NDArray[np.int64]
Seeds = NDArray[np.uint64]
Words32 = NDArray[np.uint32]
Halves = tuple[Words32, Words32]
Form = tuple[int, ...]
"""``SignHash`` as plain numbers, for the compiler."""

_WORDS = 1 << 32
_KEYS = 1024  # counted at once: their votes stay in the first cache
_ROWS = 64  # seeds that the twins serve at once


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

    def count_tables(self, seeds: Seeds, counts: Integers, symbols: int, threads: int = 1) -> Integers:
        """For each of the first ``symbols`` how many reports named its bucket; ``counts`` are [seed, bucket]."""
        busy, parts = np.flatnonzero(counts.any(axis=1)), small_parts(counts)

        def work(start: int, stop: int) -> Integers:
            some = busy[start:stop]
            return sum(
                (weight * self._supports(_add_tables, seeds[some], part[some], symbols) for part, weight in parts),
                np.zeros(symbols, dtype=np.int64),
            )

        return sum_in_parts(work, len(busy), symbols, threads)

    def count_answers(self, seeds: Seeds, answers: Integers, symbols: int) -> Integers:
        """The same for reports that all have seeds of their own."""
        return self._supports(_add_answers, seeds, answers.astype(np.uint32), symbols)

    def _supports(self, add: _Add, seeds: Seeds, told: Words32, symbols: int) -> Integers:
        """Symbols come in pairs, the two signs of a key; some keys at a time."""
        supports, halves = np.zeros(symbols, dtype=np.int64), halves_many(seeds)
        values = prepared(np.arange(symbols, dtype=np.uint32))
        for first in range(0, symbols, 2 * _KEYS):
            signs = np.ascontiguousarray(values[first : first + 2 * _KEYS].reshape(-1, 2).T)
            votes = np.zeros_like(signs)
            add(votes, halves, told, signs, tuple(self))
            supports[first : first + 2 * _KEYS] = votes.T.reshape(-1)
        return supports


_Add = Callable[..., None]
"""Adds to votes [low or high sign, key] how many reports named the bucket of the symbol."""


def _placed(seeds: Halves, some: slice, signs: Words32, form: Form) -> tuple[Integers, Integers]:
    """The buckets of low and of high signs under some of the seeds, [seed, key]."""
    buckets, step = form
    low_half, high_half = (half[some, None] for half in seeds)
    low_hashes, hashes = (mixed(values, low_half, high_half) for values in signs)
    low = (low_hashes.astype(np.uint64) * np.uint64(buckets) >> np.uint64(32)).astype(np.int64)
    beyond = hashes.astype(np.int64) - (_WORDS - (buckets - 1) * step)
    return low, (low + np.where(beyond < 0, 0, 1 + beyond // step)) % buckets


def _steps(votes: Words32, seeds: Halves, *rest: object) -> int:
    return votes.size * len(seeds[0])


def _add_tables_numpy(votes: Words32, seeds: Halves, counts: Words32, signs: Words32, form: Form) -> None:
    for g in range(0, len(counts), _ROWS):
        some = slice(g, g + _ROWS)
        rows = np.arange(g, min(g + _ROWS, len(counts)))[:, None]
        for sign, places in enumerate(_placed(seeds, some, signs, form)):
            votes[sign] += counts[rows, places].sum(axis=0, dtype=np.uint32)


def scaled(words: Seeds, factor: np.uint64, shift: np.uint64) -> None:
    """Both 32-bit halves of every word, times a factor below 2**32 and without ``shift`` (32 or more) low bits.

    In place. Products have 64 bits, and two halves at a time are what vector registers multiply without widening.
    """
    half, low = np.uint64(32), np.uint64(0xFFFF_FFFF)
    small = factor & low  # tells the compiler
    for i in range(len(words)):
        word = words[i]
        words[i] = ((word & low) * small >> shift) | ((word >> half) * small >> shift << half)


@kernel(twin=_add_tables_numpy, steps=(mix_one, scaled), work=_steps)
def _add_tables(votes: Words32, seeds: Halves, counts: Words32, signs: Words32, form: Form) -> None:
    (seed_low, seed_high), (buckets, step), lows, highs = seeds, form, signs[0], signs[1]
    # Everything is cast back to 32 bits at each step: one wider intermediate would halve the lanes.
    shared, wide, stride = np.uint32(_WORDS - (buckets - 1) * step), np.uint32(buckets), np.uint32(step)
    # beyond // step as a product: 2**shift / step, rounded down, gives the quotient or one less, for all 32 bits.
    shift = 32
    while step >> (shift - 31):
        shift += 1
    last = np.uint32((buckets - 1) * step - 1)  # beyond which the hash was below ``shared``
    inverse = min((np.uint64(1) << np.uint64(shift)) // np.uint64(step), np.uint64(_WORDS - 1))
    keys = len(lows)
    words, distances = np.empty((keys + 1) // 2, dtype=np.uint64), np.empty((keys + 1) // 2, dtype=np.uint64)
    near, far = words.view(np.uint32), distances.view(np.uint32)
    beyond = np.empty(keys, dtype=np.uint32)
    low_votes, high_votes = votes[0], votes[1]
    for g in range(len(seed_low)):
        low, high, table = seed_low[g], seed_high[g], counts[g]
        for v in range(keys):
            near[v] = mix_one(lows[v], low, high)
            beyond[v] = np.uint32(mix_one(highs[v], low, high) - shared)
            far[v] = beyond[v]
        scaled(words, np.uint64(buckets), np.uint64(32))
        scaled(distances, inverse, np.uint64(shift))
        for v in range(keys):
            times = np.uint32(far[v] + np.uint32(np.uint32(beyond[v] - np.uint32(far[v] * stride)) >= stride))
            moved = np.uint32(np.uint32(near[v] + times) + np.uint32(1))
            moved = min(moved, np.uint32(moved - wide))  # below zero wraps around
            far[v] = moved if beyond[v] <= last else near[v]
        for v in range(keys):
            low_votes[v] += table[near[v]]
        for v in range(keys):
            high_votes[v] += table[far[v]]


def _add_answers_numpy(votes: Words32, seeds: Halves, answers: Words32, signs: Words32, form: Form) -> None:
    for g in range(0, len(answers), _ROWS):
        some = slice(g, g + _ROWS)
        for sign, places in enumerate(_placed(seeds, some, signs, form)):
            votes[sign] += (places == answers[some, None]).sum(axis=0, dtype=np.uint32)


@kernel(twin=_add_answers_numpy, steps=(mix_one, scaled), work=_steps)
def _add_answers(votes: Words32, seeds: Halves, answers: Words32, signs: Words32, form: Form) -> None:
    """Two reports at a time: values and votes are then loaded and stored half as often.

    A high sign is in the bucket of the answer if its hash, less ``shared``, is one of ``step`` from (gap - 1) · step
    on, where gap is how far beyond the low sign the answer lies; or one of the last ``shared`` if they are the same.
    """
    (seed_low, seed_high), (buckets, step), lows, highs = seeds, form, signs[0], signs[1]
    # All in 32 bits: what is below zero wraps around, and of two candidates the smaller one is meant.
    one, shared = np.uint32(1), np.uint32(_WORDS - (buckets - 1) * step)
    wide, stride = np.uint32(buckets), np.uint32(step)
    keys, reports = len(lows), len(seed_low)
    words = np.empty(keys, dtype=np.uint64)
    place, place2 = words.view(np.uint32)[:keys], words.view(np.uint32)[keys:]
    low_votes, high_votes = votes[0], votes[1]
    for g in range(0, reports, 2):
        low, high, answer = seed_low[g], seed_high[g], answers[g]
        low2, high2, answer2, shared2, stride2 = (
            low,
            high,
            np.uint32(_WORDS - 1),
            np.uint32(0),
            np.uint32(0),
        )  # nobody's
        if g + 1 < reports:
            low2, high2, answer2, shared2, stride2 = seed_low[g + 1], seed_high[g + 1], answers[g + 1], shared, stride
        for v in range(keys):
            place[v], place2[v] = mix_one(lows[v], low, high), mix_one(lows[v], low2, high2)
        scaled(words, np.uint64(buckets), np.uint64(32))
        for v in range(keys):
            same, same2 = place[v] == answer, place2[v] == answer2
            gap = np.uint32(np.uint32(answer - one) - place[v])  # less one
            gap2 = np.uint32(np.uint32(answer2 - one) - place2[v])
            gap, gap2 = min(gap, np.uint32(gap + wide)), min(gap2, np.uint32(gap2 + wide))
            x = np.uint32(mix_one(highs[v], low, high) - shared)
            y = np.uint32(mix_one(highs[v], low2, high2) - shared)
            x, y = np.uint32(x - np.uint32(gap * stride)), np.uint32(y - np.uint32(gap2 * stride))
            room, room2 = shared if same else stride, shared2 if same2 else stride2
            low_votes[v] += np.uint32(same) + np.uint32(same2)
            high_votes[v] += np.uint32(x < room) + np.uint32(y < room2)
