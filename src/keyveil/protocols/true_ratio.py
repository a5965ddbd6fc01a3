"""Protocols that know what their rounds tell of one person together, where that is less than the rounds apart."""

from __future__ import annotations

from fractions import Fraction
from typing import Protocol, runtime_checkable


@runtime_checkable
class TrueRatio(Protocol):
    """The exact loss of all rounds together is known in closed form."""

    def true_ratio(self) -> Fraction:
        """The largest ratio of the probabilities of all reports of one person."""
