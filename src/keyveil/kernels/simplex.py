"""The nearest vector, in the Euclidean sense, whose parts are not negative and have a given sum."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

HALVINGS = 200  # of the bracket of the shift: more than doubles can tell apart

Floats = NDArray[np.float64]


def nearest_with_sum(raw: Floats, total: float = 1.0, upper: float | None = None) -> Floats:
    """The vector within [0, ``upper``] that has the sum ``total`` and lies nearest to ``raw``.

    It is ``raw`` moved by one shift and cut off at both ends. Such a vector must exist: 0 ≤ total ≤ len(raw) · upper.
    """
    falling = np.sort(raw)[::-1]
    offsets = (total - np.cumsum(falling)) / np.arange(1, len(falling) + 1)
    last = np.flatnonzero(falling + offsets > 0)
    shift = offsets[last[-1]] if len(last) else offsets[0]
    nearest = np.maximum(raw + shift, 0.0)
    return nearest if upper is None or nearest.max() <= upper else _boxed(raw, total, upper)


def nearest_rows(raw: Floats, totals: Floats) -> Floats:
    """``nearest_with_sum`` for every row of ``raw`` [rows, parts], without an upper bound."""
    falling = np.sort(raw, axis=1)[:, ::-1]
    offsets = (totals[:, None] - np.cumsum(falling, axis=1)) / np.arange(1, raw.shape[1] + 1)
    last = np.maximum((falling + offsets > 0).sum(axis=1) - 1, 0)  # those that stay positive come first
    nearest: Floats = np.maximum(raw + np.take_along_axis(offsets, last[:, None], axis=1), 0.0)
    return nearest


def _boxed(raw: Floats, total: float, upper: float) -> Floats:
    """The projection when some values meet the upper bound: bisection on the shift, then its exact value."""
    low, high = -float(raw.max()), upper - float(raw.min())
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if np.clip(raw + middle, 0.0, upper).sum() < total:
            low = middle
        else:
            high = middle
    moved = raw + high
    between, full = (moved > 0) & (moved < upper), moved >= upper
    if between.any():
        shift = (total - upper * np.count_nonzero(full) - raw[between].sum()) / np.count_nonzero(between)
        moved[between] = raw[between] + shift
    return np.clip(moved, 0.0, upper)
