"""KVUE: randomised response on the state of one key (Sun et al. 2019).

The answer is absent, minus or plus, or with ``bins`` absent or a cell of the value's range. Hard to beat for
frequencies near one half at small ε; for sparse sets the set responses are better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from keyveil.core.errors import MechanismError
from keyveil.core.histogram import Histogram
from keyveil.core.tally import Tally
from keyveil.mechanisms.capabilities import Cells, Histograms, need
from keyveil.mechanisms.encoders import Labels
from keyveil.mechanisms.families.one_key import OneState
from keyveil.mechanisms.families.set_response import Odds
from keyveil.mechanisms.responses import support_counts


@dataclass(frozen=True)
class KVUE(OneState):
    """The true state of one key with weight e^ε, each other one with weight 1."""

    bins: int | None = None

    name: ClassVar[str] = "kvue"
    examples: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"bins": 4})

    def validate(self) -> None:
        if self.bins is not None and not 2 <= self.bins <= 256:
            raise MechanismError("mechanism/option", f"kvue takes from 2 to 256 bins, not {self.bins}.")

    @property
    def labels(self) -> Labels:
        return Labels(self.bins)

    @property
    def signs(self) -> Sequence[int] | None:
        return (0, -1, 1) if self.labels.signed else None

    @property
    def title(self) -> str:
        return self.name if self.bins is None else f"{self.name} with bins"

    @property
    def lacks(self) -> frozenset[type]:
        return super().lacks | (frozenset({Histograms, Cells}) if self.bins is None else frozenset())

    def cell_odds(self) -> Sequence[Odds]:
        """One state is told, so never two cells."""
        own, other = (self.channel.probability(state, 1) for state in (1, 0))
        return (Odds(own, other, Fraction(0), Fraction(0)),) * self.schema.d

    def histogram(self, tally: Tally, population: bool = False) -> Histogram:
        need(self, Histograms, "estimate/no-histogram")
        counts = self._own(tally)
        cell = support_counts(self.channel.probability(1, 1), self.channel.probability(0, 1))
        return cell.histogram(self.schema, tally.reports, counts.sum(axis=0), counts[1:].T, population)
