"""Exact epsilon of the numeric mechanisms, by enumeration and by closed form; erratum F1."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import pytest

from keyveil.core.codecs.symbols import BitVector
from keyveil.core.coins import Coins
from keyveil.core.epsilon import keeps, log_ceiling
from keyveil.core.report import Payload
from keyveil.core.schema import Schema
from keyveil.mechanisms.base import Pairs
from keyveil.mechanisms.encoders import is_positive
from keyveil.mechanisms.numeric.mean_est import MeanEst
from keyveil.privacy.certify import enumerate_worst
from tests.mechanisms.numeric.crowd import EPSILONS, NAMES, numeric


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("keys", [1, 2, 8, 9])
def test_epsilon_is_kept_and_used_up(name: str, epsilon: str, keys: int) -> None:
    mechanism = numeric(name, epsilon, keys)
    certificate = mechanism.certificate()
    enumerated = log_ceiling(certificate.worst.ratio)
    assert certificate.certified
    assert Fraction(epsilon) - Fraction(1, 10**6) < Fraction(certificate.exact_epsilon) <= Fraction(epsilon)
    assert Fraction(epsilon) - Fraction(1, 10**6) < Fraction(enumerated) <= Fraction(epsilon)
    assert mechanism.ratio == certificate.worst.ratio  # the closed form is tight


@pytest.mark.parametrize("keys", [1, 2, 3, 4])
def test_mean_est_needs_no_reduction_up_to_four_keys(keys: int) -> None:
    assert numeric("mean-est", "1", keys).certificate().method == "enumeration"


@dataclass(frozen=True)
class PublishedTies(MeanEst):
    """MeanEst as printed: a vector that agrees with exactly half of the signs lies in both half-spaces."""

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        d, signs = self.schema.d, [is_positive(value, coins) for _, value in pairs]
        near = coins.chance(self.channel.high, self.channel.high + self.channel.low)
        side = [2 * agreed >= d if near else 2 * agreed <= d for agreed in range(d + 1)]
        count = coins.choose([math.comb(d, agreed) * inside for agreed, inside in enumerate(side)])
        agreed = set(coins.subset(count, d))
        return BitVector.pack([int(sign == (key in agreed)) for key, sign in enumerate(signs)])


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("keys", [2, 4])
def test_erratum_F1_published_ties_spend_more_than_asked_for_even_d(epsilon: str, keys: int) -> None:  # noqa: N802
    published = PublishedTies(Schema(keys=keys), Fraction(epsilon))
    worst = enumerate_worst(published)
    assert worst.ratio == 1 + Fraction(published.channel.high, published.channel.low)  # ln(1 + e^ε), exactly
    assert not keeps(worst.ratio, published.epsilon)


def test_erratum_F1_at_epsilon_one_is_1_313() -> None:  # noqa: N802
    worst = enumerate_worst(PublishedTies(Schema(keys=4), Fraction(1)))
    assert float(log_ceiling(worst.ratio)) == pytest.approx(1.313, abs=5e-4)


def test_erratum_F1_does_not_concern_odd_d() -> None:  # noqa: N802
    assert keeps(enumerate_worst(PublishedTies(Schema(keys=3), Fraction(1))).ratio, Fraction(1))
