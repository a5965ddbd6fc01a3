from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyveil.core.epsilon import (
    decimal_text,
    exact_entries,
    exp_floor,
    float_ceiling,
    keeps,
    levels,
    lie_threshold,
    log_ceiling,
    parse_epsilon,
    realised,
    tightest,
)
from keyveil.core.errors import EpsilonError, PrivacyError

epsilons = st.fractions(min_value=Fraction(1, 1000), max_value=32, max_denominator=10**6)


def test_a_float_means_its_shortest_decimal() -> None:
    assert parse_epsilon(0.1) == parse_epsilon("0.1") == parse_epsilon(Decimal("0.1")) == Fraction(1, 10)


@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf"), "one", "", None, True, 33, 1e-9, "1/3"])
def test_what_is_not_a_sensible_epsilon_is_refused_in_one_sentence(bad: object) -> None:
    with pytest.raises(EpsilonError) as refused:
        parse_epsilon(bad)  # type: ignore[arg-type]
    assert refused.value.code.startswith("epsilon/")
    assert refused.value.sentence.endswith(".") and "\n" not in refused.value.sentence


@given(epsilons)
def test_exp_is_rounded_down_and_by_little(epsilon: Fraction) -> None:
    coarse, fine = exp_floor(epsilon), exp_floor(epsilon, 256)
    assert coarse <= fine  # more bits only come closer to e^epsilon from below
    assert fine - coarse <= Fraction(1, 2**63)
    assert math.isclose(float(fine), math.exp(float(epsilon)), rel_tol=1e-12)


@given(epsilons)
def test_realised_levels_never_spend_more_than_asked_and_hardly_less(epsilon: Fraction) -> None:
    high, low = levels(epsilon)
    assert keeps(Fraction(high, low), epsilon)
    assert not keeps(Fraction(high + 1, low), epsilon)  # the next integer would be too much
    assert Fraction(log_ceiling(Fraction(high, low))) <= epsilon


@given(epsilons)
def test_lying_a_little_less_would_break_the_promise(epsilon: Fraction) -> None:
    lie, whole = lie_threshold(epsilon), 2**32
    assert keeps(Fraction(whole - lie, lie), epsilon)
    assert lie == 1 or not keeps(Fraction(whole - lie + 1, lie - 1), epsilon)


def test_vector_of_the_lie_threshold() -> None:
    assert lie_threshold(Fraction(1)) == 1155094610


@given(st.fractions(min_value=1, max_value=10**9))
def test_logarithms_are_rounded_up(ratio: Fraction) -> None:
    assert math.isclose(float(log_ceiling(ratio)), math.log(float(ratio)), rel_tol=1e-9, abs_tol=1e-9)
    if ratio > 1:
        assert exp_floor(Fraction(log_ceiling(ratio)), 256) >= ratio * (1 - Fraction(1, 2**80))
        assert not keeps(ratio, Fraction(log_ceiling(ratio)) * (1 - Fraction(1, 10**28)))


def test_an_unbounded_ratio_has_no_epsilon() -> None:
    assert log_ceiling(math.inf) == Decimal("Infinity")
    assert not keeps(math.inf, Fraction(32))
    with pytest.raises(PrivacyError):
        log_ceiling(Fraction(1, 2))


def test_floats_are_rounded_up_too() -> None:
    just_below = Decimal("0.1") - Decimal(10) ** -25
    assert float_ceiling(just_below) == 0.1
    assert Decimal(float_ceiling(Decimal("0.3"))) >= Decimal("0.3")


decimals = st.decimals(min_value="0.001", max_value=32, places=6).map(Fraction)


@given(decimals, st.integers(min_value=0, max_value=300))
def test_a_realised_epsilon_is_told_as_a_decimal_that_compares_with_the_request(epsilon: Fraction, bits: int) -> None:
    """However close below e^ε a ratio lies: 2^-300 is far beyond the thirty digits of a logarithm."""
    ratio = max(exp_floor(epsilon, 256) * (1 - Fraction(1, 2**bits)), Fraction(1))
    told = exact_entries(realised(ratio, epsilon))
    exact = Decimal(told["exact_epsilon_decimal"])

    assert keeps(ratio, epsilon) and Fraction(exact) <= epsilon
    assert keeps(ratio, Fraction(exact)) or exact == 0  # not below the true one
    assert Decimal(told["exact_epsilon"]) >= exact


@given(decimals)
def test_a_ratio_beyond_the_request_is_told_beyond_it(epsilon: Fraction) -> None:
    ratio = exp_floor(epsilon, 256) * (1 + Fraction(1, 10**20))
    assert Fraction(realised(ratio, epsilon)) > epsilon


def test_the_float_of_a_request_is_rounded_up_and_its_decimal_is_not() -> None:
    assert exact_entries(Fraction("0.3")) == {
        "exact_epsilon": 0.30000000000000004,
        "exact_epsilon_decimal": "0.3",
    }
    assert exact_entries(Decimal("Infinity")) == {"exact_epsilon": None, "exact_epsilon_decimal": None}


def test_fractions_are_written_as_decimals_where_they_are() -> None:
    assert [decimal_text(Fraction(x)) for x in ("1/10", "3", "-5/4", "1/3")] == ["0.1", "3", "-1.25", "1/3"]


@given(epsilons)
def test_a_threshold_can_be_searched_for(epsilon: Fraction) -> None:
    whole = 2**32
    assert tightest(lambda lie: Fraction(whole - lie, lie), epsilon, 1, whole // 2) == lie_threshold(epsilon)


def test_a_search_that_finds_nothing_says_so() -> None:
    with pytest.raises(PrivacyError):
        tightest(lambda lie: Fraction(100), Fraction(1), 1, 8)
