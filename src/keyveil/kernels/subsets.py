"""Uniform subsets with a given share of held members, and counting the members of many subsets."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from keyveil.core.coins import Coins
from keyveil.kernels.backend import kernel, native, twinless

_KEYSTREAM = 1 << 17  # words drawn at once: a mebibyte
_ROWS = 1 << 10  # people that the twin serves at once
_FEW = 32  # draws that are quicker one by one


def draw_subsets(
    held: NDArray[np.int64], hits: NDArray[np.int64], symbols: int, size: int, coins: Coins
) -> NDArray[np.int32]:
    """For each person a uniform subset of [0, symbols) with ``size`` members, sorted.

    Exactly ``hits[i]`` of them are among the distinct symbols that row i of ``held`` lists.
    """
    rows = np.empty((len(held), size), dtype=np.int32)
    (_draw_native if native() else _draw_numpy)(rows, held, hits, symbols, coins)
    return rows


def _draw_native(
    rows: NDArray[np.int32], held: NDArray[np.int64], hits: NDArray[np.int64], symbols: int, coins: Coins
) -> None:
    keystream = np.empty(max(_KEYSTREAM, 2 * symbols), dtype=np.uint64)
    coins.fill(keystream)
    done = 0
    while True:
        finished, used = _draw_rows(rows[done:], held[done:], hits[done:], symbols, keystream.view(np.uint32))
        done += finished
        if done == len(rows):
            return
        # A person whose draws ran out starts again with the very same words and more behind them: nothing is thrown
        # away, so that running out cannot favour any subset.
        rest = len(keystream) - used
        if not finished:
            keystream = np.concatenate([keystream, np.empty_like(keystream)])
        keystream[:rest] = keystream[used : used + rest]
        coins.fill(keystream[rest:])


def _draw_numpy(
    rows: NDArray[np.int32], held: NDArray[np.int64], hits: NDArray[np.int64], symbols: int, coins: Coins
) -> None:
    size, own = rows.shape[1], held.shape[1]
    for first in range(0, len(rows), _ROWS):
        mine, wanted = held[first : first + _ROWS], hits[first : first + _ROWS]
        people = np.arange(len(mine))
        blocked = np.zeros((len(mine), symbols), dtype=np.bool_)
        blocked[people[:, None], mine] = True
        chosen = np.zeros_like(blocked)
        taken = np.zeros((len(mine), own), dtype=np.bool_)
        for pool, closed, goals in ((own, taken, wanted), (symbols, blocked, size - wanted)):
            for step in range(int(goals.max(initial=0))):
                waiting = people[goals > step]
                while len(waiting):
                    drawn = coins.below_many(pool, len(waiting))
                    free = ~closed[waiting, drawn]
                    closed[waiting[free], drawn[free]] = True
                    symbol = mine[waiting[free], drawn[free]] if closed is taken else drawn[free]
                    chosen[waiting[free], symbol] = True
                    waiting = waiting[~free]
        rows[first : first + _ROWS] = np.nonzero(chosen)[1].reshape(-1, size)


def _ones(word: np.uint64) -> int:
    """How many bits of a word are set; the compiler knows this way of counting, and makes one instruction of it."""
    x = word - ((word >> np.uint64(1)) & np.uint64(0x5555_5555_5555_5555))
    x = (x & np.uint64(0x3333_3333_3333_3333)) + ((x >> np.uint64(2)) & np.uint64(0x3333_3333_3333_3333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F_0F0F_0F0F_0F0F)
    return int((x * np.uint64(0x0101_0101_0101_0101)) >> np.uint64(56))


@partial(twinless, steps=(_ones,))
def _draw_rows(
    rows: NDArray[np.int32],
    held: NDArray[np.int64],
    hits: NDArray[np.int64],
    symbols: int,
    draws: NDArray[np.uint32],
) -> tuple[int, int]:
    """Serve people until the draws run out: how many were served, and how many pairs of draws they used.

    Bounded integers come from the leading bits of ``draw * bound``, and a draw whose trailing bits fall into the
    uneven rest is rejected (Lemire). When most of the other symbols are wanted, those to leave out are drawn instead.

    Whether a symbol is taken is a byte: of bits that share a word, one would wait until another is written.
    """
    size, own = rows.shape[1], held.shape[1]
    others = symbols - own
    uneven = np.uint64((1 << 32) % symbols)
    low32, one = np.uint64(0xFFFF_FFFF), np.uint64(1)
    width = symbols // 64 + 1
    eights = np.empty(8 * width, dtype=np.uint64)
    taken = eights.view(np.uint8)  # symbols that are held, or drawn already; and one that stands for rejected draws
    drawn = np.empty(symbols, dtype=np.uint32)
    pool = np.empty(own, dtype=np.int64)
    often = min(64, symbols) * size / symbols  # members of 64 symbols, of which few words have as many as the stride
    stride = min(64, int(often + 2 * np.sqrt(often)) + 1)
    members = np.empty(size + 64, dtype=np.int32)
    used = 0
    for i in range(len(rows)):
        start = used
        eights[:] = np.uint64(0)
        taken[symbols] = np.uint8(1)
        for j in range(own):
            pool[j] = held[i, j]
            taken[pool[j]] = np.uint8(1)

        step = 0
        while step < hits[i]:  # the first steps of a shuffle
            if used == len(draws):
                return i, start // 2
            product = np.uint64(draws[used]) * np.uint64(own - step)
            used += 1
            if product & low32 >= np.uint64((1 << 32) % (own - step)):
                at = step + np.int64(product >> np.uint64(32))
                pool[step], pool[at] = pool[at], pool[step]
                step += 1

        wanted = size - hits[i]
        leave_out = 2 * wanted > others
        missing = others - wanted if leave_out else wanted
        while missing > _FEW:  # so many draws are needed at least: first all symbols, then those that are fresh
            if used + missing > len(draws):
                return i, start // 2
            for j in range(missing):
                product = np.uint64(draws[used + j]) * np.uint64(symbols)
                drawn[j] = np.uint32(product >> np.uint64(32)) if product & low32 >= uneven else np.uint32(symbols)
            used += missing
            fresh = 0
            for j in range(missing):
                fresh += int(np.uint8(1) - taken[drawn[j]])
                taken[drawn[j]] = np.uint8(1)
            missing -= fresh
        while missing > 0:
            if used == len(draws):
                return i, start // 2
            product = np.uint64(draws[used]) * np.uint64(symbols)
            used += 1
            symbol = np.int64(product >> np.uint64(32))
            # Without a branch: which draws are fresh cannot be foreseen.
            before = taken[symbol]
            after = np.uint8(before | np.uint8(product & low32 >= uneven))
            taken[symbol] = after
            missing -= int(after) - int(before)
        used += used & 1

        for j in range(own):
            taken[pool[j]] = np.uint8((j < hits[i]) != leave_out)
        for j in range(symbols, len(taken)):
            taken[j] = np.uint8(leave_out)
        filled = 0
        for k in range(width):
            rest = np.uint64(0)
            for j in range(8):  # eight bytes become eight bits, the first one the lowest
                rest |= ((eights[8 * k + j] * np.uint64(0x0102_0408_1020_4080)) >> np.uint64(56)) << np.uint64(8 * j)
            rest = ~rest if leave_out else rest
            place = filled
            filled += _ones(rest)
            while place < filled:  # a whole stride: how many there are cannot be foreseen, and what is too much goes
                for j in range(stride):
                    members[place + j] = np.int32(64 * k + _ones((rest & (~rest + one)) - one))
                    rest &= rest - one
                place += stride
        for j in range(size):
            rows[i, j] = members[j]
    return len(rows), used // 2


def _count_symbols_numpy(rows: NDArray[np.int32], symbols: int) -> NDArray[np.int64]:
    return np.bincount(rows.reshape(-1), minlength=symbols).astype(np.int64)


@kernel(twin=_count_symbols_numpy)
def count_symbols(rows: NDArray[np.int32], symbols: int) -> NDArray[np.int64]:
    """How many of the subsets contain each symbol."""
    counts = np.zeros(symbols, dtype=np.int64)
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            counts[rows[i, j]] += 1
    return counts
