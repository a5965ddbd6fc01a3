"""The hazard of the normal law against SciPy's functions, from far tail to far tail."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import erfcx, log_ndtr

from keyveil.kernels.normal import hazard

GRID = np.concatenate([np.linspace(-40, 40, 80_001), -np.logspace(0, 150, 3001), np.logspace(-300, 1, 3001)])


def test_it_is_what_scipy_says_from_tail_to_tail() -> None:
    """φ/Φ = √(2/π) / erfcx(-x/√2), which overflows to infinity where the hazard falls below all doubles."""
    expected = math.sqrt(2 / math.pi) / erfcx(GRID / -math.sqrt(2))
    normal = expected > np.finfo(float).tiny
    np.testing.assert_allclose(hazard(GRID)[normal], expected[normal], rtol=1e-12, atol=0)
    assert (hazard(GRID)[~normal] <= np.finfo(float).tiny).all()


def test_it_is_what_estimates_were_made_with() -> None:
    """exp(-x²/2 - ln Φ(x)) / √(2π), where its own rounding, x² / 2 in the last place, stays below the tolerance."""
    x = GRID[np.abs(GRID) < 30]
    before = np.exp(-(x**2) / 2 - log_ndtr(x)) / math.sqrt(2 * math.pi)
    np.testing.assert_allclose(hazard(x), before, rtol=1e-12, atol=0)


def test_both_forms_meet_without_a_step() -> None:
    edge = np.array([np.nextafter(-5, -6), -5.0, np.nextafter(-5, -4)])
    assert np.ptp(hazard(edge)) < 1e-13


@pytest.mark.parametrize(("x", "expected"), [(-math.inf, math.inf), (math.inf, 0.0), (math.nan, math.nan)])
def test_what_is_no_number_or_infinite(x: float, expected: float) -> None:
    np.testing.assert_array_equal(hazard(np.array([x, 0.0])), [expected, _SCALE])


def test_any_shape() -> None:
    assert hazard(np.zeros((2, 3))).shape == (2, 3)
    assert hazard(np.zeros(0)).shape == (0,)


_SCALE = math.sqrt(2 / math.pi)
