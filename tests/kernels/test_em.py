from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from keyveil.kernels.em import em, window_em

CELLS, WIDTH, INNER_WEIGHT = 32, 17, np.e
OUTPUTS = CELLS + WIDTH - 1
OUTER = 1 / (WIDTH * INNER_WEIGHT + CELLS - 1)
INNER = INNER_WEIGHT * OUTER
MATRIX = np.full((OUTPUTS, CELLS), OUTER)
for cell in range(CELLS):
    MATRIX[cell : cell + WIDTH, cell] = INNER
BELL = np.exp(-(((np.arange(CELLS) - 10) / 4) ** 2))
BELL /= BELL.sum()
UNIFORM = np.full(OUTPUTS, 1 / OUTPUTS)


def distance(left: NDArray[np.float64], right: NDArray[np.float64]) -> float:
    return float(np.abs(np.cumsum(left - right)).mean())


def test_exact_counts_of_an_invertible_channel_are_undone() -> None:
    matrix = np.array([[0.7, 0.2], [0.3, 0.8]])
    truth = np.array([0.9, 0.1])
    assert em(1e6 * matrix @ truth, matrix, tolerance=1e-9, smooth=False) == pytest.approx(truth, abs=1e-4)


def test_it_finds_the_maximum_of_the_likelihood() -> None:
    counts = np.array([30, 50, 20])
    matrix = np.array([[0.6, 0.2], [0.2, 0.5], [0.2, 0.3]])
    grid = np.linspace(0, 1, 10_001)
    best = grid[np.argmax(counts @ np.log(matrix @ np.vstack([grid, 1 - grid])))]
    assert em(counts, matrix, tolerance=1e-12, smooth=False)[0] == pytest.approx(best, abs=2e-4)


def test_a_known_component_is_set_aside() -> None:
    counts = 1e6 * (0.6 * MATRIX @ BELL + 0.4 * UNIFORM)
    aware = em(counts, MATRIX, (0.4, UNIFORM), tolerance=1e-3, smooth=False)
    unaware = em(counts, MATRIX, tolerance=1e-3, smooth=False)
    assert distance(aware, BELL) < 0.005 < 0.02 < distance(unaware, BELL)


@pytest.mark.parametrize("smooth", [False, True])
def test_the_window_form_is_the_same_channel(smooth: bool) -> None:
    counts = np.random.default_rng(1).multinomial(20_000, MATRIX @ BELL, size=3)
    weights = np.array([0.0, 0.2, 0.5])
    dense = em(counts, MATRIX, (weights, UNIFORM), tolerance=1e-3, smooth=smooth)
    window = window_em(counts, INNER, OUTER, WIDTH, (weights, UNIFORM), tolerance=1e-3, smooth=smooth)
    assert window == pytest.approx(dense, abs=1e-9)


def test_keys_in_a_batch_do_not_touch_each_other() -> None:
    counts = np.random.default_rng(2).multinomial(5_000, MATRIX @ BELL, size=40)
    counts[7] = 0
    batch = em(counts, MATRIX, tolerance=1e-2, smooth=False)
    assert batch.shape == (40, CELLS) and batch.sum(axis=1) == pytest.approx(1)
    assert batch[7] == pytest.approx(1 / CELLS)  # nothing seen, nothing learnt
    for key in (0, 7, 39):
        assert em(counts[key], MATRIX, tolerance=1e-2, smooth=False) == pytest.approx(batch[key], abs=1e-9)


def test_smoothing_tames_noise_and_the_stop_rule_limits_it() -> None:
    counts = np.random.default_rng(3).multinomial(2_000, MATRIX @ BELL)
    rough = em(counts, MATRIX, tolerance=1e-6, smooth=False)
    smooth = em(counts, MATRIX, tolerance=1e-3, smooth=True)
    assert np.abs(np.diff(smooth)).sum() < np.abs(np.diff(rough)).sum()
    one_step = em(counts, MATRIX, tolerance=0.0, smooth=False, limit=1)
    expected = counts / (MATRIX @ np.full(CELLS, 1 / CELLS)) @ MATRIX / CELLS / counts.sum()
    assert one_step == pytest.approx(expected)


def test_an_output_that_no_input_reaches_does_no_harm() -> None:
    matrix = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    assert em([3, 1, 0], matrix, tolerance=1e-9, smooth=False) == pytest.approx([0.75, 0.25])


@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize("limit", [1, 2, 10_000])
def test_machine_code_and_numpy_agree(smooth: bool, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a key is like: plenty of counts, few, none, nothing but fakes; keys stop on their own."""
    rng = np.random.default_rng(4)
    laws = np.array([MATRIX @ BELL, UNIFORM, MATRIX[:, 0]])
    counts = np.vstack([rng.multinomial(size, law) for size in (0, 3, 1_000, 100_000) for law in laws])
    weights = rng.choice([0.0, 0.3, 0.9, 1.0], len(counts))

    def found() -> NDArray[np.float64]:
        known = (weights, UNIFORM)
        return window_em(counts, INNER, OUTER, WIDTH, known, tolerance=1e-3, smooth=smooth, limit=limit)

    compiled = found()
    monkeypatch.setenv("KEYVEIL_KERNELS", "numpy")
    assert found() == pytest.approx(compiled, abs=1e-9)


@given(st.lists(st.integers(0, 500), min_size=OUTPUTS, max_size=OUTPUTS), st.floats(0, 0.9))
@settings(max_examples=30)
def test_a_step_never_lowers_the_likelihood(counts: list[int], weight: float) -> None:
    def likelihood(limit: int) -> float:
        shares = window_em(counts, INNER, OUTER, WIDTH, (weight, UNIFORM), tolerance=0.0, smooth=False, limit=limit)
        assert shares.min() >= 0 and shares.sum() == pytest.approx(1)
        return float(np.array(counts) @ np.log((1 - weight) * MATRIX @ shares + weight * UNIFORM))

    heights = [likelihood(limit) for limit in (1, 2, 5, 20)]
    assert all(later >= earlier - 1e-6 for earlier, later in pairwise(heights))
