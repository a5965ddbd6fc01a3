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
    expected_counts,
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
    """Expected signs are (2P(ε₂) - 1)·v; dividing by the factor of ε itself would halve every mean."""
    mechanism = two_keys("f2m", split="paper")
    counts = expected_counts(mechanism, [(0, 2**16)])[:, 0]
    signed = float(sum(counts[1::2] - counts[::2]) / sum(counts))
    assert signed / (2 * logistic(0.5) - 1) == pytest.approx(1, abs=1e-8)
    assert signed / (2 * logistic(1) - 1) == pytest.approx(0.53, abs=0.01)


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
