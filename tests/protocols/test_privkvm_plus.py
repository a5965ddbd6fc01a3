from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from keyveil.core.epsilon import keeps
from keyveil.core.errors import ProtocolError
from keyveil.core.schema import Schema
from keyveil.lab import datasets
from keyveil.lab.simulate import simulate
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.rounds.privkvm import PrivKVRound
from keyveil.protocols.base import Finished, most_spent, part_of
from keyveil.protocols.privkvm_plus import PrivKVMPlus
from tests.protocols.hostile import epsilon, records, worst_loss
from tests.protocols.test_privkvm import FREQUENCIES, MEANS, in_expectation

ENDLESS: dict[str, Any] = {"price": Fraction(0), "floor": Fraction(1, 1000)}


def plus(total: int | str = 1, d: int = 3, **options: Any) -> PrivKVMPlus:
    return PrivKVMPlus(Schema(keys=d), Fraction(total), **options)


def moving(protocol: PrivKVMPlus) -> list[Finished]:
    """A history of so many people that nothing is an outlier and the means never come to rest."""
    d = protocol.schema.d
    return in_expectation(protocol, FREQUENCIES[:d], MEANS[:d])


# -- the budget -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("decay", "total"), [("1.5", 32), ("2", 4), ("3", 1)])
def test_ten_rounds_stay_below_epsilon(decay: str, total: int) -> None:
    protocol = plus(total, decay=Fraction(decay), **ENDLESS)
    history = moving(protocol)
    assert len(history) == 10
    paid = most_spent([one.round for one in history])
    nominal = total * (1 - (1 - 1 / float(decay)) ** 10)
    assert paid < protocol.epsilon and float(paid) <= nominal
    asked = sum(one.round.mechanism.epsilon for one in history)
    assert float(asked) == pytest.approx(nominal, abs=1e-9)


@pytest.mark.parametrize("decay", ["1.5", "2", "3"])
def test_a_hostile_collector_learns_less_than_was_asked_for(decay: str) -> None:
    """By enumeration over three rounds, with every announcement chosen as badly as can be."""
    protocol = plus(2, d=1, decay=Fraction(decay), rounds=3, **ENDLESS)
    first, *later = (one.round.mechanism for one in moving(protocol))
    forms: list[list[Mechanism]] = [[first]]
    for asked in later:
        assert isinstance(asked, PrivKVRound)
        forms.append(list(asked.announced_forms()))
    exact = worst_loss(forms, records(1))
    assert keeps(exact, protocol.epsilon)
    paid = most_spent([one.round for one in moving(protocol)])
    assert epsilon(exact) == pytest.approx(float(paid), abs=1e-9)


@dataclass(frozen=True)
class AsPrinted(PrivKVMPlus):
    """Algorithm 6, line 8: what is left is worked out from the last round alone."""

    def budget(self, spent: Sequence[Fraction]) -> Fraction:
        return part_of(self.epsilon - (spent[-1] if spent else 0), 1 / self.decay)


def test_erratum_A1_the_printed_algorithm_spends_twice_epsilon_and_is_stopped() -> None:  # noqa: N802
    """A1: with t = 2 the loss is 1.125 ε after three rounds and 2.11 ε after six."""
    printed = AsPrinted(Schema(keys=1), Fraction(1), **ENDLESS)
    budgets: list[Fraction] = []
    for _ in range(6):
        budgets.append(printed.budget(budgets))
    assert sum(budgets[:3]) == Fraction(9, 8)
    assert float(sum(budgets)) == pytest.approx(2.1094, abs=5e-5)
    forms: list[list[Mechanism]] = [
        list(PrivKVRound(printed.schema, budget, part_of(budget, Fraction(1, 2))).announced_forms())
        for budget in budgets
    ]
    assert epsilon(worst_loss(forms, records(1, (None, -65536, 65536)))) == pytest.approx(2.1094, abs=5e-5)
    with pytest.raises(ProtocolError) as refused:
        moving(printed)
    assert refused.value.code == "protocol/budget"


def test_starting_from_the_mean_zero_keeps_the_slack_of_fair_signs() -> None:
    asked = plus(1).next_round([])
    assert asked is not None
    assert float(asked.epsilon) < 0.37 < float(asked.mechanism.epsilon) == 0.5


# -- when it stops --------------------------------------------------------------------------------------------------


def test_it_stops_when_the_means_move_less_than_a_round_costs() -> None:
    quick, slow = (plus(8, price=Fraction(price)) for price in ("0.2", "0.02"))
    few, many = (in_expectation(protocol, FREQUENCIES, MEANS) for protocol in (quick, slow))
    assert len(few) < len(many) < 10
    for protocol, history in ((quick, few), (slow, many)):
        assert protocol.moved(history) <= protocol.price
        assert all(protocol.moved(history[:done]) > protocol.price for done in range(1, len(history)))


def test_it_stops_when_hardly_anything_is_left() -> None:
    protocol = plus(1, price=Fraction(0), floor=Fraction(1, 10))
    asked = [float(one.round.mechanism.epsilon) for one in moving(protocol)]
    assert asked == [0.5, 0.25, 0.125]


def test_it_stops_after_the_last_round() -> None:
    assert len(moving(plus(4, rounds=2, price=Fraction(0)))) == 2


@pytest.mark.parametrize(
    "options", [{"decay": Fraction(1)}, {"price": Fraction(-1)}, {"rounds": 0}, {"floor": Fraction(0)}]
)
def test_senseless_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError) as refused:
        plus(**options)
    assert refused.value.code == "protocol/option"


# -- estimates ------------------------------------------------------------------------------------------------------


def test_the_unbiased_estimator_is_exact_on_expected_counts() -> None:
    protocol = plus(2, price=Fraction(0), rounds=4)
    estimates = protocol.estimate(in_expectation(protocol, FREQUENCIES, MEANS))
    np.testing.assert_allclose(estimates.frequency.values, FREQUENCIES, atol=1e-6)
    np.testing.assert_allclose(estimates.mean.values, MEANS, atol=1e-5)


def test_every_round_adds_to_what_is_known() -> None:
    people = datasets.independent(5000, FREQUENCIES, MEANS, 4)
    result = simulate(plus(4, price=Fraction(0), rounds=4), people, seed=5)
    errors = np.array([one.frequency.se for one in result.rounds])
    assert (np.diff(errors, axis=0) < 0).all()
    assert result.spent == result.paid(4) < 4 and result.paid(1) < result.paid(2)
