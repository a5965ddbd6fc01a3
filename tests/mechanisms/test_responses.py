from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from keyveil.core.channels import subset, two_level
from keyveil.core.errors import MechanismError
from keyveil.core.schema import Schema
from keyveil.mechanisms.responses import (
    Moments,
    Response,
    Spread,
    fieller,
    label_supports,
    nearly_unbiased_ratio,
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
        schema=SCHEMA,
        mechanism="test",
        epsilon=ONE,
        n=n,
        asked=np.array([n]),
        supports=np.array([supports]),
        signed=np.array([signed]),
        confidence=0.95,
        population=False,
    )
    assert estimates.frequency.values[0] == pytest.approx(f, abs=1e-8)
    assert estimates.mean.values[0] == pytest.approx(m, abs=1e-7)
    with pytest.raises(MechanismError):
        three_state(ONE, ONE, ONE, inclusion=Fraction(1, 2), fake_mean=ONE)


def test_a_key_that_nobody_was_asked_about_has_no_estimate() -> None:
    response = three_state(Fraction(1, 2), Fraction(1, 5), Fraction(3, 4))
    nobody = np.array([0])
    estimates = response.estimates(
        schema=SCHEMA,
        mechanism="test",
        epsilon=ONE,
        n=10,
        asked=nobody,
        supports=nobody,
        signed=nobody,
        confidence=0.95,
        population=False,
    )
    assert estimates.flag == ("insufficient",)
    row = estimates.rows()[0]
    assert row["frequency"] is None and row["frequency_se"] is None and row["mean"] is None
    assert (row["frequency_low"], row["frequency_high"]) == (0, 1)
    assert (row["mean_low"], row["mean_high"]) == (-1, 1)


def test_a_key_like_an_absent_one_is_insufficient() -> None:
    spread = Spread(np.array([0.01]), np.array([0.01]), np.array([0.0]))
    column = fieller(SCHEMA, np.array([0.1]), np.array([0.05]), spread, 1.96)
    assert (column.low[0], column.high[0], column.flag[0]) == (-1, 1, 4)


def test_fieller_is_the_set_of_means_that_fit() -> None:
    f, u, z = 0.5, 0.2, 1.96
    spread = Spread(np.array([0.001]), np.array([0.002]), np.array([0.0003]))
    column = fieller(SCHEMA, np.array([f]), np.array([u]), spread, z)
    for edge in (column.low[0], column.high[0]):
        distance = (u - edge * f) ** 2
        assert distance == pytest.approx(z**2 * (0.002 - 2 * edge * 0.0003 + edge**2 * 0.001))
    assert column.values[0] == (u * f + 0.0003) / (f**2 + 0.001)
    assert column.low[0] < column.values[0] < column.high[0]


@pytest.mark.parametrize("correlation", [-0.5, 0.0, 0.8])
@pytest.mark.parametrize("mean", [-0.7, 0.0, 0.4])
def test_ratios_are_unbiased_where_the_plain_one_is_not(mean: float, correlation: float) -> None:
    """Normal estimates, integrated. With f known to a tenth, what is left is a fiftieth of the bias of plain ratios."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(20)
    first, second = (part.ravel() for part in np.meshgrid(nodes, nodes))
    weight = np.outer(weights, weights).ravel() / weights.sum() ** 2
    f, sd_f, sd_u = 0.3, 0.03, 0.04
    noise = correlation * first + math.sqrt(1 - correlation**2) * second
    estimates, products = f + sd_f * first, f * mean + sd_u * noise
    variances = (np.full(len(first), part) for part in (sd_f**2, sd_u**2, correlation * sd_f * sd_u))
    bias = weight @ nearly_unbiased_ratio(estimates, products, Spread(*variances)) - mean
    plain = mean * (sd_f / f) ** 2 - correlation * sd_f * sd_u / f**2
    assert abs(weight @ (products / estimates) - mean - plain) < 1e-3
    assert abs(bias) < 5e-4 and (abs(plain) < 1e-9 or abs(bias) < abs(plain) / 10)


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
    sure, never = Moments(ONE, ONE, ONE, ONE, ONE), Moments(*[Fraction(0)] * 5)
    assert sure.mixed(Fraction(1, 3), never) == Moments(*[Fraction(1, 3)] * 5)
