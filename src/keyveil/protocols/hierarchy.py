"""Keys that form a hierarchy, such as "food/fruit/apple": everybody reports at one level of it, with the whole ε."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

from keyveil.core.dimensions import SEPARATOR, prefix, prefixes
from keyveil.core.errors import ProtocolError
from keyveil.core.estimates import Estimates
from keyveil.core.schema import GRID, Schema
from keyveil.protocols.base import History
from keyveil.protocols.one_view import OneView


@dataclass(frozen=True)
class Levels(OneView):
    """Keys like "food/fruit/apple", reported at one of their ``depths``."""

    depths: Sequence[int] = (1, 2)

    name: ClassVar[str] = "levels"

    def validate(self) -> None:
        deepest = max(key.count(SEPARATOR) + 1 for key in self.schema.keys)
        if not self.depths or any(not 1 <= depth <= deepest for depth in self.depths):
            raise ProtocolError("protocol/option", f"These keys have the levels 1 to {deepest} only.")
        if len(set(self.depths)) != len(self.depths):
            raise ProtocolError("protocol/option", "Every level of a hierarchy stands once.")
        super().validate()

    @cached_property
    def views(self) -> dict[str, Schema]:
        low, high, scale = self.schema.low, self.schema.high, self.schema.map
        if isinstance(low, tuple) or isinstance(high, tuple) or isinstance(scale, tuple):
            raise ProtocolError("protocol/option", "Keys of a hierarchy need one range for all of them.")
        return {str(depth): self._view(prefixes(self.schema.keys, depth), low, high, scale) for depth in self.depths}

    def _view(self, keys: Sequence[str], low: Fraction, high: Fraction, scale: str) -> Schema:
        """Levels stay where no two keys fall together; a mean of several levels is no level."""
        levels = self.schema.levels if len(keys) == self.schema.d else None
        return Schema(keys, low, high, scale, levels=levels)

    def view_of(self, record: Mapping[str, Any], view: int) -> dict[str, float]:
        """The record cut to a level; a key that several pairs fall on gets the mean of their values, on [-1, 1]."""
        groups: dict[str, list[int]] = {}
        for place, value in self.schema.read(record):
            groups.setdefault(prefix(self.schema.keys[place], self.depths[view]), []).append(value)
        means = [sum(values) / len(values) / GRID for values in groups.values()]
        return dict(zip(groups, self.views[str(self.depths[view])].from_unit(means).tolist(), strict=True))

    def estimate(self, finished: History, confidence: float = 0.95, population: bool = False) -> Estimates:
        """The estimates of the last level that has answered; the others are in ``answers``."""
        if not finished:
            raise ProtocolError("protocol/nothing", "No level has sent a report yet.")
        return finished[-1].estimates(confidence, population)
