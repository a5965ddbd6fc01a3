"""Adding up what the same person has released, exactly.

Rounds that one person answers add up (whatever a hostile collector broadcasts between them, provided each round's
epsilon is its worst case); groups of different people do not: each person pays for their own group only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from keyveil.core.epsilon import decimal_text
from keyveil.core.errors import PrivacyError


def in_sequence(epsilons: Iterable[Fraction]) -> Fraction:
    """What one person spends who answers every round."""
    return sum(epsilons, Fraction(0))


def across_groups(epsilons: Iterable[Fraction]) -> Fraction:
    """What one person spends at most when everyone belongs to one of several disjoint groups."""
    return max(epsilons, default=Fraction(0))


@dataclass(frozen=True)
class Budget:
    """A limit on epsilon and what has been spent of it. Nothing is ever given back."""

    limit: Fraction
    spent: Fraction = Fraction(0)

    @property
    def left(self) -> Fraction:
        return self.limit - self.spent

    def spend(self, epsilon: Fraction) -> Budget:
        """The budget after a release; refused before anything is drawn if it does not fit."""
        if epsilon <= 0:
            raise PrivacyError("budget/invalid", "A release costs more than nothing.")
        if epsilon > self.left:
            raise PrivacyError(
                "budget/exceeded",
                f"A release of epsilon {decimal_text(epsilon)} does not fit: {decimal_text(self.left)} "
                f"of {decimal_text(self.limit)} is left.",
            )
        return Budget(self.limit, self.spent + epsilon)
