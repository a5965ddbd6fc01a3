"""A protocol of somebody else that declares more than its budget: devices must hold it to ε by their own books."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from keyveil.mechanisms.rounds.privkvm import PrivKVRound
from keyveil.protocols.base import EVERYONE, History, Part, Round
from keyveil.protocols.privkvm import PrivKVM

NEARLY_EVERYBODY = Part(Fraction(0), Fraction(2**32 - 1, 2**32))


@dataclass(frozen=True)
class Overdrawn(PrivKVM):
    """All rounds have the price ``each``, but the first has no more than ε; people may be ``parted`` by their seat."""

    each: Fraction = Fraction(9, 10)
    parted: bool = False

    name: ClassVar[str] = "overdrawn"

    def plan(self, finished: History) -> Round | None:
        number = len(finished) + 1
        if number > self.rounds:
            return None
        if not finished:
            price = min(self.each, self.epsilon)
            return Round(1, PrivKVRound(self.schema, price, key_epsilon=price))
        return Round(number, PrivKVRound(self.schema, self.each), NEARLY_EVERYBODY if self.parted else EVERYONE)
