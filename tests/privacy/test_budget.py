from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyveil.core.errors import PrivacyError
from keyveil.privacy.budget import Budget, across_groups, in_sequence

releases = st.lists(st.fractions(min_value=Fraction(1, 1000), max_value=3), max_size=8)


@given(releases)
def test_a_budget_adds_up_exactly_and_never_passes_its_limit(epsilons: list[Fraction]) -> None:
    budget, released = Budget(Fraction(4)), Fraction(0)
    for epsilon in epsilons:
        try:
            budget = budget.spend(epsilon)
        except PrivacyError as refused:
            assert refused.code == "budget/exceeded"
            assert released + epsilon > 4
        else:
            released += epsilon
    assert budget.spent == released <= 4
    assert budget.left == 4 - released


def test_ten_tenths_are_one_and_not_a_hair_more() -> None:
    budget = Budget(Fraction(1))
    for _ in range(10):
        budget = budget.spend(Fraction(1, 10))
    with pytest.raises(PrivacyError):
        budget.spend(Fraction(1, 10**30))


def test_rounds_add_up_and_groups_do_not() -> None:
    epsilons = [Fraction(1, 2), Fraction(1, 3)]
    assert in_sequence(epsilons) == Fraction(5, 6)
    assert across_groups(epsilons) == Fraction(1, 2)
    assert in_sequence([]) == across_groups([]) == 0


def test_nothing_is_given_back() -> None:
    with pytest.raises(PrivacyError):
        Budget(Fraction(1)).spend(Fraction(0))
