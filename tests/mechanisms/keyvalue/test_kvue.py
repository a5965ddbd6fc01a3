from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from keyveil.core.schema import GRID, Schema
from keyveil.lab.coins import SeededCoins
from keyveil.mechanisms.base import Pairs
from keyveil.mechanisms.keyvalue.kvue import KVUE
from keyveil.testing.people import copies
from tests.mechanisms.keyvalue.exact import RECORDS, expected_estimates, spent, truth, two_keys

E = math.e


@pytest.mark.parametrize("pairs", RECORDS, ids=str)
def test_counts_are_exactly_unbiased(pairs: Pairs) -> None:
    assert expected_estimates(two_keys("kvue"), pairs) == truth(pairs)


def test_vector_of_p_and_q() -> None:
    channel = two_keys("kvue").channel
    p, q = channel.probability(1, 1), channel.probability(1, 0)
    assert (float(p), float(q)) == pytest.approx((0.5761168848, 0.2119415576), abs=1e-9)
    assert spent(two_keys("kvue")) == pytest.approx(1, abs=1e-8)


def test_erratum_B2_the_mean_is_plus_minus_minus() -> None:  # noqa: N802
    mechanism = KVUE(Schema(keys=1), Fraction(4))
    tally = mechanism.tally(mechanism.perturb_many(copies([(0, GRID)], 1000, 1), SeededCoins(3)))
    assert mechanism.estimate(tally).mean.values[0] > 0.5  # everybody holds plus; 0.5 is more than ten errors away


def test_erratum_B5_the_variance_of_a_count_has_a_second_term_and_counts_are_not_independent() -> None:  # noqa: N802
    """1000 people of whom 400 hold minus, ε = 1: Var(N₋) is 1492, not 1259; N₋ and N₊ are negatively correlated."""
    channel = two_keys("kvue").channel
    people, gain = (400, 400, 200), float(channel.probability(1, 1) - channel.probability(1, 0))  # absent, minus, plus
    covariance = np.zeros((3, 3))
    for count, row in zip(people, channel.matrix().T, strict=True):
        covariance += count * (np.diag(row) - np.outer(row, row)) / gain**2
    assert covariance[1, 1] == pytest.approx(1000 * (E + 1) / (E - 1) ** 2 + 400 / (E - 1))
    assert covariance[1, 1] == pytest.approx(1492, abs=0.5)
    printed = 1000 * (E + 1) / (E - 1) ** 2
    assert printed == pytest.approx(1259, abs=0.5)
    assert covariance[1, 2] < 0

    spread = two_keys("kvue").response.spread(np.array([0.6]), np.array([-1 / 3]), np.array([1000.0]), 0.0)
    between = 1000 * 0.6 * 0.4  # a sample of people, where spread looks at signs that were drawn once
    assert spread.frequency[0] * 1000**2 == pytest.approx(covariance[0, 0] + between)
