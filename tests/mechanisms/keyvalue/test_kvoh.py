from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats

from keyveil.core.errors import MechanismError
from keyveil.core.schema import Schema
from keyveil.mechanisms.base import Pairs
from keyveil.mechanisms.keyvalue.kvoh import KVOH
from tests.mechanisms.keyvalue.exact import RECORDS, expected_estimates, logistic, spent, truth, two_keys

FORMS: list[dict[str, Any]] = [
    {"bits": bits, "constrained": constrained}
    for bits, constrained in product(("symmetric", "optimised"), (True, False))
]


@pytest.mark.parametrize("pairs", RECORDS, ids=str)
@pytest.mark.parametrize("options", FORMS, ids=str)
def test_counts_are_exactly_unbiased(options: dict[str, Any], pairs: Pairs) -> None:
    assert expected_estimates(two_keys("kvoh", **options), pairs) == truth(pairs)


@pytest.mark.parametrize("bits", ["symmetric", "optimised"])
@pytest.mark.parametrize("epsilon", ["0.5", "2"])
def test_both_kinds_of_bits_spend_exactly_epsilon(bits: str, epsilon: str) -> None:
    assert spent(two_keys("kvoh", epsilon, bits=bits)) == pytest.approx(float(epsilon), abs=1e-8)


def test_the_constraint_cuts_the_variance_of_frequencies_to_a_third() -> None:
    """From 2w to 2w/3 per report, with w = e^{ε/2} / (e^{ε/2} - 1)²; means of counts stay as they were."""
    root = math.exp(0.5)
    w = root / (root - 1) ** 2
    variances = {}
    for constrained in (False, True):
        response = KVOH(Schema(keys=1), Fraction(1), constrained=constrained).response
        variances[constrained] = response.spread(np.array([0.3]), np.array([0.5]), np.array([1.0]), 1.0)
    assert variances[False].frequency[0] == pytest.approx(2 * w)
    assert variances[True].frequency[0] == pytest.approx(2 * w / 3)
    assert variances[True].product[0] == pytest.approx(variances[False].product[0])


def test_erratum_B6_the_tail_of_a_count_takes_the_factor_and_not_its_inverse() -> None:  # noqa: N802
    """|N̂ - N| ≤ (e^{ε/2}+1)/(e^{ε/2}-1)·√(M·ln(2/δ)/2) with probability 1 - δ, exactly computed for M = 200 people.

    With the inverse factor, as printed, the bound fails; and √(M/2)·ln(2/δ), as printed, is another number.
    """
    mechanism, people = KVOH(Schema(keys=1), Fraction(1)), 200
    false_bit, true_bit = (float(mechanism.bit.probability(state, 1)) for state in (0, 1))
    gain = true_bit - false_bit
    assert gain == pytest.approx(math.tanh(0.25))

    def beyond(radius: float) -> float:
        counts = np.arange(people + 1)
        far = np.abs((counts - people * false_bit) / gain) > radius
        return float(stats.binom.pmf(counts, people, false_bit)[far].sum())

    for delta in (0.001, 0.01, 0.1, 0.5):
        right = math.sqrt(people * math.log(2 / delta) / 2)
        assert beyond(right / gain) <= delta
        assert beyond(right * gain) > delta
        assert math.sqrt(people / 2) * math.log(2 / delta) > 1.1 * right  # not wrong, but wider than it need be


def test_erratum_B8_a_report_has_three_bits_beside_the_key() -> None:  # noqa: N802
    assert two_keys("kvoh").bits_per_report == 3


def test_bits_stand_for_minus_absent_and_plus() -> None:
    channel = KVOH(Schema(keys=1), Fraction(1)).channel
    for row, output in ((0, 0b010), (1, 0b001), (2, 0b100)):  # absent, minus, plus
        assert max(channel.weights[row]) == channel.weights[row][output]
        assert float(channel.probability(row, output)) == pytest.approx(logistic(0.5) ** 3, abs=1e-9)


def test_unknown_bits_are_refused() -> None:
    with pytest.raises(MechanismError) as refused:
        two_keys("kvoh", bits="three")
    assert refused.value.code == "mechanism/option"
