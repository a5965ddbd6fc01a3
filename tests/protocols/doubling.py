"""A protocol whose second round announces how many times ε its reports spend; with and without a declaration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

from keyveil.core.channels import Ratio, Table
from keyveil.core.epsilon import levels
from keyveil.core.estimates import Estimates
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.keyvalue.kvue import KVUE
from keyveil.mechanisms.registry import create
from keyveil.protocols.base import History, Protocol, Round, in_parts


@dataclass(frozen=True)
class Multiplied(KVUE):
    """KVUE that spends ``times`` the ε that it was made for, and whose closed form says so."""

    times: int = 1

    name: ClassVar[str] = "multiplied"

    @cached_property
    def channel(self) -> Table:
        (high, low), states = levels(self.times * self.epsilon), range(3)
        return Table(tuple(tuple(high if output == state else low for output in states) for state in states))


@dataclass(frozen=True)
class Declared(Multiplied):
    """The same, declaring that ``times`` may be announced as 1 or 2."""

    name: ClassVar[str] = "declared-multiplied"

    def announced(self) -> frozenset[str]:
        return frozenset({"times"})

    def announced_forms(self) -> Sequence[Mechanism]:
        return [replace(self, times=times) for times in (1, 2)]

    def announced_ratio(self) -> Ratio:
        return self.worst_announced().ratio

    def worst_announced(self) -> Mechanism:
        return replace(self, times=2)


@dataclass(frozen=True)
class Understated(Declared):
    """Declares the announcement, but not what it costs."""

    name: ClassVar[str] = "understated-multiplied"

    def announced_ratio(self) -> Ratio:
        return replace(self, times=1).ratio


@dataclass(frozen=True)
class Doubling(Protocol):
    """A first group answers KVUE; if anybody has, the rest spend twice ε."""

    kind: ClassVar[type[Multiplied]] = Multiplied
    name: ClassVar[str] = "doubling"

    def plan(self, finished: History) -> Round | None:
        first, rest = in_parts(Fraction(1, 2), Fraction(1, 2))
        match len(finished):
            case 0:
                return Round(1, create("kvue", self.schema, self.epsilon), first)
            case 1:
                times = 2 if finished[0].tally.reports else 1
                return Round(2, self.kind(self.schema, self.epsilon, times=times), rest)
        return None

    def estimate(self, finished: History, confidence: float = 0.95, population: bool = False) -> Estimates:
        return finished[-1].estimates(confidence, population)


@dataclass(frozen=True)
class DeclaredDoubling(Doubling):
    """The same, with a mechanism that declares it."""

    kind: ClassVar[type[Multiplied]] = Declared
    name: ClassVar[str] = "declared-doubling"


@dataclass(frozen=True)
class UnderstatedDoubling(Doubling):
    """The same, with a mechanism that declares it and understates its cost."""

    kind: ClassVar[type[Multiplied]] = Understated
    name: ClassVar[str] = "understated-doubling"
