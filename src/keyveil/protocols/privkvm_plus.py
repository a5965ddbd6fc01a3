"""PrivKVM+: rounds of PrivKV until another one is not worth its price (Ye et al. 2019).

Every round spends the same share of what is left, so there is always something left for another one; the collector
stops when the means move less than a round costs. As printed, the algorithm forgets all rounds but the last when it
works out what is left, and spends more than twice ε in six rounds (errata A1); here the remainder is a running one.
Derivation: docs/protocols.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from keyveil.core.errors import ProtocolError
from keyveil.mechanisms.rounds.privkvm import PrivKVRound, broadcast
from keyveil.protocols.base import History, Round, cost_of, part_of, refuse_tiny_rounds
from keyveil.protocols.privkv_rounds import PRICE, Iterated

MOST_ROUNDS = 100


@dataclass(frozen=True)
class PrivKVMPlus(Iterated):
    """A round spends 1/``decay`` of what is left, half on the key and half on the value.

    It is the last one when the means moved by at most ``price`` on average, when ``rounds`` are done, or when the next
    would have less than ``floor`` to spend. The announced mean starts at 0, not at the published 1: a fair
    sign costs less than ε.
    """

    decay: Fraction = Fraction(2)
    price: Fraction = PRICE
    rounds: int = 10
    floor: Fraction = Fraction(1, 100)

    name: ClassVar[str] = "privkvm-plus"

    def validate(self) -> None:
        super().validate()
        if self.decay <= 1:
            raise ProtocolError("protocol/option", f"{self.name} needs a decay above 1, not {self.decay}.")
        if self.price < 0:
            raise ProtocolError("protocol/option", f"A round cannot have the price {self.price}.")
        if not 1 <= self.rounds <= MOST_ROUNDS:
            raise ProtocolError(
                "protocol/option", f"{self.name} takes from 1 to {MOST_ROUNDS} rounds, not {self.rounds}."
            )
        if self.floor < Fraction(1, 1000):
            raise ProtocolError("protocol/option", f"A round needs at least 0.001 of epsilon, not {self.floor}.")
        refuse_tiny_rounds(self, 1 / self.decay)

    def plan(self, finished: History) -> Round | None:
        number = len(finished) + 1
        budget = self.budget([one.round.mechanism.epsilon for one in finished])
        if number > self.rounds or (finished and (budget < self.floor or self.moved(finished) <= self.price)):
            return None
        fake = broadcast(self.means(finished)) if finished else ()
        following = PrivKVRound(self.schema, budget, part_of(budget, Fraction(1, 2)), fake)
        return Round(number, following, cost=cost_of(following.announced_ratio() if finished else following.ratio))

    def longest(self) -> list[Round]:
        """As if the means never came to rest."""
        course: list[PrivKVRound] = []
        while len(course) < self.rounds:
            budget = self.budget([one.epsilon for one in course])
            if course and budget < self.floor:
                break
            course.append(PrivKVRound(self.schema, budget, part_of(budget, Fraction(1, 2))))
        costs = [cost_of(one.announced_ratio() if number else one.ratio) for number, one in enumerate(course)]
        return [Round(at + 1, one, cost=cost) for at, (one, cost) in enumerate(zip(course, costs, strict=True))]

    def budget(self, spent: Sequence[Fraction]) -> Fraction:
        """What the round after these may spend: a share of all that is left."""
        return part_of(self.epsilon - sum(spent, Fraction(0)), 1 / self.decay)

    def round_price(self) -> Fraction:
        return self.price

    def moved(self, finished: History) -> float:
        """By how much the last round changed the means, on average over keys."""
        return float(np.mean(np.abs(self.means(finished) - self.means(finished[:-1]))))
