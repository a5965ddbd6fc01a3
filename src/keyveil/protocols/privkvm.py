"""PrivKVM: PrivKV again and again, so that made-up values come closer to the true mean (Ye et al. 2019).

Half of ε goes to the keys in the first round, the other half to the values, in equal parts over all rounds. For rare
keys the bias hardly moves, 1 - f a round, while the noise of every round grows: one round with all of ε and a closed
form is better (``kvue``, or ``privkv``). Kept as the baseline of its field. Derivation: docs/protocols.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from keyveil.core.errors import ProtocolError
from keyveil.mechanisms.rounds.privkvm import PrivKVRound, broadcast
from keyveil.protocols.base import History, Round, cost_of, part_of, refuse_tiny_rounds
from keyveil.protocols.privkv_rounds import Iterated


@dataclass(frozen=True)
class PrivKVM(Iterated):
    """``rounds`` rounds with the published allocation; only the first asks about keys.

    The total costs ε₁₁ + ln 2P(ε₂₁) + ε₂₂ + … ≤ ε, whatever is announced. It protects presence too, but ε₁₁ alone does
    not: later signs depend on who holds a key (errata A9).
    """

    rounds: int = 6

    name: ClassVar[str] = "privkvm"

    def validate(self) -> None:
        super().validate()
        if not 1 <= self.rounds <= 100:
            raise ProtocolError("protocol/option", f"{self.name} takes from 1 to 100 rounds, not {self.rounds}.")
        refuse_tiny_rounds(self, Fraction(1, 2 * self.rounds))

    def plan(self, finished: History) -> Round | None:
        number = len(finished) + 1
        if number > self.rounds:
            return None
        value = part_of(self.epsilon, Fraction(1, 2 * self.rounds))
        if number == 1:
            key = part_of(self.epsilon, Fraction(1, 2))
            first = PrivKVRound(self.schema, key + value, key)
            return Round(number, first, cost=cost_of(first.ratio))  # signs are fair: nothing was announced yet
        later = PrivKVRound(self.schema, value, fake=broadcast(self.means(finished)))
        return Round(number, later, cost=cost_of(later.announced_ratio()))
