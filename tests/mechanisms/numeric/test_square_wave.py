"""Distributions from the square wave, by EM and EMS; erratum F2."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from keyveil.core.errors import KeyveilError
from keyveil.core.tally import Tally
from keyveil.kernels.em import em
from keyveil.lab.coins import SeededCoins
from keyveil.mechanisms.numeric.square_wave import SquareWave
from tests.mechanisms.numeric.crowd import everyone, numeric

Floats = NDArray[np.float64]


def square_wave(cells: int, epsilon: str = "1", keys: int = 1) -> SquareWave:
    mechanism = numeric("square-wave", epsilon, keys, cells=cells)
    assert isinstance(mechanism, SquareWave)
    return mechanism


def two_peaks(cells: int) -> Floats:
    at = np.linspace(0, 1, cells)
    shape: Floats = np.exp(-(((at - 0.25) / 0.06) ** 2)) + 0.6 * np.exp(-(((at - 0.75) / 0.08) ** 2))
    return shape / shape.sum()


def noiseless(mechanism: SquareWave, shares: Floats, n: float = 1e6) -> Tally:
    """The tally that n people are expected to give."""
    counts = np.rint(n * (mechanism.window.matrix() @ shares)).astype(np.int64)
    return Tally(mechanism.fingerprint, int(counts.sum()), counts[None, :])


def distance(shares: Floats, others: Floats) -> float:
    """Wasserstein distance of two distributions on [0, 1]."""
    return float(np.abs(np.cumsum(shares - others)).sum() / (len(shares) - 1))


def test_em_finds_the_distribution() -> None:
    # Over thirty other seeds the distance was 0.0054 ± 0.0010, at most 0.0075; 0.012 is more than six errors away.
    mechanism, rng = square_wave(64), np.random.default_rng(1)
    truth = two_peaks(64)
    values = rng.choice(np.linspace(-1, 1, 64), size=200_000, p=truth)
    tally = mechanism.tally(mechanism.perturb_many(everyone(values), SeededCoins(12)))
    found = mechanism.distribution(tally)
    assert found.shape == (64,)
    assert found.sum() == pytest.approx(1)
    assert distance(found, truth) < 0.012
    assert distance(np.full(64, 1 / 64), truth) > 0.08


def test_each_key_has_its_own_distribution() -> None:
    mechanism = square_wave(32, "3", keys=2)
    values = np.tile([-0.5, 0.5], (50_000, 1))
    tally = mechanism.tally(mechanism.perturb_many(everyone(values), SeededCoins(13)))
    middles = [float(mechanism.distribution(tally, key) @ np.linspace(-1, 1, 32)) for key in ("0", 1)]
    assert middles == pytest.approx([-0.5, 0.5], abs=0.05)


def test_the_window_iteration_is_the_matrix_iteration() -> None:
    mechanism = square_wave(40)
    tally = noiseless(mechanism, two_peaks(40), 1e4)
    for method, tolerance in (("em", 1e-3 * np.e), ("ems", 1e-3)):
        written_out = em(tally.counts[0], mechanism.window.matrix(), tolerance=tolerance, smooth=method == "ems")
        assert np.allclose(mechanism.distribution(tally, method=method), written_out, atol=1e-9)  # type: ignore[arg-type]


def test_erratum_F2_smoothing_to_convergence_blurs() -> None:  # noqa: N802
    """At few cells EMS settles far from the truth, however many people there are; EM does not."""
    mechanism, truth = square_wave(16), two_peaks(16)
    tally = noiseless(mechanism, truth)
    converged = em(tally.counts[0], mechanism.window.matrix(), tolerance=-np.inf, smooth=True, limit=3000)
    assert distance(converged, truth) == pytest.approx(0.09, abs=0.01)
    assert distance(mechanism.distribution(tally), truth) < 0.0025


def test_erratum_F2_stopped_smoothing_at_the_usual_number_of_cells_does_not() -> None:  # noqa: N802
    mechanism, truth = square_wave(1024), two_peaks(1024)
    tally = noiseless(mechanism, truth)
    assert distance(mechanism.distribution(tally, method="ems"), truth) < 0.005
    assert distance(mechanism.distribution(tally), truth) < 0.005


@pytest.mark.parametrize("cells", [8, 9, 64])
def test_closed_form_mean_of_expected_counts_is_the_mean(cells: int) -> None:
    mechanism, truth = square_wave(cells), two_peaks(cells)
    estimated = mechanism.estimate(noiseless(mechanism, truth, 1e12)).mean.values[0]
    assert estimated == pytest.approx(float(truth @ np.linspace(-1, 1, cells)), abs=1e-8)


@pytest.mark.parametrize(
    ("keys", "key", "method", "code"),
    [
        (2, None, "em", "estimate/which-key"),
        (1, "stranger", "em", "schema/unknown-key"),
        (1, None, "magic", "estimate/method"),
        (1, None, "em", "estimate/no-reports"),
    ],
)
def test_senseless_questions_are_refused(keys: int, key: str | None, method: str, code: str) -> None:
    mechanism = square_wave(8, keys=keys)
    nothing = Tally.empty(mechanism.fingerprint, mechanism.tally_shape)
    with pytest.raises(KeyveilError) as refusal:
        mechanism.distribution(nothing, key, method)  # type: ignore[arg-type]
    assert refusal.value.code == code
