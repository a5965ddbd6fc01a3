"""Exact biased bits, eight at a time: every bit is one with probability threshold / 2**32, and nothing is rounded.

A byte of eight such bits takes each of its 256 values with a weight out of 2**256. Sixteen random bits look it up in a
table in which every byte stands as often as its weight allows, rounded down; the draws that the table leaves over (two
in a thousand) are settled by a second table made of the exact remainders, and what that leaves over by whole numbers of
any length. So two random bits make one biased bit, and no probability is ever approximated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from keyveil.core.coins import Coins
from keyveil.kernels.backend import kernel

_DRAWS = 1 << 16  # what sixteen bits can say
_BLOCK = 1 << 16  # words at a time: their keystream is a mebibyte, in a buffer that is used again
_STRIDE = 64  # draws that are searched together for leftovers
_FULL = np.uint64(0xFFFF_FFFF_FFFF_FFFF)


def bernoulli_words(threshold: int, count: int, coins: Coins) -> NDArray[np.uint64]:
    """``count`` words whose bits are independent, each one with probability threshold / 2**32 (0 … 2**32)."""
    words = np.empty(count, dtype=np.uint64)
    _fill(words, threshold, coins)
    return words


def perturb_unary(
    hot: NDArray[np.int64], d: int, hot_threshold: int, cold_threshold: int, coins: Coins
) -> NDArray[np.uint64]:
    """For each person d biased bits; the one at ``hot[i]`` (-1: none) has a bias of its own. Bits beyond d are zero."""
    words = np.empty((len(hot), -(-d // 64)), dtype=np.uint64)
    _fill(words.reshape(-1), cold_threshold, coins)
    _place(words, hot, bernoulli_words(hot_threshold, -(-len(hot) // 64), coins))
    return _cut(words, d)


def perturb_bits(
    bits: NDArray[np.uint64], d: int, one_threshold: int, zero_threshold: int, coins: Coins
) -> NDArray[np.uint64]:
    """Every bit of ``bits[n, w]`` becomes one with a probability that depends on it. Bits beyond d are zero."""
    words = np.empty(bits.shape, dtype=np.uint64)
    for first, last in _blocks(bits.size):
        held = bits.reshape(-1)[first:last]
        ones, zeros = (bernoulli_words(threshold, last - first, coins) for threshold in (one_threshold, zero_threshold))
        words.reshape(-1)[first:last] = (held & ones) | (~held & zeros)
    return _cut(words, d)


def _blocks(count: int) -> Iterator[tuple[int, int]]:
    return ((first, min(first + _BLOCK, count)) for first in range(0, count, _BLOCK))


def _cut(words: NDArray[np.uint64], d: int) -> NDArray[np.uint64]:
    if d % 64:
        words[:, -1] &= np.uint64((1 << d % 64) - 1)
    return words


@dataclass(frozen=True, eq=False)
class _Lookup:
    """Bytes by draw, each as often as its weight allows; draws from ``filled`` on are left to the remainders."""

    table: NDArray[np.uint8]
    filled: int
    remainders: tuple[int, ...]


def _lookup(weights: Sequence[int]) -> _Lookup:
    total = sum(weights)
    times = [(weight * _DRAWS) // total for weight in weights]
    table = np.zeros(_DRAWS, dtype=np.uint8)
    table[: sum(times)] = np.repeat(np.arange(256, dtype=np.uint8), times)
    remainders = (weight * _DRAWS - often * total for weight, often in zip(weights, times, strict=True))
    return _Lookup(table, sum(times), tuple(remainders))


@lru_cache(maxsize=64)
def _lookups(threshold: int) -> tuple[_Lookup, _Lookup]:
    """The table of the bytes of eight biased bits, and that of its remainders."""
    by_ones = [threshold**ones * ((1 << 32) - threshold) ** (8 - ones) for ones in range(9)]
    first = _lookup([by_ones[byte.bit_count()] for byte in range(256)])
    return first, _lookup(first.remainders) if any(first.remainders) else first


def _fill(words: NDArray[np.uint64], threshold: int, coins: Coins) -> None:
    if threshold in (0, 1 << 32):
        words.fill(_FULL if threshold else 0)
    elif threshold == 1 << 31:
        coins.fill(words)
    else:
        first, second = _lookups(threshold)
        out, late = words.view(np.uint8), []
        keystream = np.empty(2 * min(len(words), _BLOCK), dtype=np.uint64)
        for start, stop in _blocks(len(words)):
            drawn = keystream[: 2 * (stop - start)]
            coins.fill(drawn)
            late.append(
                8 * start + _look_up(drawn.view(np.uint16), first.table, first.filled, out[8 * start : 8 * stop])
            )
        if late:
            places = np.concatenate(late)
            out[places] = _settled(second, len(places), coins)


def _settled(second: _Lookup, count: int, coins: Coins) -> NDArray[np.uint8]:
    """Bytes for the draws that the first table left over."""
    drawn = coins.words((count + 3) // 4).view(np.uint16)[:count]
    settled = second.table[drawn]
    late = np.flatnonzero(drawn >= second.filled)
    if len(late):
        settled[late] = coins.choose_many(second.remainders, len(late))
    return settled


def _look_up_numpy(
    drawn: NDArray[np.uint16], table: NDArray[np.uint8], filled: int, out: NDArray[np.uint8]
) -> NDArray[np.int64]:
    np.take(table, drawn, out=out)
    return np.flatnonzero(drawn >= filled)


@kernel(twin=_look_up_numpy)
def _look_up(
    drawn: NDArray[np.uint16], table: NDArray[np.uint8], filled: int, out: NDArray[np.uint8]
) -> NDArray[np.int64]:
    """Look every draw up; the places of those that the table leaves over."""
    for i in range(len(drawn)):
        out[i] = table[drawn[i]]
    late = np.empty(len(drawn) + 1, dtype=np.int64)
    found = 0
    for first in range(0, len(drawn), _STRIDE):
        stride = drawn[first : first + _STRIDE]
        largest = np.uint16(0)
        for i in range(len(stride)):
            largest = stride[i] if stride[i] > largest else largest
        if largest >= filled:
            for i in range(len(stride)):  # without a branch: the place is kept only if it counts
                late[found] = first + i
                found += stride[i] >= filled
    return late[:found].copy()


def _place_numpy(words: NDArray[np.uint64], hot: NDArray[np.int64], heads: NDArray[np.uint64]) -> None:
    people = np.flatnonzero(hot >= 0)
    column, shift = hot[people] >> 6, (hot[people] & 63).astype(np.uint64)
    head = heads[people >> 6] >> (people & 63).astype(np.uint64) & np.uint64(1)
    words[people, column] = words[people, column] & ~(np.uint64(1) << shift) | head << shift


@kernel(twin=_place_numpy)
def _place(words: NDArray[np.uint64], hot: NDArray[np.int64], heads: NDArray[np.uint64]) -> None:
    """Overwrite the bit ``hot[i]`` of row i by bit i of ``heads``."""
    for i in range(len(hot)):
        if hot[i] >= 0:
            shift = np.uint64(hot[i] & 63)
            head = (heads[i >> 6] >> np.uint64(i & 63)) & np.uint64(1)
            words[i, hot[i] >> 6] = (words[i, hot[i] >> 6] & ~(np.uint64(1) << shift)) | (head << shift)
