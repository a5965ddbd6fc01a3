"""Gauss: posterior means when frequencies scatter like a bell curve around a common one (docs/consistency.md).

The Gaussian prior of Jia and Gong (Calibrate, INFOCOM 2019) in place of the power law of ``learn.power``: a frequency
is normal with mean μ and deviation τ, and not negative. μ and τ make all estimates together most likely.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from keyveil.kernels.normal import hazard

Floats = NDArray[np.float64]

_STEPS = 64  # of the golden-section search: the logarithm of τ is found to 1e-12 of the interval that is searched
_NARROW, _WIDE = 1e-3, 4.0  # τ lies between so many of the smallest σ, and of the spread of the estimates
_GOLDEN = (math.sqrt(5) - 1) / 2


def gauss(estimates: ArrayLike, sigma: ArrayLike) -> Floats:
    """The expected frequency of every key, given its estimate with standard deviation ``sigma`` (one or per key)."""
    raw = np.asarray(estimates, dtype=np.float64)
    noise = np.broadcast_to(np.asarray(sigma, dtype=np.float64) ** 2, raw.shape)
    middle, spread = bell(raw, noise)
    weight = spread / (spread + noise)  # of the estimate, against the middle
    centre, width = middle + weight * (raw - middle), np.sqrt(weight * noise)
    with np.errstate(divide="ignore", invalid="ignore"):
        likely: Floats = centre + np.where(width > 0, width * hazard(centre / width), 0.0)
    return np.maximum(likely, 0.0)


def bell(raw: Floats, noise: Floats) -> tuple[float, float]:
    """Mean μ and variance τ² of frequencies that make estimates with these variances most likely."""

    def middle(spread: float) -> float:
        return float(np.average(raw, weights=1 / (noise + spread)))

    def likelihood(spread: float) -> float:
        total = noise + spread
        return -float(np.sum(np.log(total) + (raw - middle(spread)) ** 2 / total))

    low, high = 2 * math.log(_NARROW * math.sqrt(noise.min())), math.log(noise.max() + _WIDE * float(raw.var()))
    for _ in range(_STEPS):
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        if likelihood(math.exp(left)) >= likelihood(math.exp(right)):
            high = right
        else:
            low = left
    best = math.exp((low + high) / 2)
    spread = best if likelihood(best) > likelihood(0.0) else 0.0
    return middle(spread), spread
