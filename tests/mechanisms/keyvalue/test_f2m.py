from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from keyveil.core.errors import MechanismError
from keyveil.core.schema import Schema
from keyveil.mechanisms.base import Pairs
from keyveil.mechanisms.keyvalue.f2m import F2M
from tests.mechanisms.keyvalue.exact import (
    RECORDS,
    expected_estimates,
    large_tally,
    logistic,
    spent,
    tally_of,
    truth,
    two_keys,
)

FORMS: list[dict[str, Any]] = [{}, {"split": "paper"}, {"split": "paper", "default": "1"}, {"default": "1/3"}]


def one_key(epsilon: int = 1, **options: Any) -> F2M:
    return F2M(Schema(keys=1), Fraction(epsilon), **options)


@pytest.mark.parametrize("pairs", RECORDS, ids=str)
@pytest.mark.parametrize("options", FORMS, ids=str)
def test_counts_are_exactly_unbiased(options: dict[str, Any], pairs: Pairs) -> None:
    assert expected_estimates(two_keys("f2m", **options), pairs) == truth(pairs)


@pytest.mark.parametrize("epsilon", ["0.25", "1", "3"])
def test_the_tight_split_of_a_default_of_zero(epsilon: str) -> None:
    """ε₁ = ε₂ = x with e^x (1 + e^x) / 2 = e^ε."""
    exact = two_keys("f2m", epsilon)
    plus_of_plus, absent_plus = exact.channel.probability(2, 3), exact.channel.probability(0, 1)
    truthful = float(2 * absent_plus)  # a liar's sign is fair
    x = math.log(truthful / (1 - truthful))
    assert math.exp(x) * (1 + math.exp(x)) / 2 == pytest.approx(math.exp(float(epsilon)), rel=1e-8)
    assert float(plus_of_plus) == pytest.approx(truthful**2)


@pytest.mark.parametrize("default", ["-1", "-0.3", "1/3", "0.9"])
def test_other_defaults_use_the_whole_budget_too(default: str) -> None:
    assert spent(two_keys("f2m", default=default)) == pytest.approx(1, abs=1e-8)


def test_erratum_B3_a_default_of_one_forfeits_the_slack() -> None:  # noqa: N802
    """ε₁ = ε₂ = ½: with v̄ = 1 all of ε is lost, with v̄ = 0 only ε₁ + ln((1 + e^ε₂)/2)."""
    assert spent(two_keys("f2m", split="paper", default="1")) == pytest.approx(1, abs=1e-8)
    assert spent(two_keys("f2m", split="paper")) == pytest.approx(0.7809298036, abs=1e-8)


def test_erratum_B1_signs_are_corrected_with_the_budget_of_the_value() -> None:  # noqa: N802
    """Signs shrink by 2P(ε₂) - 1; dividing by the factor of ε itself, as printed, would nearly halve every mean."""
    mechanism = one_key(split="paper")
    tally = large_tally(mechanism, 0.4, 0.9)
    estimates, counts = mechanism.estimate(tally), tally.counts[:, 0]
    assert estimates.mean.values[0] == pytest.approx(0.9, abs=1e-4)
    assert estimates.product is not None and estimates.product[0] == pytest.approx(0.36, abs=1e-5)
    printed = float((counts[1::2] - counts[::2]).sum() / counts.sum()) / (2 * logistic(1) - 1)
    assert printed / 0.4 == pytest.approx(0.9 * 0.53, abs=0.01)


