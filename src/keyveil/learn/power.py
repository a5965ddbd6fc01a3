"""Power: posterior means when the frequencies themselves follow a power law (docs/theory.md, consistency).

The prior x^-α on [1/n, 1] lives on 512 points, evenly spaced in the logarithm; α makes all estimates together most
likely. Many keys are put into bins of 1/20 standard deviation first (and of 5 % in the standard deviation, where keys
differ in it); inside a bin the posterior mean is continued along its slopes, so what binning costs is of second order:
below 0.001 standard deviations. Where the points lie further apart than the noise is wide
— popular keys in large collections — the same posterior is taken on points around the estimate instead.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

POINTS = 512
LEAST, MOST = 0.5, 4.0  # exponents that are looked at
# Bins this narrow cost less than 0.001 standard deviations: test_binning_costs_less_than_a_thousandth_of_the_noise.
STEP = 1 / 20  # width of a bin, in standard deviations
SPREAD = 0.05  # width of a bin in the logarithm of the standard deviation
FEW = 256  # keys up to which none are binned
PRECISION = 1e-4  # of the exponent
# Around an estimate, in standard deviations, where the points are too coarse: beyond 8 lies less than 1e-14, and steps
# of 0.1 integrate a normal density to rounding (test_popular_keys_are_not_rounded_to_the_points_of_the_prior).
REACH = np.linspace(-8.0, 8.0, 161)
GOLDEN = (math.sqrt(5) - 1) / 2


def power(estimates: ArrayLike, sigma: ArrayLike, n: int, total: float = 1.0) -> Floats:
    """The expected frequency of every key, given its estimate with standard deviation ``sigma`` (one or per key)."""
    raw = np.asarray(estimates, dtype=np.float64) / total
    noise = np.broadcast_to(np.asarray(sigma, dtype=np.float64) / total, raw.shape)
    bins = _binned(raw, noise) if len(raw) > FEW else _Bins(raw, noise, np.arange(len(raw)), np.ones(len(raw)))
    points = np.exp(np.linspace(-math.log(max(n, 2)), 0.0, POINTS))
    closeness = _closeness(bins.centres[:, None], points, bins.noise[:, None])
    alpha = _exponent(closeness, bins.sizes, points)
    table = _posterior(closeness * _prior(points, alpha), points, bins.centres, bins.noise)
    apart = math.log(max(n, 2)) / (POINTS - 1) * bins.centres > bins.noise
    table[:, apart] = _around(bins.centres[apart], bins.noise[apart], alpha, 1 / max(n, 2))
    mean, slope, widening = table[:, bins.where]
    off, wider = raw - bins.centres[bins.where], noise / bins.noise[bins.where] - 1
    answer: Floats = np.clip(mean + slope * off + widening * wider, 1 / max(n, 2), 1.0) * total
    return answer


@dataclass(frozen=True, eq=False)
class _Bins:
    """Estimates that are nearly alike, with nearly the same noise."""

    centres: Floats
    noise: Floats
    where: NDArray[np.intp]  # the bin of every key
    sizes: Floats


def _binned(raw: Floats, noise: Floats) -> _Bins:
    places = np.rint(raw / (STEP * noise)).astype(np.int64)
    scales = np.rint(np.log(noise) / SPREAD).astype(np.int64)
    places -= places.min()
    scales -= scales.min()
    _, where, sizes = np.unique(scales * (places.max() + 1) + places, return_inverse=True, return_counts=True)
    centres, widths = (np.bincount(where, weights=numbers) / sizes for numbers in (raw, noise))
    return _Bins(centres, widths, where, sizes.astype(np.float64))


def _exponent(closeness: Floats, sizes: Floats, points: Floats) -> float:
    """The exponent of greatest likelihood, by golden-section search."""

    def likelihood(alpha: float) -> float:
        return float(sizes @ np.log(closeness @ _prior(points, alpha)))

    low, high = LEAST, MOST
    left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    at_left, at_right = likelihood(left), likelihood(right)
    while high - low > PRECISION:
        if at_left < at_right:
            low, left, at_left = left, right, at_right
            right = low + GOLDEN * (high - low)
            at_right = likelihood(right)
        else:
            high, right, at_right = right, left, at_left
            left = high - GOLDEN * (high - low)
            at_left = likelihood(left)
    return (low + high) / 2


def _prior(points: Floats, alpha: float) -> Floats:
    weights = points**-alpha * np.gradient(points)
    prior: Floats = weights / weights.sum()
    return prior


def _closeness(centres: Floats, points: Floats, noise: Floats) -> Floats:
    """Normal densities up to a factor per row: the nearest point has 1, so that no row vanishes."""
    exponents = -0.5 * ((centres - points) / noise) ** 2
    close: Floats = np.exp(exponents - exponents.max(axis=1, keepdims=True))
    return close


def _posterior(weights: Floats, points: Floats, centres: Floats, noise: Floats) -> Floats:
    """The mean of every row of weights, and how fast it grows with the estimate and with the logarithm of the noise.

    The derivatives of a posterior mean under normal noise are covariances: with x itself, and with (estimate - x)².
    """
    weights = weights / weights.sum(axis=1, keepdims=True)
    mean = (weights * points).sum(axis=1)
    weights *= points - mean[:, None]
    with_itself = (weights * points).sum(axis=1)
    with_distance = (weights * (centres[:, None] - points) ** 2).sum(axis=1)
    return np.array([mean, with_itself / noise**2, with_distance / noise**2])


def _around(centres: Floats, noise: Floats, alpha: float, least: float) -> Floats:
    points = np.clip(centres[:, None] + noise[:, None] * REACH, least, 1.0)
    weights = _closeness(centres[:, None], points, noise[:, None]) * points**-alpha
    return _posterior(weights, points, centres, noise)
