from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from numpy.typing import NDArray

from keyveil.core.channels import subset, two_level
from keyveil.core.errors import MechanismError
from keyveil.core.estimates import FLAGS, Header
from keyveil.core.schema import Schema
from keyveil.mechanisms.responses import (
    Response,
    Spread,
    SupportMoments,
    fieller,
    given_positive,
    label_supports,
    normal_quantile,
    support_counts,
    three_state,
)

ONE = Fraction(1)
SCHEMA = Schema(keys=1)


def per_report(response: Response, f: float, m: float, known: float) -> tuple[float, float, float]:
    spread = response.spread(np.array([f]), np.array([m]), np.array([1.0]), known)
    return float(spread.frequency[0]), float(spread.product[0]), float(spread.covariance[0])


def core(a: float, b: float, p: float, f: float, m: float) -> tuple[float, float, float]:
    """The variances of docs/theory.md (the three-state core), per report, for people who are a sample."""
    pi, g = f * a + (1 - f) * b, a * (2 * p - 1)
    tau = f * g * m
    return pi * (1 - pi) / (a - b) ** 2, (pi - tau**2) / g**2, tau * (1 - pi) / ((a - b) * g)


@pytest.mark.parametrize(("f", "m"), [(0.05, 0.3), (0.4, -0.8), (0.9, 0.0)])
def test_the_three_state_core_for_a_sample(f: float, m: float) -> None:
    a, b, p = Fraction(1, 2), Fraction(1, 5), Fraction(3, 4)
    assert per_report(three_state(a, b, p), f, m, known=0) == pytest.approx(core(0.5, 0.2, 0.75, f, m))


def test_fixed_people_are_the_mixture_of_two_kinds() -> None:
    a, b, p, f, m = 0.5, 0.2, 0.75, 0.3, 0.4
    var_f, var_u, _ = per_report(three_state(Fraction(1, 2), Fraction(1, 5), Fraction(3, 4)), f, m, known=1)
    assert var_f == pytest.approx((f * a * (1 - a) + (1 - f) * b * (1 - b)) / (a - b) ** 2)
    g = a * (2 * p - 1)
    assert var_u == pytest.approx((f * (a - g**2 * m**2) + (1 - f) * b) / g**2)


@pytest.mark.parametrize("known", [0.0, 0.4, 1.0], ids=["sample", "some", "fixed people"])
@pytest.mark.parametrize("fake_mean", [Fraction(0), Fraction(1, 2), Fraction(-3, 4)], ids=["fair", "up", "down"])
def test_variances_and_covariance_follow_from_all_outcomes(fake_mean: Fraction, known: float) -> None:
    """By the definition, over nothing, minus and plus: what a key's counts vary by is carried to (f, U) as matrices."""
    a, b, p, f, m = 0.5, 0.2, 0.75, 0.3, -0.6
    response = three_state(Fraction(1, 2), Fraction(1, 5), Fraction(3, 4), fake_mean=fake_mean)
    keep, fake = 2 * p - 1, float(fake_mean)
    outcomes = np.array([[0, 0], [1, -1], [1, 1]])  # Q and T of nothing, minus, plus
    laws = [
        np.array([1 - speaks, speaks * (1 - keep * value) / 2, speaks * (1 + keep * value) / 2])
        for speaks, value in ((a, m), (b, fake))
    ]
    means = [law @ outcomes for law in laws]
    within = [outcomes.T @ np.diag(law) @ outcomes - np.outer(mu, mu) for law, mu in zip(laws, means, strict=True)]
    step = means[0] - means[1]
    counts = f * within[0] + (1 - f) * within[1] + (1 - known) * f * (1 - f) * np.outer(step, step)
    # E[Q] = b + (a - b)·f and E[T] = b·keep·fake·(1 - f) + a·keep·U, solved for (f, U)
    solve = np.linalg.inv(np.array([[a - b, 0], [-b * keep * fake, a * keep]]))
    expected = solve @ counts @ solve.T
    found = per_report(response, f, m, known)
    assert found == pytest.approx((expected[0, 0], expected[1, 1], expected[0, 1]))
    assert abs(expected[0, 1]) > 0.05


def test_padding_and_sampling_only_mixes_the_holder() -> None:
    """A holder among ℓ places is half a stranger: π_o = b + (a - b)/ℓ (docs/theory.md, padding and sampling)."""
    response = three_state(Fraction(1, 2), Fraction(1, 5), Fraction(3, 4), inclusion=Fraction(1, 4))
    assert response.holder.support == Fraction(1, 5) + (Fraction(1, 2) - Fraction(1, 5)) / 4
    assert response.holder.signed == Fraction(1, 4) * Fraction(1, 2) * Fraction(1, 2)


def test_the_variance_of_frequency_oracles() -> None:
    """Frequency oracles: q(1-q)/(n(p-q)²) + f(1-p-q)/(n(p-q)) for fixed people."""
    p, q, f = 0.5, 0.25, 0.2
    var_f, var_u, _ = per_report(support_counts(Fraction(1, 2), Fraction(1, 4)), f, 0.0, known=1)
    assert var_f == pytest.approx(q * (1 - q) / (p - q) ** 2 + f * (1 - p - q) / (p - q))
    assert np.isnan(var_u)


