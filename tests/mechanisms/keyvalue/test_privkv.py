from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from keyveil.core.epsilon import levels
from keyveil.core.errors import MechanismError
from keyveil.core.schema import Schema
from keyveil.mechanisms.base import Pairs
from keyveil.mechanisms.keyvalue.privkv import PrivKV
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

FORMS: list[dict[str, Any]] = [
    {},
    {"split": "paper"},
    {"fake_mean": "0.4"},
    {"fake_mean": "-1", "split": "paper"},
]


def one_key(epsilon: int = 1, **options: Any) -> PrivKV:
    return PrivKV(Schema(keys=1), Fraction(epsilon), **options)


@pytest.mark.parametrize("pairs", RECORDS, ids=str)
@pytest.mark.parametrize("options", FORMS, ids=str)
def test_counts_are_exactly_unbiased(options: dict[str, Any], pairs: Pairs) -> None:
    assert expected_estimates(two_keys("privkv", **options), pairs) == truth(pairs)


def test_vector_of_the_tight_split() -> None:
    presence, sign = one_key().truths
    assert float(presence) == pytest.approx(0.6502445909, abs=1e-10)
    assert math.log(presence / (1 - presence)) == pytest.approx(0.6201145070, abs=1e-9)
    assert float(sign) == pytest.approx(0.7310585786, abs=1e-9)


def test_the_tight_split_has_the_integer_weights_of_the_specification() -> None:
    high, low = levels(Fraction(1))
    weights = (high + low, low, low), (2 * low, high, low), (2 * low, low, high)
    total = high + 3 * low
    channel = one_key().channel
    rows = [[channel.probability(row, output) for output in range(3)] for row in range(3)]
    assert rows == [[Fraction(weight, total) for weight in row] for row in weights]


@pytest.mark.parametrize(("epsilon", "exact"), [("1", 0.71907), ("2", 1.3799)])
def test_erratum_A3_the_published_split_spends_less_than_it_says(epsilon: str, exact: float) -> None:  # noqa: N802
    """At ε₁ = ε₂ = ½ the loss is max(ε₂, ε₁ + ln 2P(ε₂)) = 0.719, and the tight split uses the whole of ε."""
    half = float(epsilon) / 2
    loss = spent(two_keys("privkv", epsilon, split="paper"))
    assert loss == pytest.approx(exact, abs=1e-4)
    assert loss == pytest.approx(max(half, half + math.log(2 * logistic(half))), abs=1e-8)
    assert spent(two_keys("privkv", epsilon)) == pytest.approx(float(epsilon), abs=1e-8)


@pytest.mark.parametrize("fake", ["0.5", "-0.5", "0.9"])
def test_a_fake_mean_costs_what_the_formula_says(fake: str) -> None:
    half, size = 0.5, abs(float(fake))
    truthful = logistic(half)
    loss = half + math.log(truthful / ((1 - (2 * truthful - 1) * size) / 2))
    assert spent(two_keys("privkv", split="paper", fake_mean=fake)) == pytest.approx(loss, abs=1e-8)
    assert spent(two_keys("privkv", fake_mean=fake)) == pytest.approx(1, abs=1e-8)


def test_an_extreme_fake_mean_costs_the_whole_sum() -> None:
    assert spent(two_keys("privkv", split="paper", fake_mean="1")) == pytest.approx(1, abs=1e-8)
    with pytest.raises(MechanismError, match="split=paper"):
        two_keys("privkv", fake_mean="1")


def test_erratum_A4_the_published_mean_is_clipped_and_divided_by_all_who_claim_the_key() -> None:  # noqa: N802
    mechanism = one_key(estimator="published")
    keep = float(2 * mechanism.truths[1] - 1)
    inside = mechanism.estimate(tally_of(mechanism, [50, 45, 55])).mean
    assert inside.values[0] == pytest.approx((55 - 45) / keep / 100)
    outside = mechanism.estimate(tally_of(mechanism, [50, 10, 90])).mean["0"]
    assert (outside.value, outside.flag) == (1, "wide")  # clipped, and its frequency is wide: that counts more
    assert math.isnan(outside.low) and math.isnan(outside.high) and math.isnan(outside.se)


