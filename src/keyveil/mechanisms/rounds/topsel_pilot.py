"""The pilot of ``topsel-project``: three groups side by side, parted by the public bytes of their reports.

The first answers ``topsel``, which tells where the middle of everybody is. A quarter of the people tell how large their
values are, and a quarter how many pairs they hold, unless that is public: these two say how far from the middle people
are. Everybody spends the whole ε on the one question of their group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

from keyveil.core.errors import ProtocolError
from keyveil.core.tally import Tally
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.construction import construct
from keyveil.mechanisms.registry import find_mechanism
from keyveil.mechanisms.rounds.energy import Energy, EnergyQuestion
from keyveil.mechanisms.rounds.set_size import SizeClasses
from keyveil.mechanisms.side_by_side import SideBySide
from keyveil.mechanisms.size_law import SizeLaw

QUESTION = Fraction(1, 4)  # of the pilot's people, for each question about sets as a whole


@dataclass(frozen=True)
class TopSelPilot(SideBySide):
    """``topsel`` has the options of that mechanism; with ``asks_sizes`` a quarter of the people tell set sizes."""

    topsel: Mapping[str, Any] = field(default_factory=lambda: {"mode": "direct"})
    asks_sizes: bool = True

    name: ClassVar[str] = "topsel-pilot"

    def __hash__(self) -> int:  # options are a mapping
        return hash(self.fingerprint)

    def validate(self) -> None:
        if not isinstance(self.topsel, Mapping):
            raise ProtocolError("protocol/broadcast", f"{self.name} takes the options of topsel, not {self.topsel!r}.")
        object.__setattr__(self, "topsel", self.parts[0].options)  # the one spelling of them
        super().validate()

    @cached_property
    def parts(self) -> tuple[Mechanism, ...]:
        keys = construct("topsel", find_mechanism("topsel"), self.schema, self.epsilon, self.topsel)
        sets: list[Mechanism] = [EnergyQuestion(self.schema, self.epsilon)]
        if self.asks_sizes:
            sets.append(SizeClasses(self.schema, self.epsilon))
        return (keys, *sets)

    @property
    def shares(self) -> tuple[Fraction, ...]:
        asked = len(self.parts) - 1
        return (1 - asked * QUESTION, *[QUESTION] * asked)

    def reduced(self) -> Self:
        small = self.parts[0].reduced()
        return replace(self, schema=small.schema, topsel=small.options)

    # -- what the groups tell the protocol ------------------------------------------------------------------------

    def energy(self, tally: Tally) -> Energy | None:
        """How large values are, and how much people differ in it; None if nobody was asked."""
        own = self.part_tally(tally, 1)
        question = self.parts[1]
        assert isinstance(question, EnergyQuestion)
        return question.energy(own) if own.reports else None

    @property
    def width(self) -> int:
        """How many set sizes an answer stands for; 1 where the law is public."""
        question = self.parts[-1]
        return question.width if isinstance(question, SizeClasses) else 1

    def law(self, tally: Tally) -> SizeLaw | None:
        """The law of set sizes; None if nobody was asked."""
        if not self.asks_sizes:
            return None
        own, question = self.part_tally(tally, 2), self.parts[2]
        assert isinstance(question, SizeClasses)
        return question.law(own) if own.reports else None