def test_label_supports_reproduce_the_planners_table() -> None:
    """docs/theory.md: SSR at d=100, ℓ=5, ε=1, w=10 has n·Var 38.8 for f and 39.2 for f·m at rare keys."""
    channel = subset(symbols=205, size=10, held=5, epsilon=ONE)
    response = label_supports(channel.own, channel.other, channel.own_and_other, channel.two_others)
    var_f, var_u, _ = per_report(response, 1e-9, 0.0, known=0)
    assert (var_f, var_u) == pytest.approx((38.8, 39.2), abs=0.05)


def test_three_symbols_reproduce_the_planners_formula() -> None:
    """KVUE on one key: 2E/(E-1)² for f and 2(E+2)/(E-1)² for f·m at rare keys."""
    channel, e = two_level(3, 1, ONE), np.e
    hit, miss = channel.hit, channel.miss
    response = three_state(hit + miss, 2 * miss, hit / (hit + miss))
    expected = 2 * e / (e - 1) ** 2, 2 * (e + 2) / (e - 1) ** 2
    assert per_report(response, 1e-9, 0.0, known=0)[:2] == pytest.approx(expected, rel=1e-6)
    assert float(hit), float(miss) == pytest.approx((0.5761168848, 0.2119415576))


def test_a_fake_mean_is_taken_out() -> None:
    response = three_state(Fraction(1, 2), Fraction(1, 5), Fraction(3, 4), fake_mean=Fraction(1, 2))
    n, f, m = 10**9, 0.3, -0.4
    supports = round(n * (f * 0.5 + (1 - f) * 0.2))
    signed = round(n * (f * 0.25 * m + (1 - f) * 0.1 * 0.5))
    estimates = response.estimates(
        Header(SCHEMA, "test", ONE, n),
        respondents=np.array([n]),
        supports=np.array([supports]),
        signed=np.array([signed]),
    )
    assert estimates.frequency.values[0] == pytest.approx(f, abs=1e-8)
    assert estimates.mean.values[0] == pytest.approx(m, abs=1e-7)
    with pytest.raises(MechanismError):
        three_state(ONE, ONE, ONE, inclusion=Fraction(1, 2), fake_mean=ONE)


def test_a_key_that_nobody_was_asked_about_has_no_estimate() -> None:
    response = three_state(Fraction(1, 2), Fraction(1, 5), Fraction(3, 4))
    nobody = np.array([0])
    estimates = response.estimates(Header(SCHEMA, "test", ONE, 10), respondents=nobody, supports=nobody, signed=nobody)
    assert estimates.flag == ("insufficient",)
    row = estimates.rows()[0]
    assert row["frequency"] is None and row["frequency_se"] is None and row["mean"] is None
    assert (row["frequency_low"], row["frequency_high"]) == (0, 1)
    assert (row["mean_low"], row["mean_high"]) == (-1, 1)


def test_a_key_like_an_absent_one_is_insufficient() -> None:
    spread = Spread(np.array([0.01]), np.array([0.01]), np.array([0.0]))
    column = fieller(SCHEMA, np.array([0.1]), np.array([0.05]), spread, 1.96)
    assert (column.low[0], column.high[0], column.flag[0]) == (-1, 1, FLAGS.index("insufficient"))


def test_fieller_is_the_set_of_means_that_fit() -> None:
    f, u, z = 0.5, 0.2, 1.96
    spread = Spread(np.array([0.001]), np.array([0.002]), np.array([0.0003]))
    column = fieller(SCHEMA, np.array([f]), np.array([u]), spread, z)
    for edge in (column.low[0], column.high[0]):
        distance = (u - edge * f) ** 2
        assert distance == pytest.approx(z**2 * (0.002 - 2 * edge * 0.0003 + edge**2 * 0.001))
    assert column.values[0] == pytest.approx(0.4, abs=1e-9)
    assert column.low[0] < column.values[0] < column.high[0]


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
@pytest.mark.parametrize(("f", "u", "cov"), [(0.5, 0.2, 0.0003), (0.5, -0.4, -0.0004), (0.3, 0.0, 0.0006)])
def test_the_standard_error_of_a_mean_is_that_of_a_ratio(f: float, u: float, cov: float, confidence: float) -> None:
    """Var m = (Var U + m²·Var f - 2m·Cov) / f² where f is far from zero, whatever the confidence of the interval."""
    spread = Spread(np.array([0.0004]), np.array([0.002]), np.array([cov]))
    column = fieller(SCHEMA, np.array([f]), np.array([u]), spread, normal_quantile(confidence))
    m = u / f
    assert column.se[0] ** 2 == pytest.approx((0.002 + m**2 * 0.0004 - 2 * m * cov) / f**2, rel=1e-4)


