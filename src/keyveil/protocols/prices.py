"""Protocols whose rounds have a price, so that a simulation can say after which of them it was best to stop."""

from __future__ import annotations

from fractions import Fraction
from typing import Protocol, runtime_checkable

from keyveil.mechanisms.responses import Floats
from keyveil.protocols.base import History


@runtime_checkable
class PricedRounds(Protocol):
    """Every round costs the same, in the units of the error of a mean on [-1, 1]."""

    def round_price(self) -> Fraction:
        """What a round must be worth."""

    def announced_means(self, finished: History) -> Floats:
        """The mean of every key on [-1, 1] that the protocol announces after these rounds."""
