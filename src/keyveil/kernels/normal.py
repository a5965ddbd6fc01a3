"""The normal law without SciPy: its hazard, and tails of counts as normal numbers.

Estimates are made where only NumPy is installed.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_TAIL = -5.0  # below it, erfc and the density are both tiny, and their quotient loses digits; the fraction does not
_TERMS = 40  # of the continued fraction; at the edge of the tail, 30 already give all digits of a double
_NEAR = 0.01  # so close to the mean, ln(u/r)/r loses its digits and is small itself
_STEEPEST, _HALVINGS = 60.0, 60  # of tilts: exp(-60) is a share that no count has; 60 halvings leave 1e-16 of it
_SCALE = math.sqrt(2 / math.pi)


def hazard(x: Floats) -> Floats:
    """φ(x) / Φ(x) for each number: density over distribution function of the standard normal law.

    The relative error is below 1e-12 wherever the result is a normal double (``tests/kernels/test_normal.py``). Far
    below zero it is about -x, far above zero 0, and NaN for NaN.
    """
    tail, result = x < _TAIL, np.empty_like(x)
    result[tail], result[~tail] = _in_the_tail(x[tail]), _from_erfc(x[~tail])
    return result


def _from_erfc(x: Floats) -> Floats:
    """√(2/π)·exp(-x²/2) / erfc(-x/√2); ``math.erfc`` works on one number at a time."""
    halves = np.fromiter(map(math.erfc, (x / -math.sqrt(2)).tolist()), np.float64, count=x.size)
    with np.errstate(under="ignore"):
        quotient: Floats = _SCALE * np.exp(-(x**2) / 2) / halves
    return quotient


def _in_the_tail(x: Floats) -> Floats:
    """The continued fraction t + 1/(t + 2/(t + 3/(t + …))) of Laplace at t = -x."""
    t = -x
    fraction = t
    for term in range(_TERMS, 0, -1):
        fraction = t + term / fraction
    return fraction


def binomial_scores(counts: Floats, trials: Floats, chance: float) -> Floats:
    """Normal numbers whose upper tail is P(X ≥ count) for X ~ Binomial(trials, chance), for each count.

    Saddlepoint approximation r + ln(u/r)/r with the continuity correction of half a count (Daniels 1987). For 20 trials
    and more of a chance of at least 1e-3, counts above the mean and tails down to 1e-12, the tail is within 7 % of the
    exact one (``tests/kernels/test_normal.py``). Close to the mean it is (count - 1/2 - mean) / sd. NaN without trials.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.clip((counts - 0.5) / trials, 1e-300, None)
        tilt = np.log(share / chance) - np.log((1 - share) / (1 - chance))
        loss = share * np.log(share / chance) + (1 - share) * np.log((1 - share) / (1 - chance))
        root = np.sign(tilt) * np.sqrt(2 * trials * np.maximum(loss, 0))
        steep = 2 * np.sinh(tilt / 2) * np.sqrt(trials * share * (1 - share))
        plain = (counts - 0.5 - trials * chance) / np.sqrt(trials * chance * (1 - chance))
        near = np.abs(root) < _NEAR
        scores: Floats = np.where(near, plain, root + np.log(steep / root) / root)
    return np.where(trials > 0, scores, np.nan)


def lattice_scores(counts: Floats, trials: Floats, values: Floats, chances: Floats) -> Floats:
    """Normal numbers whose upper tail is P(X ≥ count), for each count; X adds up ``trials`` draws of whole ``values``.

    The approximation of ``binomial_scores`` for any law on neighbouring whole numbers; its tilt is found by bisection.
    """
    middle = float(values @ chances)
    spread = float(values**2 @ chances) - middle**2
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.clip((counts - 0.5) / trials, values.min() + 1e-9, values.max() - 1e-9)
        low, high = np.full_like(share, -_STEEPEST), np.full_like(share, _STEEPEST)
        for _ in range(_HALVINGS):
            tilt = (low + high) / 2
            _, mean, _ = _tilted(tilt, values, chances)
            low, high = np.where(mean < share, tilt, low), np.where(mean < share, high, tilt)
        tilt = (low + high) / 2
        log_total, _, variance = _tilted(tilt, values, chances)
        root = np.sign(tilt) * np.sqrt(2 * trials * np.maximum(tilt * share - log_total, 0))
        steep = 2 * np.sinh(tilt / 2) * np.sqrt(trials * variance)
        plain = (counts - 0.5 - trials * middle) / np.sqrt(trials * spread)
        scores: Floats = np.where(np.abs(root) < _NEAR, plain, root + np.log(steep / root) / root)
    return np.where(trials > 0, scores, np.nan)


def _tilted(tilt: Floats, values: Floats, chances: Floats) -> tuple[Floats, Floats, Floats]:
    """The logarithm of E[exp(tilt·value)], and mean and variance of the law that is tilted so, for each tilt."""
    exponents = tilt[:, None] * values
    top = exponents.max(axis=1, keepdims=True)
    weights = np.exp(exponents - top) * chances
    total = weights.sum(axis=1)
    mean = weights @ values / total
    return np.log(total) + top[:, 0], mean, weights @ values**2 / total - mean**2
