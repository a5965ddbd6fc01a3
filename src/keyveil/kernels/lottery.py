"""Uniform subsets by lottery: of a row of random numbers, those of the smallest ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from keyveil.kernels.backend import kernel, sizes

Integers = NDArray[np.int64]
Words = NDArray[np.uint64]


def _smallest_numpy(lottery: Words, counts: Integers) -> NDArray[np.bool_]:
    d = lottery.shape[1]
    ordered = np.sort(lottery, axis=1)
    bound = np.take_along_axis(ordered, np.minimum(counts, d - 1)[:, None], axis=1)
    return np.asarray((lottery < bound) | (counts == d)[:, None])


@kernel(twin=_smallest_numpy, work=sizes)
def smallest(lottery: Words, counts: Integers) -> NDArray[np.bool_]:
    """Which numbers of each row are among so many smallest ones of it, for uniform numbers.

    A row is parted by the leading bits of its numbers, and only the part where the bound lies is sorted.
    """
    n, d = lottery.shape
    chosen = np.empty((n, d), dtype=np.bool_)
    parts = np.empty(64, dtype=np.int64)
    part = np.empty(d, dtype=np.uint64)
    top = np.uint64(58)
    for i in range(n):
        row = lottery[i]
        if counts[i] == d:
            chosen[i] = True
            continue
        parts[:] = 0
        for j in range(d):
            parts[row[j] >> top] += 1
        place, rank = 0, counts[i]
        while rank >= parts[place]:
            rank -= parts[place]
            place += 1
        filled = 0
        for j in range(d):
            if row[j] >> top != np.uint64(place):
                continue
            at = filled  # its place among those that were found before
            while at > 0 and part[at - 1] > row[j]:
                part[at] = part[at - 1]
                at -= 1
            part[at] = row[j]
            filled += 1
        bound = part[rank]
        for j in range(d):
            chosen[i, j] = row[j] < bound
    return chosen
