"""Uniform subsets with a given share of held members, and counting the members of many subsets."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from keyveil.core.coins import Coins
from keyveil.kernels.backend import kernel, native

_KEYSTREAM = 1 << 17  # words drawn at once: a mebibyte
_ROWS = 1 << 10  # people that the twin serves at once


def draw_subsets(
    held: NDArray[np.int64], hits: NDArray[np.int64], symbols: int, size: int, coins: Coins
) -> NDArray[np.int32]:
    """For each person a uniform subset of [0, symbols) of ``size`` members, ``hits[i]`` of them among the distinct ones
    in ``held[i]``; sorted."""
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
        # A person whose draws ran out starts again with the very same words and more behind them: nothing is
        # thrown away, so that running out cannot favour any subset.
        rest = keystream[-(-used // 2) :] if finished else keystream
        fresh = np.empty(len(keystream) if finished else 2 * len(keystream), dtype=np.uint64)
        fresh[: len(rest)] = rest
        coins.fill(fresh[len(rest) :])
        keystream = fresh


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


@kernel(twin=lambda *_: (0, 0))
def _draw_rows(
    rows: NDArray[np.int32],
    held: NDArray[np.int64],
    hits: NDArray[np.int64],
    symbols: int,
    draws: NDArray[np.uint32],
) -> tuple[int, int]:
    return 0, 0