@pytest.mark.parametrize("fake", ["0", "-0.5"])
def test_erratum_A5_the_published_mean_is_pulled_towards_the_fake_mean(fake: str) -> None:  # noqa: N802
    """Expected signs over expected claims are exactly the mixture of holders' and liars' means."""
    mechanism = two_keys("privkv", fake_mean=fake)
    presence, sign = mechanism.truths
    everybody = [expected_counts(mechanism, pairs)[:, 0] for pairs in ([(0, 2**16)], [], [], [])]
    _, minus, plus = sum(everybody)
    holders, liars = presence / 4, (1 - presence) * 3 / 4
    mixture = (holders + liars * Fraction(fake)) / (holders + liars)
    assert (plus - minus) / (2 * sign - 1) / (plus + minus) == mixture
    assert mixture < Fraction(2, 3)  # the true mean is one

    published = one_key(estimator="published", fake_mean=Fraction(fake))
    estimates = published.estimate(large_tally_with(published, [3, 0, 1]))
    assert estimates.mean.values[0] == pytest.approx(float(mixture), abs=1e-6)
    assert estimates.flag == ("shrunk",) and np.isnan(estimates.mean.low).all()
    assert estimates.product is not None and estimates.product[0] == pytest.approx(0.25, abs=1e-6)


def large_tally_with(mechanism: PrivKV, shares: list[int], n: int = 10**12) -> Any:
    law = mechanism.channel.matrix() @ (np.array(shares) / sum(shares))
    return tally_of(mechanism, np.rint(n * law).tolist())


@pytest.mark.parametrize("fake", ["0", "0.5"])
def test_virtual_iterations_lead_from_the_published_mean_to_the_unbiased_one(fake: str) -> None:
    unbiased = one_key(fake_mean=Fraction(fake))
    means = []
    for iterations in (1, 2, 6, 10_000):
        mechanism = replace(unbiased, estimator="iterated", iterations=iterations)
        means.append(mechanism.estimate(large_tally(mechanism, 0.2, -0.6)).mean.values[0])
    published = replace(unbiased, estimator="published")
    presence = float(unbiased.truths[0])
    liars = 0.8 * (1 - presence) / (0.2 * presence + 0.8 * (1 - presence))
    bias = [liars**c * (float(fake) + 0.6) for c in (1, 2, 6)]
    assert means[:3] == pytest.approx([-0.6 + each for each in bias], abs=1e-5)
    assert means[0] == pytest.approx(published.estimate(large_tally(published, 0.2, -0.6)).mean.values[0])
    assert means[3] == pytest.approx(unbiased.estimate(large_tally(unbiased, 0.2, -0.6)).mean.values[0], abs=1e-9)


def test_erratum_A8_a_frequency_of_zero_or_less_does_not_explode() -> None:  # noqa: N802
    """With f̂ = -0.02 the share of liars would exceed one, and its powers grow without end."""
    mechanism = one_key(estimator="iterated", split="paper", iterations=1000)
    presence = float(mechanism.truths[0])
    told = round(100_000 * (-0.02 * presence + 1.02 * (1 - presence)))
    estimates = mechanism.estimate(tally_of(mechanism, [100_000 - told, told // 2 - 200, told - told // 2 + 200]))
    assert estimates.frequency.values[0] == pytest.approx(-0.02, abs=1e-4)
    mean = estimates.mean["0"]
    assert abs(mean.value) < 10 and mean.flag == "insufficient" and math.isnan(mean.low)


def test_a_key_that_nobody_claims_has_no_published_mean() -> None:
    for estimator in ("published", "iterated"):
        mechanism = one_key(estimator=estimator)
        for counts in ([9, 0, 0], [0, 0, 0]):
            assert mechanism.estimate(tally_of(mechanism, counts)).flag == ("insufficient",)


@pytest.mark.parametrize(
    "options", [{"split": "half"}, {"estimator": "best"}, {"fake_mean": "1.5"}, {"iterations": 0}], ids=str
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(MechanismError) as refused:
        two_keys("privkv", **options)
    assert refused.value.code == "mechanism/option"
