"""Records with several sides: each person's public word chooses one of them, and the whole ε is spent on it.

``Coordinates`` is for values that are vectors: perturbing each of r coordinates with its own budget would cost r times
as much (erratum A11), so everybody reports one, at r times the variance. ``Levels`` is for keys that form a hierarchy:
everybody reports at one level of it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

from keyveil.core.dimensions import SEPARATOR, prefix, prefixes
from keyveil.core.errors import ProtocolError, RecordError
from keyveil.core.estimates import Column, Estimates
from keyveil.core.schema import Schema
from keyveil.mechanisms.registry import create
from keyveil.protocols.base import History, Protocol, Round, in_parts
from keyveil.protocols.merged import merged


@dataclass(frozen=True)
class Facets(Protocol):
    """One round a side, with disjoint parts of the people; ``options`` are those of ``mechanism``."""

    mechanism: str = "ssr"
    options: Mapping[str, Any] = field(default_factory=dict)

    announces: ClassVar[bool] = False

    @property
    @abstractmethod
    def sides(self) -> Mapping[str, Schema]:
        """The sides by name, each with its own schema."""

    @abstractmethod
    def seen(self, record: Mapping[str, Any], side: int) -> dict[str, float]:
        """What a device hands to the mechanism of a side."""

    def validate(self) -> None:
        for schema in self.sides.values():
            create(self.mechanism, schema, self.epsilon, **self.options)

    def plan(self, finished: History) -> Round | None:
        side = len(finished)
        if side == len(self.sides):
            return None
        schema = list(self.sides.values())[side]
        part = in_parts(*[Fraction(1)] * len(self.sides))[side]
        return Round(side + 1, create(self.mechanism, schema, self.epsilon, **self.options), part)

    def answers(self, finished: History, confidence: float = 0.95, population: bool = False) -> dict[str, Estimates]:
        """The estimates of every side that has answered."""
        asked = (one.estimates(confidence, population) for one in finished)
        return dict(zip(self.sides, asked, strict=False))


@dataclass(frozen=True)
class Coordinates(Facets):
    """Values of several ``names``; ``ranges`` are their low and high ends, those of the schema where none are given."""

    names: Sequence[str] = ()
    ranges: Sequence[tuple[float, float]] | None = None

    name: ClassVar[str] = "coordinates"

    def validate(self) -> None:
        if not self.names or len(set(self.names)) != len(self.names):
            raise ProtocolError("protocol/option", "Coordinates need distinct names.")
        if self.ranges is not None and len(self.ranges) != len(self.names):
            raise ProtocolError("protocol/option", f"{len(self.names)} coordinates need as many ranges.")
        super().validate()

    @cached_property
    def sides(self) -> dict[str, Schema]:
        if self.ranges is None:
            return dict.fromkeys(self.names, self.schema)
        keys = self.schema.keys
        return {name: Schema(keys, low, high) for name, (low, high) in zip(self.names, self.ranges, strict=True)}

    def seen(self, record: Mapping[str, Any], side: int) -> dict[str, float]:
        for values in record.values():
            if not isinstance(values, Sequence) or len(values) != len(self.names):
                raise RecordError("record/coordinates", f"Every value needs {len(self.names)} coordinates.")
        return {key: values[side] for key, values in record.items()}

    def estimate(self, finished: History, confidence: float = 0.95, population: bool = False) -> Estimates:
        """Frequencies, which all coordinates share; each coordinate has means of its own, in ``answers``."""
        together = merged(finished, self.name, self.epsilon, confidence, population)
        unknown = Column.unknown(self.schema, "Every coordinate has means of its own: ask for answers.", scaled=True)
        return replace(together, schema=self.schema, mean=unknown, product=None, product_se=None, covariance=None)


@dataclass(frozen=True)
class Levels(Facets):
    """Keys like "food/fruit/apple", reported at one of their ``depths``."""

    depths: Sequence[int] = (1, 2)

    name: ClassVar[str] = "levels"

    def validate(self) -> None:
        deepest = max(key.count(SEPARATOR) + 1 for key in self.schema.keys)
        if not self.depths or any(not 1 <= depth <= deepest for depth in self.depths):
            raise ProtocolError("protocol/option", f"These keys have the levels 1 to {deepest} only.")
        super().validate()

    @cached_property
    def sides(self) -> dict[str, Schema]:
        low, high = self.schema.low, self.schema.high
        if isinstance(low, tuple) or isinstance(high, tuple):
            raise ProtocolError("protocol/option", "Keys of a hierarchy need one range for all of them.")
        return {str(depth): Schema(prefixes(self.schema.keys, depth), low, high) for depth in self.depths}

    def seen(self, record: Mapping[str, Any], side: int) -> dict[str, float]:
        """The record cut to a level; a key that several pairs fall on gets the mean of their values."""
        groups: dict[str, list[float]] = {}
        for key, value in record.items():
            groups.setdefault(prefix(key, self.depths[side]), []).append(value)
        return {key: sum(values) / len(values) for key, values in groups.items()}

    def estimate(self, finished: History, confidence: float = 0.95, population: bool = False) -> Estimates:
        """The estimates of the last level that has answered; the others are in ``answers``."""
        if not finished:
            raise ProtocolError("protocol/nothing", "No level has sent a report yet.")
        return finished[-1].estimates(confidence, population)
