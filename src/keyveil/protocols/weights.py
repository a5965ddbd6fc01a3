"""Public weights for rare keys, from the estimates of an earlier group."""

from __future__ import annotations

import numpy as np

from keyveil.core.estimates import Estimates

MOST_UNFAIR = 1000  # largest ratio of two weights: no estimate deserves more trust


def rare_first(estimates: Estimates, exponent: float) -> tuple[int, ...]:
    """Whole weights ∝ max(f, τ)^(-exponent), the rarest key near ``MOST_UNFAIR``.

    τ is the standard error of f, at least 1/n: an estimate at or below zero says "rare", not "infinitely rare".
    """
    floor = np.maximum(np.nan_to_num(estimates.frequency.se, nan=1.0), 1 / max(estimates.n, 1))
    weights = np.maximum(np.nan_to_num(estimates.frequency.values), floor) ** -exponent
    scaled = np.rint(MOST_UNFAIR * weights / weights.max())
    return tuple(int(weight) for weight in np.maximum(scaled, 1))
