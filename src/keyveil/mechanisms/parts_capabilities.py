"""What mechanisms side by side can tell: nearly everything that one of the parts can tell, the whole can tell."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from keyveil.core.errors import MechanismError
from keyveil.core.tally import Tally
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import (
    Capability,
    Capped,
    Cells,
    ContingencyTables,
    Histograms,
    JointStatistics,
    Parted,
    PredictedVariance,
    ReportEffects,
    TallyLaw,
    Windows,
    can,
    keys_together,
    need,
)
from keyveil.mechanisms.effects import Average, JointEffects
from keyveil.mechanisms.families.key_value import KeyValue
from keyveil.mechanisms.merging import Floats, merge_spreads
from keyveil.mechanisms.tally_laws import crowd_law, declared_law, normal_limit

if TYPE_CHECKING:
    from keyveil.core.histogram import Histogram
    from keyveil.mechanisms.families.set_response import Odds
    from keyveil.mechanisms.families.window import WindowCounts
    from keyveil.mechanisms.joint.cells import KeyTables
    from keyveil.mechanisms.joint.statistics import JointAnswers, Statistic
    from keyveil.mechanisms.responses import Spread

_FROM_A_PART: tuple[type, ...] = (Capped, Histograms, Cells, Windows, JointStatistics, ContingencyTables)
"""Capabilities that the whole has if one of the parts has them."""


class CapabilitiesOfParts(KeyValue):
    """The capabilities of mechanisms for the same keys, each with a share of the people."""

    @property
    @abstractmethod
    def parts(self) -> tuple[Mechanism, ...]:
        """What the people of each part answer, each with the whole ε."""

    @property
    @abstractmethod
    def shares(self) -> tuple[Fraction, ...]:
        """How many of the people belong to each part, relative to each other."""

    @abstractmethod
    def part_tally(self, tally: Tally, number: int) -> Tally:
        """The tally of one part, as if its people were the only ones."""

    @cached_property
    def lacks(self) -> frozenset[type]:
        parts = self.parts
        lacking: set[type] = {one for one in _FROM_A_PART if not any(can(part, one) for part in parts)}
        counted = (part for part in parts if "frequency" in part.estimated)
        if not all(keys_together(part) for part in counted):
            lacking.add(Parted)
        if not all(can(part, PredictedVariance) for part in parts):
            lacking.add(PredictedVariance)
        if not all(can(part, ReportEffects) for part in parts):
            lacking.add(ReportEffects)
        if not all(declared_law(part) for part in parts):
            lacking.add(TallyLaw)
        return frozenset(lacking)

    def rows_of(self, payloads: Any, number: int) -> Any:
        """The payloads of one part among those of all."""
        return payloads.rows[number]

    def limit_known(self) -> bool:
        """Whether every part has a law or a limit for people by type, and one of them only a limit."""
        limits = [normal_limit(part) is not None for part in self.parts if crowd_law(part) is None]
        return bool(limits) and all(limits)

    def cap(self) -> int:
        """The smallest cap: what is cut in one part is missing from the merged answer."""
        return min(capped.cap() for part in self.parts if (capped := can(part, Capped)))

    def histogram(self, tally: Tally, population: bool = False) -> Histogram:
        number, part = self._who(Histograms if Cells in self.lacks else Cells)
        return part.histogram(self.part_tally(tally, number), population)

    def cell_odds(self) -> Sequence[Odds]:
        return self._who(Cells)[1].cell_odds()

    def window_counts(self, tally: Tally) -> WindowCounts:
        number, part = self._who(Windows)
        return part.window_counts(self.part_tally(tally, number))

    def answer_jointly(
        self, tally: Tally, keys: NDArray[np.int64], statistics: Sequence[Statistic], population: bool = False
    ) -> JointAnswers:
        number, part = self._who(JointStatistics)
        return part.answer_jointly(self.part_tally(tally, number), keys, statistics, population)

    def joint_effects(self, tally: Tally, keys: NDArray[np.int64], statistic: Statistic) -> Sequence[Average] | None:
        number, part = self._who(JointStatistics)
        own = self.part_tally(tally, number)
        return part.joint_effects(own, keys, statistic) if isinstance(part, JointEffects) else None

    def contingency_tables(self, tally: Tally) -> KeyTables:
        number, part = self._who(ContingencyTables)
        return part.contingency_tables(self.part_tally(tally, number))

    def _who(self, capability: type[Capability]) -> tuple[int, Capability]:
        """The first part that has a capability."""
        for number, part in enumerate(self.parts):
            found = can(part, capability)
            if found is not None:
                return number, found
        raise MechanismError("mechanism/capability", f"No part of this {self.name} can tell that.")

    def predicted_spread(
        self, frequency: Floats, mean: Floats, sizes: Floats, n: int, population: bool = False
    ) -> Spread:
        total = sum(self.shares, Fraction(0))
        people = [max(round(n * share / total), 1) for share in self.shares]
        fixed, sampled = (
            [
                need(part, PredictedVariance).predicted_spread(frequency, mean, sizes, count, whole)
                for part, count in zip(self.parts, people, strict=True)
            ]
            for whole in (False, True)
        )
        return merge_spreads(fixed, sampled, np.array(people, dtype=np.float64), population)
