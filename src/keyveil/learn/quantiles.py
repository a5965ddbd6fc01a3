"""Quantiles of binned values with intervals: where the band around the cumulative distribution meets the level.

Below x lies the mass A(x), linear within cells, out of B in all. The x for which A(x) - q·B could be zero, given its
error, make the interval (Woodruff's, with Fieller's treatment of the ratio). It rests on masses before projection,
whose errors are known; only the value in it comes from a proper law.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from keyveil.learn.masses import Masses

Floats = NDArray[np.float64]

_STEPS = 256  # places at least where the band is looked at


def below(edges: Floats, places: Floats) -> Floats:
    """For every place, how much of each cell lies below it, [places, cells]."""
    return np.clip((places[:, None] - edges[:-1]) / np.diff(edges), 0.0, 1.0)


def quantile_of(law: Floats, edges: Floats, level: float) -> float:
    """Where a law reaches the level, linear within cells."""
    total = np.concatenate(([0.0], np.cumsum(law)))
    cell = min(int(np.searchsorted(total, level * total[-1])), len(law))
    if cell == 0:  # the lowest value that there is
        return float(edges[np.flatnonzero(law > 0)[0]])
    start, stop = total[cell - 1], total[cell]
    return float(edges[cell - 1] + (level * total[-1] - start) / (stop - start) * (edges[cell] - edges[cell - 1]))


def woodruff(masses: Masses, key: int, level: float, z: float) -> tuple[float, float]:
    """The lowest and the highest place where the quantile may lie."""
    edges = masses.edges
    parts = -(-_STEPS // (len(edges) - 1))
    places = np.append((edges[:-1, None] + np.diff(edges)[:, None] * np.arange(parts) / parts).ravel(), edges[-1])
    weights = below(edges, places) - level
    excess = weights @ masses.values[key]
    reach = z * np.sqrt(masses.variance(key, weights))
    low = _crossing(places, excess + reach)
    high = -_crossing(-places[::-1], (reach - excess)[::-1])
    return low, high


def _crossing(places: Floats, heights: Floats) -> float:
    """The first place where heights are not negative, linear between places."""
    at = int(np.argmax(heights >= 0)) if (heights >= 0).any() else len(places) - 1
    if at == 0 or heights[at] < 0:
        return float(places[at])
    before, here = heights[at - 1], heights[at]
    return float(places[at - 1] + (places[at] - places[at - 1]) * before / (before - here))