@pytest.mark.parametrize("mean", [-0.8, 0.0, 0.5])
@pytest.mark.parametrize("correlation", [-0.5, 0.5])
def test_means_err_by_their_standard_error(mean: float, correlation: float) -> None:
    """Over 200,000 collections the variance of z is 1 within 3 %; chance alone moves it by 0.3 % and a tenth of se."""
    frequency, product, spread = drawn(12.0, mean, correlation)
    column = fieller(Schema(keys=len(frequency)), frequency, product, spread, 1.96)
    assert np.mean(((column.values - mean) / column.se) ** 2) == pytest.approx(1, abs=0.03)


def drawn(distance: float, mean: float, correlation: float) -> tuple[NDArray[np.float64], NDArray[np.float64], Spread]:
    """Estimates of one key in 200,000 collections: f is ``distance`` standard errors, which are 1 for both."""
    first, second = np.random.default_rng(4).standard_normal((2, 200_000))
    noise = correlation * first + math.sqrt(1 - correlation**2) * second
    parts = (np.full(len(first), part) for part in (1.0, 1.0, correlation))
    return distance + first, distance * mean + noise, Spread(*parts)


def squares(ratio: NDArray[np.float64], mean: float) -> float:
    """As errors are counted: cut to the range, and 0 where there is none."""
    return float(np.mean((np.clip(np.nan_to_num(ratio), -1, 1) - mean) ** 2))


@pytest.mark.parametrize("correlation", [-0.3, 0.0, 0.3])
@pytest.mark.parametrize("mean", [0.0, 0.4, 0.6, 1.0])
def test_that_shares_are_positive_makes_means_more_precise(mean: float, correlation: float) -> None:
    """Less squared error where means are not extreme; where they are, hardly more, and none beyond four errors.

    The same draws serve both, so a hundredth is far outside of what chance can do.
    """
    for distance in (1.0, 1.5, 2.0, 3.0, 4.0, 6.0):
        frequency, product, spread = drawn(distance, mean, correlation)
        ours = fieller(Schema(keys=len(frequency)), frequency, product, spread, 1.96)
        plain = np.where(frequency > 0, product / frequency, np.nan)
        ratio = squares(ours.values, mean) / squares(plain, mean)
        assert ratio < (1.0001 if mean < 1 else 1.002 if distance >= 4 else 1.08)
        assert distance > 1.5 or mean == 1 or ratio < 0.98


@pytest.mark.parametrize("mean", [-1.0, -0.6, 0.3, 0.9])
@pytest.mark.parametrize("distance", [2.0, 3.0, 5.0])
def test_means_that_are_shown_are_biased_no_more_than_plain_ratios(distance: float, mean: float) -> None:
    """Among keys whose mean is not insufficient; a thousandth is what 100,000 differences of the two can be off."""
    frequency, product, spread = drawn(distance, mean, 0.2)
    ours = fieller(Schema(keys=len(frequency)), frequency, product, spread, 1.96)
    shown = ours.flag == 0
    plain = np.clip(product[shown] / frequency[shown], -1, 1).mean() - mean
    assert abs(np.clip(ours.values[shown], -1, 1).mean() - mean) < abs(plain) + 0.005


def test_what_a_positive_share_says_of_the_product() -> None:
    """The mean of a bivariate normal beyond zero, by integration over a grid."""
    f, u, spread = 0.3, -0.2, Spread(*(np.array([part]) for part in (0.16, 0.09, 0.05)))
    share, total = given_positive(np.array([f]), np.array([u]), spread)
    grid = np.linspace(0, 4, 400_001)
    density = np.exp(-((grid - f) ** 2) / (2 * 0.16))
    density /= density.sum()
    assert share[0] == pytest.approx(density @ grid, rel=1e-4)
    assert total[0] == pytest.approx(density @ (u + 0.05 / 0.16 * (grid - f)), rel=1e-4)


@settings(max_examples=200)
@given(
    some.floats(1e-3, 1),
    some.floats(-1, 1),
    some.floats(1e-3, 3),
    some.floats(1e-3, 3),
    some.floats(-1, 1),
    some.floats(0.01, 0.999),
)
def test_an_interval_holds_its_estimate(
    f: float, mean: float, cv_f: float, cv_u: float, correlation: float, confidence: float
) -> None:
    deviations = f * cv_f, f * cv_u
    parts = deviations[0] ** 2, deviations[1] ** 2, correlation * deviations[0] * deviations[1]
    column = fieller(
        SCHEMA,
        np.array([f]),
        np.array([f * mean]),
        Spread(*(np.array([part]) for part in parts)),
        normal_quantile(confidence),
    )
    assert column.flag[0] or column.low[0] <= column.values[0] <= column.high[0]


@pytest.mark.parametrize("confidence", [0, 1, -1, 2, float("nan")])
def test_confidence_lies_between_nothing_and_certainty(confidence: float) -> None:
    with pytest.raises(MechanismError) as refused:
        normal_quantile(confidence)
    assert refused.value.code == "estimate/confidence"


def test_mixing_moments_is_linear() -> None:
    sure, never = SupportMoments(ONE, ONE, ONE, ONE, ONE), SupportMoments(*[Fraction(0)] * 5)
    assert sure.mixed(Fraction(1, 3), never) == SupportMoments(*[Fraction(1, 3)] * 5)
