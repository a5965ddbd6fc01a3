"""Sets of keys as numbers: the sets of one size, in colexicographic order, are 0, 1, 2, … .

Arithmetic instead of tables, so that a device can name one of millions of sets without holding them.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def rank_sets(sets: Ints) -> Ints:
    """The number of every row of rising keys: Σ C(b_i, i), i from one."""
    size = sets.shape[1]
    if not size or not len(sets):
        return np.zeros(len(sets), dtype=np.int64)
    table = _binomials(int(sets.max()), size)
    ranks: Ints = sum((table[place + 1][sets[:, place]] for place in range(size)), np.zeros(len(sets), dtype=np.int64))
    return ranks


def unrank_sets(ranks: Ints, size: int, d: int) -> Ints:
    """The sets with these numbers, as rows of rising keys below d."""
    sets, left = np.empty((len(ranks), size), dtype=np.int64), ranks.copy()
    for place in range(size, 0, -1):
        column = _binomials(d, size)[place]
        sets[:, place - 1] = np.searchsorted(column, left, side="right") - 1
        left -= column[sets[:, place - 1]]
    return sets


@lru_cache(maxsize=64)
def _binomials(most: int, size: int) -> Ints:
    """C(b, i) for i up to ``size`` (rows) and b up to ``most`` (columns)."""
    table = np.zeros((size + 1, most + 1), dtype=np.int64)
    table[0] = 1
    for i in range(1, size + 1):
        table[i, 1:] = np.cumsum(table[i - 1, :-1])
    table.setflags(write=False)
    return table
