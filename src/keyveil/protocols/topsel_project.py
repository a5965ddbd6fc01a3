"""TopSel in two rounds, for dense sets: a pilot finds the middle, and the rest answer about where they differ from it.

The pilot is a share of the people, never of the budget, so everybody spends the whole ε once. Most of it tell of keys,
the others how large their values are and how many pairs they hold. Then the planner compares projected rounds with
plain ones, and takes the one of least predicted error for frequencies and means together. Derivation and figures:
docs/protocols-groups.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from keyveil.core.errors import ProtocolError
from keyveil.core.estimates import Estimates
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import PredictedVariance, need
from keyveil.mechanisms.registry import create
from keyveil.mechanisms.rounds.topsel_pilot import TopSelPilot
from keyveil.mechanisms.size_law import SizeLaw
from keyveil.protocols.base import Finished, History, Protocol, Round, in_parts
from keyveil.protocols.merged import merged
from keyveil.protocols.second_round import PilotBeliefs, projections, risks

MODES = ("auto", "project", "cover", "direct")
CLASSES = 2
"""The mean set size, in widths of a class of sizes, from which on rounds are projected. The radius of vectors follows
from sizes, and where most people fall into the lowest class, these are known to within a multiple: of 400 keys of which
everybody holds one, 13 were believed, and 0.77 of the intervals held the truth (docs/protocols-groups.md)."""


@dataclass(frozen=True)
class TopSelProject(Protocol):
    """``share`` of the people are the pilot: 1/20 is enough where there are more than half a million.

    ``set_sizes`` and ``padding`` are TopSel's; without them each report of the pilot is about one key, and without the
    law of set sizes a quarter of the pilot tell it. ``mode`` forces the second round to be of one kind; by default the
    planner chooses.
    """

    share: Fraction = Fraction(1, 10)
    set_sizes: str | None = None
    padding: int | None = None
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
    def direct(self) -> Mechanism:
        """A round about one key each."""
        return create("topsel", self.schema, self.epsilon, mode="direct")

    @cached_property
    def cover(self) -> Mechanism | None:
        """A round about whole sets, if their sizes are known."""
        if self.set_sizes is None and not self.padding:
            return None
        return create("topsel", self.schema, self.epsilon, set_sizes=self.set_sizes, padding=self.padding)

    def pilot(self) -> TopSelPilot:
        """The first round: a plain one for most of the people, and questions about their sets for the others."""
        return TopSelPilot(self.schema, self.epsilon, self.plain_pilot().options, asks_sizes=self.set_sizes is None)

    def plain_pilot(self) -> Mechanism:
        """The round of cover and direct that tells frequencies better, at the mean frequency of the law of sizes."""
        if self.cover is None:
            return self.direct
        d, law = self.schema.d, SizeLaw.read(self.cover.options["set_sizes"])
        likely = np.full(d, min(max(law.mean / d, 1e-6), 1.0))

        def variance(mechanism: Mechanism) -> float:
            errors = need(mechanism, PredictedVariance)
            return float(errors.predicted_spread(likely, np.zeros(d), law.by_size, n=d, population=True).frequency[0])

        return self.direct if variance(self.direct) < variance(self.cover) else self.cover

    def plan(self, finished: History) -> Round | None:
        first, rest = in_parts(self.share, 1 - self.share)
        match len(finished):
            case 0:
                return Round(1, self.pilot(), first)
            case 1:
                return Round(2, self.second(finished[0].answered()), rest)
        return None

    def longest(self) -> list[Round]:
        """As if half of the people held every key, and the second round were a projected one unless told otherwise."""
        first, rest = in_parts(self.share, 1 - self.share)
        return [Round(1, self.pilot(), first), Round(2, self.kinds(2)[0], rest)]

    def kinds(self, number: int) -> list[Mechanism]:
        """The second round is projected, or of a plain kind; ``mode`` may leave one of them only."""
        if number == 1:
            return [self.pilot()]
        plain = {name: one for name, one in (("direct", self.direct), ("cover", self.cover)) if one is not None}
        if self.mode in plain:
            return [plain[self.mode]]
        even = PilotBeliefs.even(self.schema.d)
        projected = next(projections(self.schema, self.epsilon, even, 1, self.rows))
        return [projected, *(plain.values() if self.mode == "auto" else ())]

    def second(self, pilot: Finished) -> Mechanism:
        """The round of least predicted error, given what the pilot found."""
        if self.mode in ("cover", "direct"):
            return self.kinds(2)[0]
        groups = pilot.seen_as(TopSelPilot)
        keys = Finished(replace(pilot.round, mechanism=groups.parts[0]), groups.part_tally(pilot.tally, 0)).answered()
        law = groups.law(pilot.tally) if self.set_sizes is None else SizeLaw.read(self.set_sizes)
        beliefs = PilotBeliefs.of(keys.estimates(population=True), groups.energy(pilot.tally), law)
        n = round(pilot.tally.reports * (1 - self.share) / self.share)
        plain = [one for one in (self.direct, self.cover) if one is not None]
        rivals = [risks(one, beliefs, n) for one in plain]
        planned: list[Mechanism] = list(plain) if self.mode == "auto" else []
        if not planned or groups.width == 1 or beliefs.law.mean >= CLASSES * groups.width:
            planned += projections(self.schema, self.epsilon, beliefs, n, self.rows)
        return min(planned, key=lambda one: risks(one, beliefs, n).score(rivals))

    def estimate(self, finished: History, confidence: float = 0.95, population: bool = False) -> Estimates:
        return merged(finished, self, confidence, population)


def _refused(sentence: str) -> ProtocolError:
    return ProtocolError("protocol/option", sentence)
