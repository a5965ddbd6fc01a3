"""TopSel in two rounds, for dense sets: a pilot finds the middle, and the rest answer about where they differ from it.

The pilot is a share of the people, never of the budget, so everybody spends the whole ε once. After it the planner
compares a projected round with a second round of the pilot's kind, and asks whatever promises least error for
frequencies and means together. Derivation and figures: docs/protocols-groups.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from keyveil.core.errors import ProtocolError
from keyveil.core.estimates import Estimates
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.families.cover import SizeLaw
from keyveil.mechanisms.keyvalue.topsel import TopSel
from keyveil.protocols.base import History, Protocol, Round, in_parts
from keyveil.protocols.merged import merged
from keyveil.protocols.second_round import PilotBeliefs, project_risks, projections, topsel_risks

MODES = ("auto", "project", "cover", "direct")


@dataclass(frozen=True)
class TopSelProject(Protocol):
    """``share`` of the people are the pilot: 1/20 is enough where there are more than half a million.

    ``set_sizes`` and ``padding`` are TopSel's; without them the pilot asks about one key each. ``mode`` forces the
    second round to be of one kind; by default the planner chooses.
    """

    share: Fraction = Fraction(1, 10)
    set_sizes: str | None = None
    padding: int = 0
    mode: str = "auto"
    rows: int = 64

    name: ClassVar[str] = "topsel-project"
    finds_out: ClassVar[frozenset[str]] = frozenset({"set_sizes"})

    def validate(self) -> None:
        if not 0 < self.share < 1:
            raise _refused(f"topsel-project takes a share of the people between 0 and 1, not {self.share}.")
        if self.mode not in MODES or (self.mode == "cover" and self.cover is None):
            raise _refused("topsel-project takes mode=auto|project|direct, and cover with a law of set sizes.")
        if not 2 <= self.rows <= 256:
            raise _refused(f"topsel-project takes from 2 to 256 rows, not {self.rows}.")
        self.pilot()

    @cached_property
    def direct(self) -> TopSel:
        return TopSel(self.schema, self.epsilon, mode="direct")

    @cached_property
    def cover(self) -> TopSel | None:
        if self.set_sizes is None and not self.padding:
            return None
        return TopSel(self.schema, self.epsilon, set_sizes=self.set_sizes, padding=self.padding)

    def pilot(self) -> TopSel:
        """Cover or direct, whichever tells frequencies better."""
        if self.cover is None:
            return self.direct
        frequency = float(SizeLaw.read(self.cover.set_sizes).mean) / self.schema.d
        likely = np.array([min(max(frequency, 1e-6), 1.0)])
        cover, direct = (
            float(one.response.spread(likely, np.zeros(1), np.ones(1), 0.0).frequency[0])
            for one in (self.cover, self.direct)
        )
        return self.direct if direct * self.schema.d < cover else self.cover  # every d-th person is asked about a key

    def plan(self, finished: History) -> Round | None:
        first, rest = in_parts(self.share, 1 - self.share)
        match len(finished):
            case 0:
                return Round(1, self.pilot(), first)
            case 1:
                return Round(2, self.second(finished[0].heard().estimates(population=True)), rest)
        return None

    def longest(self) -> list[Round]:
        """As if half of the people held every key, and the second round were a projected one unless told otherwise."""
        first, rest = in_parts(self.share, 1 - self.share)
        d = self.schema.d
        plain = {"cover": self.cover, "direct": self.direct}.get(self.mode)
        even = PilotBeliefs(np.full(d, 0.5), np.zeros(d), np.zeros(d), np.zeros(d))
        projected = projections(self.schema, self.epsilon, even, self.rows)[0]
        return [Round(1, self.pilot(), first), Round(2, plain or projected, rest)]

    def second(self, pilot: Estimates) -> Mechanism:
        """The round that promises least error, given what the pilot found."""
        if self.mode == "cover" and self.cover is not None:
            return self.cover
        if self.mode == "direct":
            return self.direct
        beliefs, n = PilotBeliefs.of(pilot), max(pilot.n, 1) * float((1 - self.share) / self.share)
        plain = [one for one in (self.direct, self.cover) if one is not None]
        rivals = [topsel_risks(one, beliefs, n) for one in plain]
        ranked: list[tuple[float, Mechanism]] = [
            (project_risks(one, beliefs, n).score(rivals), one)
            for one in projections(self.schema, self.epsilon, beliefs, self.rows)
        ]
        if self.mode == "auto":
            ranked += [(risks.score(rivals), one) for risks, one in zip(rivals, plain, strict=True)]
        return min(ranked, key=lambda entry: entry[0])[1]

    def estimate(self, finished: History, confidence: float = 0.95, population: bool = False) -> Estimates:
        return merged(finished, self, confidence, population)


def _refused(sentence: str) -> ProtocolError:
    return ProtocolError("protocol/option", sentence)
