"""Arcs of many people on a circle of cells: how many cells they cover, and which cell is the r-th inside or outside."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keyveil.core.coins import Coins

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Arcs:
    """The arcs of person i are ``offsets[i]`` to ``offsets[i + 1]``, in the order of their starts."""

    starts: Integers
    gaps: Integers  # to the next start of the same person, around the circle
    covered: Integers  # cells of the arc before the next one starts
    offsets: Integers
    circle: int

    @classmethod
    def of(cls, starts: Integers, offsets: Integers, circle: int, width: int) -> Arcs:
        """Arcs of ``width`` cells from these starts on, which may come in any order."""
        sizes = np.diff(offsets)
        turns = np.repeat(np.arange(len(sizes)) * circle, sizes)  # a circle for everybody, one after the other
        ordered = np.sort(turns + starts) - turns
        after = np.concatenate((ordered[1:], ordered[:1]))
        some = sizes > 0
        after[offsets[1:][some] - 1] = ordered[offsets[:-1][some]] + circle
        gaps = after - ordered
        return cls(ordered, gaps, np.minimum(gaps, width), offsets, circle)

    @property
    def taken(self) -> Integers:
        """How many different cells each person covers."""
        bounds = np.concatenate(([0], np.cumsum(self.covered)))
        return bounds[self.offsets[1:]] - bounds[self.offsets[:-1]]

    def cells(self, inside: NDArray[np.bool_], ranks: Integers) -> Integers:
        """Everybody's cell of the given rank among those covered, or (not ``inside``) among the others."""
        cells = ranks.copy()  # who covers nothing has all cells outside, in their own order
        outside = ~inside & (np.diff(self.offsets) > 0)
        for people, rooms, skipped in (
            (inside, self.covered, np.zeros_like(self.covered)),
            (outside, self.gaps - self.covered, self.covered),
        ):
            bounds = np.concatenate(([0], np.cumsum(rooms)))
            marks = bounds[self.offsets[:-1]][people] + ranks[people]
            at = np.searchsorted(bounds, marks, side="right") - 1
            cells[people] = self.starts[at] + skipped[at] + marks - bounds[at]
        return cells % self.circle


def below_each(bounds: Integers, coins: Coins) -> Integers:
    """A uniform whole number below each of the bounds, by rejection from the next power of two of each."""
    bits = np.frexp((bounds - 1).astype(np.float64))[1]  # one more for some large bounds, whose float is rounded up
    unused = (63 - np.minimum(bits, 63)).astype(np.uint64)
    drawn = np.empty(len(bounds), dtype=np.int64)
    over = np.arange(len(bounds))
    while len(over):
        drawn[over] = coins.words(len(over)) >> unused[over] >> np.uint64(1)
        over = over[drawn[over] >= bounds[over]]
    return drawn
