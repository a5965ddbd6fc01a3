"""Exact likelihoods and a Gaussian prior: against the best of all vectors on a fine grid, and against integrals."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest

from keyveil.core.errors import MechanismError
from keyveil.learn.consistency import mle, mle_apx, norm_sub
from keyveil.learn.gauss import bell, gauss
from keyveil.learn.postprocess import apply

STEP = 200  # points of the grid on which all vectors are tried


def vectors(d: int, total: float) -> np.ndarray:
    """All vectors within [0, 1] on a grid that have the sum."""
    points = [part for part in product(range(STEP + 1), repeat=d - 1) if 0 <= STEP * total - sum(part) <= STEP]
    first = np.array(points) / STEP
    return np.column_stack([first, total - first.sum(axis=1)])


def binomial(frequency: np.ndarray, support: np.ndarray, p: float, q: float) -> np.ndarray:
    share = np.clip(q + (p - q) * frequency, 1e-300, 1 - 1e-16)
    return (support * np.log(share) + (1 - support) * np.log1p(-share)).sum(axis=-1)


def multinomial(frequency: np.ndarray, support: np.ndarray, p: float, q: float) -> np.ndarray:
    return (support * np.log(q + (p - q) * frequency)).sum(axis=-1)


CASES: list[tuple[list[float], float, float, float, Any]] = [
    ([0.7, 0.4, -0.2], 0.5, 0.2689, 1.0, binomial),
    ([0.9, 0.3, 0.6], 0.5, 0.1, 1.5, binomial),
    ([-0.3, 0.02, 0.05], 0.6, 0.3, 1.0, binomial),
    ([0.9, 0.8, 0.9], 0.9, 0.05, 1.0, binomial),
    ([0.8, 0.3, -0.1], 0.5761, 0.21195, 1.0, multinomial),  # grr with three symbols at ε = 1
    ([1.2, -0.1, -0.1], 0.5761, 0.21195, 1.0, multinomial),
    ([0.7, 0.6], 0.5, 0.25, 1.0, binomial),
]


@pytest.mark.parametrize(("raw", "p", "q", "total", "likelihood"), CASES)
def test_no_other_vector_is_more_likely(raw: list[float], p: float, q: float, total: float, likelihood: Any) -> None:
    support = np.clip(q + (p - q) * np.array(raw), 0, 1)
    tried = vectors(len(raw), total)
    values = likelihood(tried, support, p, q)
    found = mle(raw, p, q, total)
    assert found.sum() == pytest.approx(total) and found.min() >= 0 and found.max() <= 1
    assert likelihood(found, support, p, q) >= values.max() - 1e-12
    assert np.abs(found - tried[values.argmax()]).max() < 2 / STEP


@pytest.mark.parametrize("wrong", [lambda raw, p, q: mle_apx(raw, p, q), lambda raw, p, q: norm_sub(raw)])
def test_an_approximation_is_less_likely(wrong: Any) -> None:
    """What the check above would not let pass: noise taken as normal, or as the same for all keys."""
    raw, p, q, *_ = CASES[3]
    support = q + (p - q) * np.array(raw)
    assert binomial(wrong(raw, p, q), support, p, q) < binomial(mle(raw, p, q), support, p, q) - 1e-5


def test_where_only_one_symbol_is_told_the_supports_are_multinomial() -> None:
    raw, p, q, *_ = CASES[4]
    support = q + (p - q) * np.array(raw)
    as_if = mle([*raw, -1e-9], p, q)[:3]  # one more key: reports no longer name exactly one
    assert multinomial(as_if / as_if.sum(), support, p, q) < multinomial(mle(raw, p, q), support, p, q) - 1e-6


def test_frequencies_have_the_bound_that_is_given() -> None:
    found = mle([0.9, 0.1, 0.2], 0.5, 0.2, 1.0, upper=0.5)
    assert found.max() == pytest.approx(0.5) and found.sum() == pytest.approx(1)
    with pytest.raises(MechanismError) as refused:
        apply("mle", [0.5, 0.5], p=0.5, q=0.25, total=3, upper=1)
    assert refused.value.code == "postprocess/total"


def test_a_consistent_vector_stays_as_it_is() -> None:
    assert mle([0.5, 0.3, 0.2], 0.5, 0.2) == pytest.approx([0.5, 0.3, 0.2], abs=1e-9)


# -- a Gaussian prior ------------------------------------------------------------------------------------------------


def test_the_posterior_mean_is_the_integral() -> None:
    """Frequencies on a fine grid, weighted by prior and likelihood, with the μ and τ that were fitted."""
    raw, sigma = np.array([-0.05, 0.02, 0.2, 0.4, 0.1]), np.array([0.05, 0.1, 0.05, 0.2, 0.05])
    middle, spread = bell(raw, sigma**2)
    x = np.linspace(0, 3, 300_001)
    for one, noise, found in zip(raw, sigma, gauss(raw, sigma), strict=True):
        weight = np.exp(-((x - middle) ** 2) / (2 * spread) - (one - x) ** 2 / (2 * noise**2))
        assert found == pytest.approx(np.trapezoid(x * weight, x) / np.trapezoid(weight, x), rel=1e-6)


def test_no_other_bell_makes_the_estimates_more_likely() -> None:
    draw = np.random.default_rng(2)
    sigma = draw.uniform(0.01, 0.1, 60)
    raw = draw.normal(0.3, 0.08, 60) + draw.normal(0, sigma)
    middle, spread = bell(raw, sigma**2)

    def likelihood(centre: Any, width: Any) -> Any:
        total = sigma**2 + width
        return -(np.log(total) + (raw - centre) ** 2 / total).sum(axis=-1)

    grid = np.meshgrid(np.linspace(0.2, 0.4, 201), np.linspace(0.03, 0.15, 241) ** 2)
    tried = likelihood(grid[0][..., None], grid[1][..., None])
    assert likelihood(middle, spread) >= tried.max()
    place = np.unravel_index(tried.argmax(), tried.shape)
    assert middle == pytest.approx(grid[0][place], abs=1e-3)
    assert math.sqrt(spread) == pytest.approx(math.sqrt(grid[1][place]), abs=1e-3)


def test_it_gains_where_the_assumption_holds_and_loses_where_it_does_not() -> None:
    """300 keys around 0.3; and 2 of 300 keys that hold nearly everything. Ratios of squared errors to the estimates."""
    draw, noise = np.random.default_rng(3), 0.05
    ratios = {}
    for law, truth in (("bell", draw.normal(0.3, 0.02, 300)), ("few", np.r_[0.9, 0.8, np.zeros(298)])):
        raw = truth + draw.normal(0, noise, 300)
        ratios[law] = np.mean((gauss(raw, noise) - truth) ** 2) / np.mean((raw - truth) ** 2)
    assert ratios["bell"] < 0.3
    assert ratios["few"] > 2 * ratios["bell"]


def test_equal_estimates_are_the_common_frequency() -> None:
    assert gauss([0.2, 0.2, 0.2], 0.01) == pytest.approx([0.2] * 3, abs=1e-4)
    assert gauss([-5.0, -5.0], 1.0).min() >= 0


@pytest.mark.parametrize("method", ["gauss", "gauss-ns"])
def test_gauss_needs_the_noise(method: str) -> None:
    with pytest.raises(MechanismError) as refused:
        apply(method, [0.5, 0.5])
    assert refused.value.code == "postprocess/constants" and refused.value.sentence.endswith(".")
    assert apply("gauss-ns", [0.7, 0.6, -0.1], sigma=0.1).sum() == pytest.approx(1)
