"""Protocols that shrink by themselves, and what they would say without that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from keyveil.core.estimates import Estimates
    from keyveil.protocols.base import History


@runtime_checkable
class Unshrunk(Protocol):
    """``estimate`` draws some keys towards others; ``unshrunk`` gives the unbiased estimates of all keys.

    A comparison needs them: what shrinks by itself is compared with others that are shrunk as well, and unbiased
    estimates with unbiased ones.
    """

    def unshrunk(self, finished: History, confidence: float = 0.95, population: bool = False) -> Estimates:
        """What all finished rounds together say of every key, without looking at other keys."""
