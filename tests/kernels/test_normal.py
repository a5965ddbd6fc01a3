"""The hazard of the normal law against SciPy's functions, from far tail to far tail."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import erfcx, log_ndtr
from scipy.stats import binom, norm

from keyveil.kernels.normal import binomial_scores, hazard, lattice_scores

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


@pytest.mark.parametrize("trials", [20, 100, 1000, 100_000])
@pytest.mark.parametrize("chance", [1e-3, 0.02, 0.2, 0.42, 0.5, 0.8])
def test_tails_of_counts_as_normal_numbers(trials: int, chance: float) -> None:
    """The mutant, (count - mean) / sd, is wrong by a factor of ten where a binomial law is skewed."""
    counts = np.unique(np.clip(np.rint(trials * chance + np.arange(0, 60) ** 1.5 / 8 * np.sqrt(trials)), 1, trials))
    exact = binom.sf(counts - 1, trials, chance)
    kept = (counts > trials * chance) & (exact > 1e-12)
    found = norm.sf(binomial_scores(counts, np.full(len(counts), float(trials)), chance))
    np.testing.assert_allclose(found[kept], exact[kept], rtol=0.07)
    if (trials, chance) == (1000, 0.02):
        plain = norm.sf((counts - trials * chance) / math.sqrt(trials * chance * (1 - chance)))
        assert (exact[kept] / plain[kept]).max() > 10


def test_counts_without_trials_say_nothing() -> None:
    assert np.isnan(binomial_scores(np.zeros(1), np.zeros(1), 0.1)).all()


def test_scores_of_sums_have_the_exact_tail() -> None:
    """20 draws of -2 to 2, against their law by repeated convolution; where it is binomial, the same as before."""
    chances, trials = np.array([0.85, 0.05, 0.04, 0.03, 0.03]), 20
    law = np.ones(1)
    for _ in range(trials):
        law = np.convolve(law, chances)
    counts = np.arange(-2 * trials, 2 * trials + 1)
    exact = law[::-1].cumsum()[::-1]
    tested = (exact < 0.3) & (exact > 1e-12)
    scores = lattice_scores(counts.astype(float), np.full(len(counts), 20.0), np.arange(-2.0, 3.0), chances)
    np.testing.assert_allclose(norm.sf(scores[tested]) / exact[tested], 1, atol=0.1)
    mean, square = np.arange(-2, 3) @ chances, np.arange(-2, 3) ** 2 @ chances
    normal = (counts - trials * mean) / np.sqrt(trials * (square - mean**2))
    assert (norm.sf(normal[tested]) / exact[tested]).min() < 0.5  # the mutant: a normal law of counts
    few = np.arange(3.0, 15.0)
    both = lattice_scores(few, np.full(12, 40.0), np.array([0.0, 1.0]), np.array([0.95, 0.05]))
    np.testing.assert_allclose(both, binomial_scores(few, np.full(12, 40.0), 0.05), atol=1e-6)
