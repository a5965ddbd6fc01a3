"""Quantiles, shares and variances of values with intervals, from masses of levels, points or cells.

The interval for a quantile of level q has all places x at which the share of values up to x may reach q, and the share
of values from x on may reach 1 - q, given their errors (Woodruff's interval, with Fieller's treatment of the ratio).
It rests on masses before projection, whose errors are known; only the value in it comes from a proper law.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from keyveil.learn.masses import Masses
from keyveil.learn.places import Places, Within

Floats = NDArray[np.float64]


def quantile_of(law: Floats, edges: Floats, level: float) -> float:
    """Where a law reaches the level, linear within cells."""
    total = np.concatenate(([0.0], np.cumsum(law)))
    cell = min(int(np.searchsorted(total, level * total[-1])), len(law))
    if cell == 0:  # the lowest value that there is
        return float(edges[np.flatnonzero(law > 0)[0]])
    start, stop = total[cell - 1], total[cell]
    return float(edges[cell - 1] + (level * total[-1] - start) / (stop - start) * (edges[cell] - edges[cell - 1]))


def level_of(law: Floats, levels: Floats, level: float) -> float:
    """The lowest of some levels at which a law reaches the share ``level``."""
    total = np.cumsum(law)
    reached = np.flatnonzero((total >= level * total[-1] - 1e-12) & (law > 0))
    return float(levels[reached[0]])


def quantile_interval(masses: Masses, key: int, level: float, z: float, within: Within) -> tuple[float, float]:
    """The lowest and the highest place where the quantile may lie."""
    places = masses.places(key)
    low = _first(masses, key, places, level, z, within, mirrored=False)
    high = -_first(masses, key, places.mirrored, 1 - level, z, within, mirrored=True)
    return min(low, high), max(low, high)


def share_interval(
    masses: Masses, key: int, ends: tuple[float, float], z: float, within: Within
) -> tuple[float, float]:
    """The least and the most that the share of values from one place to another may be."""
    start, stop = (np.array([end]) for end in ends)
    places = masses.places(key)
    not_above, not_below = places.rows(stop, within)[:, 0], places.mirrored.rows(-start, within)[:, 0, ::-1]
    below, above = places.rows(start, within)[:, 0], places.mirrored.rows(-stop, within)[:, 0, ::-1]
    if places.kind == "levels":  # exactly: what is not inside is below or above
        below, above = 1 - not_below, 1 - not_above
    most = np.array([one + other - 1 for one in not_above for other in not_below])
    least = np.array([1 - one - other for one in below for other in above])
    return (
        max(_mean_limits(masses, key, row, z)[0] for row in least),
        min(_mean_limits(masses, key, row, z)[1] for row in most),
    )


def variance_limits(masses: Masses, key: int, values: Floats, z: float) -> tuple[float, float]:
    """The least and the most that the variance of masses at ``values`` may be, in their squared units.

    The mean square about any place exceeds the variance by the squared distance of that place from the mean. So the
    upper limit of the one about the estimated mean holds for the variance, and the lower one less the farthest that the
    mean may lie from its estimate, squared.
    """
    least, most = _mean_limits(masses, key, values, z)
    own = masses.of(key)
    centre = float(np.clip(own @ values / own.sum(), least, most))
    low, high = _mean_limits(masses, key, (values - centre) ** 2, z)
    return low - max(most - centre, centre - least) ** 2, high


def _mean_limits(masses: Masses, key: int, worth: Floats, z: float) -> tuple[float, float]:
    """Fieller's interval for Σ worth · mass over Σ mass, within what is possible."""
    ones = np.ones_like(worth)
    rows = np.stack([worth, ones, worth + ones])
    top, whole, _ = rows @ masses.of(key)
    top_variance, whole_variance, both = masses.variance(key, rows)
    square = whole**2 - z**2 * whole_variance
    middle = top * whole - z**2 * (both - top_variance - whole_variance) / 2
    if not square > 0:
        return float(worth.min()), float(worth.max())
    root = np.sqrt(max(middle**2 - square * (top**2 - z**2 * top_variance), 0.0))
    low, high = np.clip([(middle - root) / square, (middle + root) / square], worth.min(), worth.max())
    return float(low), float(high)


def _first(
    masses: Masses, key: int, places: Places, level: float, z: float, within: Within, *, mirrored: bool
) -> float:
    """The first place at which the share of values up to it may be ``level``."""
    at = places.looked_at(within)
    rows = places.rows(at, within)
    weights = (rows[..., ::-1] if mirrored else rows) - level
    flat = weights.reshape(-1, weights.shape[-1])
    excess = flat @ masses.of(key) + z * np.sqrt(masses.variance(key, flat))
    heights = excess.reshape(weights.shape[:2]).min(axis=0)
    reached = np.flatnonzero(heights >= 0)
    if not len(reached):
        return float(at[-1])
    first = int(reached[0])
    if first == 0 or places.kind == "levels" or (places.kind == "cells" and within == "any"):
        return float(at[first])
    before, here = heights[first - 1], heights[first]
    return float(at[first - 1] + (at[first] - at[first - 1]) * before / (before - here))
