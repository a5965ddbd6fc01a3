"""Exact biased bits, 64 to a word: every bit is one with probability threshold / 2**32, and nothing is rounded.

A bit is one when a uniform 32-bit number lies below the threshold. The numbers are never written out; their bits come
as planes of random words, so that one comparison serves the 64 lanes of a word, and only as many as are needed:

1. Five planes of its own for every word. They leave one lane in 32 undecided, where all five bits are the threshold's.
2. Three planes shared by four words. A random bit may serve any lane, but only once: the first of the four words that
   is undecided in a lane claims it, and a word that comes too late waits.
3. One number for each lane that is still undecided: of 24 bits after eight planes, of 27 for those that waited.

Planes below the lowest one-bit of the threshold decide nothing and are not drawn: one half takes a single plane.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from keyveil.core.coins import Coins
from keyveil.kernels.backend import kernel

_OWN, _SHARED, _SHARERS = 5, 3, 4
_GROUP = 144  # words that claim side by side; four groups and their planes are a unit, which fits the first cache
_UNIT = _SHARERS * _GROUP
_DRAWN = _OWN * _UNIT + _SHARED * _GROUP  # random words for a unit: five planes of a unit, three of a group
_SPARE = 112  # random words for the undecided lanes of a unit: some 97 are needed
_KEYSTREAM = 1 << 17  # random words at a time, in a buffer that is used again: a mebibyte is drawn fastest
_BLOCK = _KEYSTREAM // (_DRAWN + _SPARE) * _UNIT
_WAITING_BITS, _LAST_BITS = 32 - _OWN, 32 - _OWN - _SHARED
_WAITING_SHIFT, _LAST_SHIFT = np.uint32(_OWN), np.uint32(_OWN + _SHARED)
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
    needed = 33 - (threshold & -threshold).bit_length()
    if threshold in (0, 1 << 32):
        words.fill(_FULL if threshold else 0)
    elif needed <= _OWN:
        for first, last in _blocks(len(words)):
            planes = coins.words(needed * (last - first)).reshape(needed, last - first)
            words[first:last] = _lanes(planes, threshold >> 32 - needed)[0]
    else:
        _fill_in_steps(words, threshold, coins)


def _fill_in_steps(words: NDArray[np.uint64], threshold: int, coins: Coins) -> None:
    size = min(-(-len(words) // _UNIT) * _UNIT, _BLOCK)
    keystream = np.empty(_KEYSTREAM if size == _BLOCK else size // _UNIT * (_DRAWN + _SPARE), dtype=np.uint64)
    for first, last in _blocks(len(words)):
        units = -(-(last - first) // _UNIT)
        drawn = keystream if last - first == _BLOCK else keystream[: units * (_DRAWN + _SPARE)]
        coins.fill(drawn)
        planes, draws = drawn[: units * _DRAWN], drawn[units * _DRAWN :].view(np.uint32)
        whole = last - first == units * _UNIT
        block = words[first:last] if whole else np.empty(units * _UNIT, dtype=np.uint64)
        done, used = _decide(planes, threshold, block, draws, 0, 0)
        while done < units:
            # The unit that lacked draws begins again with the same ones and more behind them, so nothing is favoured.
            draws = np.concatenate([draws[used:], coins.words(_UNIT).view(np.uint32)])
            done, used = _decide(planes, threshold, block, draws, done, 0)
        if not whole:
            words[first:last] = block[: last - first]


def _lanes(planes: NDArray[np.uint64], top: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """The lanes of numbers below ``top`` and equal to it; the planes, along axis -2, hold the highest bits first."""
    below = np.zeros(planes.shape[:-2] + planes.shape[-1:], dtype=np.uint64)
    equal = np.full_like(below, _FULL)
    for rank in range(planes.shape[-2]):
        plane = planes[..., planes.shape[-2] - 1 - rank, :]
        below = below | ~plane if top >> rank & 1 else below & ~plane
        equal &= plane if top >> rank & 1 else ~plane
    return below, equal


def _decide_numpy(
    planes: NDArray[np.uint64],
    threshold: int,
    block: NDArray[np.uint64],
    draws: NDArray[np.uint32],
    done: int,
    used: int,
) -> tuple[int, int]:
    top = threshold >> _LAST_BITS
    drawn = planes.reshape(-1, _DRAWN)[done:]
    less, same = _lanes(drawn[:, : _OWN * _UNIT].reshape(-1, _OWN, _UNIT), top >> _SHARED)
    won, tied = _lanes(drawn[:, _OWN * _UNIT :].reshape(-1, _SHARED, _GROUP), top % (1 << _SHARED))
    same = same.reshape(-1, _SHARERS, _GROUP)
    claimed = same.copy()
    for sharer in range(1, _SHARERS):
        claimed[:, sharer] &= ~np.bitwise_or.reduce(same[:, :sharer], axis=1)
    waiting = (same ^ claimed).reshape(-1)
    undecided = (claimed & tied[:, None]).reshape(-1) | waiting
    lanes = np.flatnonzero(np.unpackbits(undecided.view(np.uint8), bitorder="little"))
    if len(lanes) > len(draws) - used:
        return done, used
    places, shifts = lanes >> 6, (lanes & 63).astype(np.uint64)
    bits = np.where(waiting[places] >> shifts & np.uint64(1), _WAITING_BITS, _LAST_BITS)
    happened = draws[used : used + len(lanes)] >> (32 - bits) < threshold % (1 << bits)
    result = block[done * _UNIT :]
    result[:] = less.reshape(-1) | (claimed & won[:, None]).reshape(-1)
    np.bitwise_or.at(result, places[happened], np.uint64(1) << shifts[happened])
    return len(planes) // _DRAWN, used + len(lanes)


@kernel(twin=_decide_numpy)
def _decide(
    planes: NDArray[np.uint64],
    threshold: int,
    block: NDArray[np.uint64],
    draws: NDArray[np.uint32],
    done: int,
    used: int,
) -> tuple[int, int]:
    """The three steps for whole units, from unit ``done`` and draw ``used`` on, as long as the draws suffice.

    Gives the units done and the draws used by them. With b a bit of the threshold in all lanes and u the opposite of a
    random bit, "below" spreads from the lowest plane upwards as the majority of (u, b, below), and "equal" as u ^ b.
    """
    zero, one, full = np.uint64(0), np.uint64(1), np.uint64(0xFFFF_FFFF_FFFF_FFFF)
    top = threshold >> _LAST_BITS
    b0, b1, b2 = full if top & 128 else zero, full if top & 64 else zero, full if top & 32 else zero
    b3, b4, b5 = full if top & 16 else zero, full if top & 8 else zero, full if top & 4 else zero
    b6, b7 = full if top & 2 else zero, full if top & 1 else zero
    waiting_below = np.uint32(threshold & ((1 << _WAITING_BITS) - 1))
    last_below = np.uint32(threshold & ((1 << _LAST_BITS) - 1))
    free, won, tied = np.empty((3, _GROUP), dtype=np.uint64)
    below, equal, waiting = np.empty((3, _UNIT), dtype=np.uint64)
    places = np.empty(_UNIT + 1, dtype=np.int64)
    for unit in range(done, len(block) // _UNIT):
        own = planes[unit * _DRAWN : (unit + 1) * _DRAWN]
        for k in range(_UNIT):
            u = ~own[k + 4 * _UNIT]
            less, same = u & b4, u ^ b4
            u = ~own[k + 3 * _UNIT]
            less, same = (u & (less | b3)) | (less & b3), same & (u ^ b3)
            u = ~own[k + 2 * _UNIT]
            less, same = (u & (less | b2)) | (less & b2), same & (u ^ b2)
            u = ~own[k + _UNIT]
            less, same = (u & (less | b1)) | (less & b1), same & (u ^ b1)
            u = ~own[k]
            below[k], equal[k] = (u & (less | b0)) | (less & b0), same & (u ^ b0)

        common = own[_OWN * _UNIT :]
        for k in range(_GROUP):
            u = ~common[k + 2 * _GROUP]
            less, same = u & b7, u ^ b7
            u = ~common[k + _GROUP]
            less, same = (u & (less | b6)) | (less & b6), same & (u ^ b6)
            u = ~common[k]
            won[k], tied[k] = (u & (less | b5)) | (less & b5), same & (u ^ b5)
            free[k] = full
        for sharer in range(_SHARERS):
            for k in range(_GROUP):
                claimed = equal[sharer * _GROUP + k] & free[k]
                free[k] ^= claimed
                below[sharer * _GROUP + k] |= claimed & won[k]
                waiting[sharer * _GROUP + k] = equal[sharer * _GROUP + k] ^ claimed
                equal[sharer * _GROUP + k] = claimed & tied[k]

        found = 0  # words with undecided lanes, listed without a branch
        for k in range(_UNIT):
            places[found] = k
            found += (equal[k] | waiting[k]) != zero
        draw = used
        for i in range(found):
            k = places[i]
            rest, late, result = equal[k] | waiting[k], waiting[k], below[k]
            while rest != zero:
                if draw == len(draws):
                    return unit, used
                lane = rest & (~rest + one)
                waited = late & lane != zero
                shift, bound = (_WAITING_SHIFT, waiting_below) if waited else (_LAST_SHIFT, last_below)
                result |= lane & (~np.uint64(draws[draw] >> shift < bound) + one)  # all ones if it happened
                rest ^= lane
                draw += 1
            below[k] = result
        used = draw
        block[unit * _UNIT : (unit + 1) * _UNIT] = below
    return len(block) // _UNIT, used


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
