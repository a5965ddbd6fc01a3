"""What rounds tell the protocol that they belong to, as ``capabilities`` are what mechanisms tell everybody."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from fractions import Fraction

    from keyveil.core.tally import Tally
    from keyveil.mechanisms.evidence import Observed
    from keyveil.mechanisms.overflow.undercount import Surplus
    from keyveil.mechanisms.responses import Floats
    from keyveil.mechanisms.size_law import SizeLaw


@runtime_checkable
class ReadTogether(Protocol):
    """The counts of several rounds are read as one."""

    def observed(self, tally: Tally) -> Observed:
        """Counts per key, and the law that they have."""


@runtime_checkable
class MixedMeans(Protocol):
    """People without a key make its value up."""

    def mixed_means(self, tally: Tally) -> Floats:
        """The mean of every key on [-1, 1], made-up values included."""


@runtime_checkable
class PresenceAndSign(ReadTogether, MixedMeans, Protocol):
    """A report says whether a key is held, and gives the sign of its value."""

    @property
    def truths(self) -> tuple[Fraction, Fraction]:
        """How often presence and sign are told as they are."""


@runtime_checkable
class TellsSizes(Protocol):
    """Reports are about how many pairs people hold."""

    def law(self, tally: Tally) -> SizeLaw:
        """The shares of the people by the number of their pairs."""

    def surplus(self, tally: Tally, cap: int) -> Surplus | None:
        """How far people exceed a cap; nothing if the answers do not tell it."""
