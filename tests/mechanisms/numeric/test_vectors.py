"""Numbers that are known from the literature: constants of the continuous mechanisms against the discrete ones."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from keyveil.core.schema import Schema
from keyveil.mechanisms.numeric.duchi import Duchi
from keyveil.mechanisms.numeric.hybrid import THRESHOLD, Hybrid
from keyveil.mechanisms.numeric.mean_est import MeanEst
from keyveil.mechanisms.numeric.piecewise import Piecewise, piecewise_window
from keyveil.mechanisms.numeric.square_wave import SquareWave, bandwidth
from tests.mechanisms.numeric.crowd import EPSILONS

ONE = Schema(keys=1)


def test_truth_probability_of_a_sign() -> None:
    assert float(Duchi(ONE, Fraction(1)).channel.hit) == pytest.approx(0.7310585786, abs=5e-10)


def test_square_wave_b_p_q() -> None:
    b = float(bandwidth(Fraction(1)))
    assert b == pytest.approx(0.2560829375, abs=5e-11)
    # Densities per unit of the input range: the discrete ones tend to them as cells get finer.
    mechanism = SquareWave(ONE, Fraction(1), cells=1 << 16)
    channel = mechanism.window.channel
    assert float(channel.hit * mechanism.points) == pytest.approx(1.1363051216, rel=1e-4)
    assert float(channel.miss * mechanism.points) == pytest.approx(0.4180232931, rel=1e-4)


@pytest.mark.parametrize("epsilon", ["0.001", "0.000001", "0.0000000001"])
def test_square_wave_b_for_tiny_epsilon(epsilon: str) -> None:
    tiny = Fraction(epsilon)
    assert abs(float(bandwidth(tiny) - (Fraction(1, 2) - tiny / 3))) <= float(tiny) ** 2


def test_piecewise_constants() -> None:
    root = math.exp(0.5)
    reach = (root + 1) / (root - 1)
    assert reach == pytest.approx(4.0829881651, abs=5e-11)
    window = Piecewise(ONE, Fraction(1), steps=1 << 16).window
    # The furthest answer stands for about ±C, and the density of a marked one, per unit, is about e^(ε/2) / (2C).
    unit = 1 / (window.gain * window.radius)
    assert float(window.middle * unit) == pytest.approx(reach, rel=1e-4)
    assert float(window.channel.hit / unit) == pytest.approx(0.2019013041, rel=1e-4)


def test_piecewise_variances() -> None:
    window = Piecewise(ONE, Fraction(1), steps=1 << 16).window
    assert float(window.variance(Fraction(0))) == pytest.approx(3.6821033695, rel=1e-4)
    assert float(window.variance(Fraction(1))) == pytest.approx(5.2235974520, rel=1e-4)
    assert window.variance(Fraction(-1)) == window.variance(Fraction(1))


@pytest.mark.parametrize("epsilon", ["0.1", "0.5", "1"])
@pytest.mark.parametrize("steps", [32, 1024])
def test_discrete_piecewise_is_within_one_percent_of_the_continuous(epsilon: str, steps: int) -> None:
    window = piecewise_window(steps, Fraction(epsilon))
    for value in (0, Fraction(1, 2), 1):
        assert float(window.variance(Fraction(value))) == pytest.approx(
            continuous(float(Fraction(epsilon)), value), rel=0.01
        )


@pytest.mark.parametrize("epsilon", ["2", "5"])
def test_discrete_piecewise_is_below_the_continuous_for_large_epsilon(epsilon: str) -> None:
    window = piecewise_window(32, Fraction(epsilon))
    for value in (0, 1):
        assert float(window.variance(Fraction(value))) < continuous(float(Fraction(epsilon)), value)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_duchi_variance(epsilon: str) -> None:
    channel, power = Duchi(ONE, Fraction(epsilon)).channel, math.exp(float(Fraction(epsilon)))
    assert float(channel.hit - channel.miss) ** -2 == pytest.approx(((power + 1) / (power - 1)) ** 2, rel=1e-7)


@pytest.mark.parametrize(("keys", "surplus", "marked"), [(1, 1, 1), (2, 1, 1), (3, 2, 4), (4, 3, 5), (5, 6, 16)])
def test_mean_est_constants(keys: int, surplus: int, marked: int) -> None:
    mechanism, power = MeanEst(Schema(keys=keys), Fraction(1)), math.e
    assert mechanism.channel.marked == marked
    total = power * marked + 2**keys - marked
    assert float(1 / mechanism.slope) == pytest.approx(total / ((power - 1) * surplus), rel=1e-8)


def test_hybrid_threshold_and_share() -> None:
    root = math.sqrt(241)
    edge = math.log((-5 + 2 * (6353 - 405 * root) ** (1 / 3) + 2 * (6353 + 405 * root) ** (1 / 3)) / 27)
    assert float(THRESHOLD) == pytest.approx(edge, abs=1e-10)
    assert Hybrid(ONE, Fraction("0.609")).threshold == 0
    assert Hybrid(ONE, Fraction("0.61")).threshold / 2**32 == pytest.approx(1 - math.exp(-0.305), abs=1e-9)
    assert Hybrid(ONE, Fraction(2)).threshold / 2**32 == pytest.approx(1 - math.exp(-1), abs=1e-9)


@pytest.mark.parametrize("epsilon", ["0.61", "1", "2", "5"])
def test_hybrid_variance_does_not_depend_on_the_value(epsilon: str) -> None:
    mechanism = Hybrid(ONE, Fraction(epsilon))
    share, slope = Fraction(mechanism.threshold, 2**32), mechanism.sign.hit - mechanism.sign.miss

    def variance(value: Fraction) -> float:
        return float(share * mechanism.window.variance(value) + (1 - share) * (slope**-2 - value**2))

    flat = [variance(Fraction(value)) for value in (0, Fraction(1, 2), 1)]
    assert flat == pytest.approx([flat[0]] * 3, rel=5e-3)  # as far as the window's width can be rounded to steps


def continuous(epsilon: float, value: float | Fraction) -> float:
    """Variance of the continuous piecewise mechanism."""
    root = math.exp(epsilon / 2)
    return float(value) ** 2 / (root - 1) + (root + 3) / (3 * (root - 1) ** 2)
