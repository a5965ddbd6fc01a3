"""Exact biased bits, 64 to a word: every bit is one with probability threshold / 2**32, and nothing is rounded.

A bit is one when a uniform 32-bit number lies below the threshold. The numbers are never written out: their leading
eight bits come as eight planes of random words, and the comparison runs from the lowest plane to the highest on 64
lanes of a word at once. A lane whose eight bits all equal the threshold's is undecided, one in 256; it is settled by a
24-bit number of its own. Planes below the lowest one-bit of the threshold decide nothing and are not drawn.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from keyveil.core.coins import Coins
from keyveil.kernels.backend import kernel

_PLANES = 8
_LOW_BITS = 32 - _PLANES
_BLOCK = 1 << 14  # words at a time: eight planes of them are a mebibyte of keystream
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


def _fill(words: NDArray[np.uint64], threshold: int, coins: Coins) -> None:
    if threshold in (0, 1 << 32):
        words.fill(_FULL if threshold else 0)
        return
    top, low = threshold >> _LOW_BITS, threshold & ((1 << _LOW_BITS) - 1)
    drawn = _PLANES if low else _PLANES - ((top & -top).bit_length() - 1)
    size = min(len(words), _BLOCK)
    # The buffers are used again for every block. Planes that are not drawn stay zero, which leaves the comparison alone.
    keystream = np.zeros(_PLANES * size, dtype=np.uint64)
    equal = np.empty(size, dtype=np.uint64)
    for first, last in _blocks(len(words)):
        planes = keystream[: _PLANES * (last - first)]
        coins.fill(planes[: drawn * (last - first)])
        block, undecided = words[first:last], equal[: last - first]
        lanes = _compare(planes.reshape(_PLANES, -1), top, block, undecided)
        if low:
            draws = coins.words((lanes + 1) // 2).view(np.uint32)
            _settle(block, undecided, np.uint32(low), draws)


def _compare_numpy(
    planes: NDArray[np.uint64], top: int, below: NDArray[np.uint64], equal: NDArray[np.uint64]
) -> int:
    below.fill(0)
    equal.fill(_FULL)
    for rank, plane in enumerate(planes[::-1]):
        if top >> rank & 1:
            below |= ~plane
            equal &= plane
        else:
            below &= ~plane
            equal &= ~plane
    return int(np.bitwise_count(equal).sum(dtype=np.int64))


@kernel(twin=_compare_numpy)
def _compare(planes: NDArray[np.uint64], top: int, below: NDArray[np.uint64], equal: NDArray[np.uint64]) -> int:
    """Compare eight-bit numbers, the highest bit in the first plane, with ``top``; how many are equal."""
    full = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
    masks = np.zeros(8, dtype=np.uint64)  # a bit of the threshold, in all lanes
    for rank in range(8):
        if (top >> rank) & 1:
            masks[7 - rank] = full
    # Written out plane by plane, so that a word passes through registers only.
    p0, p1, p2, p3, p4, p5, p6, p7 = (
        planes[0], planes[1], planes[2], planes[3], planes[4], planes[5], planes[6], planes[7],
    )  # fmt: skip
    m0, m1, m2, m3, m4, m5, m6, m7 = (
        masks[0], masks[1], masks[2], masks[3], masks[4], masks[5], masks[6], masks[7],
    )  # fmt: skip
    lanes = 0
    for k in range(len(below)):
        u = ~p7[k]
        less, same = u & m7, u ^ m7
        u = ~p6[k]
        less, same = (u & (less | m6)) | (less & m6), same & (u ^ m6)
        u = ~p5[k]
        less, same = (u & (less | m5)) | (less & m5), same & (u ^ m5)
        u = ~p4[k]
        less, same = (u & (less | m4)) | (less & m4), same & (u ^ m4)
        u = ~p3[k]
        less, same = (u & (less | m3)) | (less & m3), same & (u ^ m3)
        u = ~p2[k]
        less, same = (u & (less | m2)) | (less & m2), same & (u ^ m2)
        u = ~p1[k]
        less, same = (u & (less | m1)) | (less & m1), same & (u ^ m1)
        u = ~p0[k]
        less, same = (u & (less | m0)) | (less & m0), same & (u ^ m0)
        below[k] = less
        equal[k] = same
    for k in range(len(below)):  # the number of one-bits in a word, in three steps
        x = equal[k]
        x = x - ((x >> np.uint64(1)) & np.uint64(0x5555_5555_5555_5555))
        x = (x & np.uint64(0x3333_3333_3333_3333)) + ((x >> np.uint64(2)) & np.uint64(0x3333_3333_3333_3333))
        x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F_0F0F_0F0F_0F0F)
        lanes += np.int64((x * np.uint64(0x0101_0101_0101_0101)) >> np.uint64(56))
    return lanes


def _settle_numpy(
    below: NDArray[np.uint64], equal: NDArray[np.uint64], low: np.uint32, draws: NDArray[np.uint32]
) -> None:
    lanes = np.flatnonzero(np.unpackbits(equal.view(np.uint8), bitorder="little"))
    won = lanes[draws[: len(lanes)] >> np.uint32(32 - _LOW_BITS) < low]
    np.bitwise_or.at(below, won >> 6, np.uint64(1) << (won & 63).astype(np.uint64))


@kernel(twin=_settle_numpy)
def _settle(below: NDArray[np.uint64], equal: NDArray[np.uint64], low: np.uint32, draws: NDArray[np.uint32]) -> None:
    """Decide the lanes in ``equal`` by the leading 24 bits of one draw each, in the order of the lanes."""
    places = np.empty(len(equal) + 1, dtype=np.int64)  # of the words with such lanes; found without a branch
    found = 0
    for k in range(len(equal)):
        places[found] = k
        found += np.int64(equal[k] != np.uint64(0))
    used = 0
    for i in range(found):
        k = places[i]
        rest, word = equal[k], below[k]
        while rest != np.uint64(0):
            lane = rest & (~rest + np.uint64(1))
            if draws[used] >> np.uint32(8) < low:
                word |= lane
            rest ^= lane
            used += 1
        below[k] = word


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