def test_erratum_B6_the_bound_of_a_mean_takes_the_noise_off_the_frequency() -> None:  # noqa: N802
    """Counts off by √(n·ln(2/δ)/2) are r = √(n·ln(2/δ)/2)·(E+1)/(E-1) for estimates: |m̂ - m| ≤ 2r(f + 1)/(f(nf - r)).

    The printed denominator has E - 1 for E + 1, as if f̂ were off by less than r. Counts that are just so far off, with
    r = 0.8·n and f = m = 1, give a mean beyond it.
    """
    mechanism, n = one_key(split="paper"), 10**6
    told = float(mechanism.channel.probability(2, 2) + mechanism.channel.probability(2, 3))
    gain = 2 * told - 1
    off = 0.8 * n * gain
    present, plus = round(n * told - off), round(n * told + off)
    estimates = mechanism.estimate(tally_of(mechanism, [0, n - present, n - plus, present + plus - n]))
    assert estimates.product is not None
    error = estimates.product[0] / estimates.frequency.values[0] - 1
    radius = off / gain
    right, printed = (4 * radius / (n - taken) for taken in (radius, off))
    assert printed < error <= right
    assert error == pytest.approx(3 * radius / (n - radius), rel=1e-4)  # what the derivation has before it rounds up


def test_erratum_B4_p_is_the_probability_of_the_truth() -> None:  # noqa: N802
    """A printed "flips with rate p > 0.5" would turn presence and sign around."""
    channel = one_key(split="paper").channel
    for state, output in ((1, 2), (2, 3)):  # minus and plus of somebody who is present
        assert float(channel.probability(state, output)) == pytest.approx(logistic(0.5) ** 2, abs=1e-9)
    assert one_key().estimate(large_tally(one_key(), 0.4, 0.9)).mean.values[0] == pytest.approx(0.9, abs=1e-4)


def test_erratum_B8_a_report_has_two_bits_beside_the_key() -> None:  # noqa: N802
    assert two_keys("f2m").bits_per_report == 2


@pytest.mark.parametrize(("epsilon", "gain"), [("0.5", 0.05), ("1", 0.18), ("2", 0.48), ("4", 0.80)])
def test_the_likeliest_estimate_is_better_for_rare_keys(epsilon: str, gain: float) -> None:
    """docs/mechanisms/f2m.md: the variance of the mean falls by up to 5, 18, 48 and 80 % at f = 0.05."""
    variance = {}
    for estimator in ("unbiased", "mle"):
        mechanism = F2M(Schema(keys=1), Fraction(epsilon), "paper", estimator)
        estimates = mechanism.estimate(large_tally(mechanism, 0.05, 0.0), population=True)
        assert estimates.mean.values[0] == pytest.approx(0, abs=1e-3)
        assert estimates.frequency.values[0] == pytest.approx(0.05, abs=1e-6)
        variance[estimator] = estimates.mean.se[0] ** 2
    assert 1 - variance["mle"] / variance["unbiased"] == pytest.approx(gain, abs=0.01)


def test_the_likeliest_estimate_has_no_neighbour_that_is_likelier() -> None:
    mechanism = one_key(estimator="mle")
    tally = tally_of(mechanism, [431, 402, 377, 290])
    estimates, seen = mechanism.estimate(tally), tally.counts[:, 0]
    assert estimates.product is not None
    f, u = estimates.frequency.values[0], estimates.product[0]

    def likelihood(frequency: float, product: float) -> float:
        shares = np.array([1 - frequency, (frequency - product) / 2, (frequency + product) / 2])
        return float(seen @ np.log(mechanism.channel.matrix() @ shares))

    for step in (1e-4, -1e-4):
        assert likelihood(f + step, u) < likelihood(f, u) > likelihood(f, u + step)


def test_nobody_asked_is_insufficient_whatever_the_estimator() -> None:
    for estimator in ("unbiased", "mle"):
        mechanism = one_key(estimator=estimator)
        row = mechanism.estimate(tally_of(mechanism, [0, 0, 0, 0])).rows()[0]
        assert (row["frequency"], row["frequency_se"], row["flag"]) == (None, None, "insufficient")
        assert (row["frequency_low"], row["frequency_high"], row["mean_low"], row["mean_high"]) == (0, 1, -1, 1)


@pytest.mark.parametrize("options", [{"split": "x"}, {"estimator": "em"}, {"default": "-1.1"}], ids=str)
def test_what_makes_no_sense_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(MechanismError) as refused:
        two_keys("f2m", **options)
    assert refused.value.code == "mechanism/option"
