"""Public weights for rare keys, from what an earlier group said about frequencies."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from keyveil.core.estimates import Estimates

MOST_UNFAIR = 1000  # largest ratio of two weights: no estimate deserves more trust

Floats = NDArray[np.float64]


def fair_weights(frequency: Floats, floor: Floats | float, exponent: float) -> tuple[int, ...]:
    """Whole weights ∝ max(f, τ)^(-exponent), the rarest key near ``MOST_UNFAIR``.

    The floor τ is what can be told from zero: below it a key is out of reach whatever its weight, and a larger one
    would only make all others pay.
    """
    weights = np.maximum(frequency, floor) ** -exponent
    scaled = np.rint(MOST_UNFAIR * weights / weights.max())
    return tuple(int(weight) for weight in np.maximum(scaled, 1))


def rare_first(estimates: Estimates, exponent: float) -> tuple[int, ...]:
    """``fair_weights`` of estimates; τ is the standard error of f, at least 1/n.

    An estimate at or below zero says "rare", not "infinitely rare".
    """
    floor = np.maximum(np.nan_to_num(estimates.frequency.se, nan=1.0), 1 / max(estimates.n, 1))
    return fair_weights(np.nan_to_num(estimates.frequency.values), floor, exponent)
