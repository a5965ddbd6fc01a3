"""Records with several sides: each person's public word chooses one of them, and the whole ε is spent on it.

``Coordinates`` is for values that are vectors: perturbing each of r coordinates with its own budget would cost r times
as much (erratum A11), so everybody reports one, or the product of two, at so many times the variance. ``Levels`` is for
keys that form a hierarchy: everybody reports at one level of it.

A record is cleaned before it is cut to a side, by the rules of ``Schema.read``, and all of it whatever side is asked
for: a pair counts on all sides or on none, and every record has an answer.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from keyveil.core.dimensions import SEPARATOR, prefix, prefixes
from keyveil.core.errors import ProtocolError, RecordError
from keyveil.core.estimates import Column, Estimates
from keyveil.core.schema import GRID, Schema
from keyveil.mechanisms.registry import create
from keyveil.protocols.base import History, Protocol, Round, in_parts
from keyveil.protocols.merged import merged


@dataclass(frozen=True)
class Facets(Protocol):
    """One round a side, with disjoint parts of the people; ``options`` are those of ``mechanism``."""

    mechanism: str = "kvue"
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
    """Values of several ``names``; ``ranges`` are their low and high ends, those of the schema where none are given.

    ``products`` are pairs of names of which the mean product is wanted, each a side of its own; the coordinates are
    taken on [-1, 1], and so is their product. A value that is no vector of finite numbers, one for each name, counts as
    absent on all sides, which therefore share their frequencies.
    """

    names: Sequence[str] = ()
    ranges: Sequence[tuple[float, float]] | None = None
    products: Sequence[Sequence[str]] = ()

    name: ClassVar[str] = "coordinates"

    def validate(self) -> None:
        if not self.names or len(set(self.names)) != len(self.names):
            raise ProtocolError("protocol/option", "Coordinates need distinct names.")
        if self.ranges is not None and len(self.ranges) != len(self.names):
            raise ProtocolError("protocol/option", f"{len(self.names)} coordinates need as many ranges.")
        if any(len(pair) != 2 or not set(pair) <= set(self.names) for pair in self.products):
            raise ProtocolError("protocol/option", "A product is a pair of the coordinates' names.")
        unordered = {frozenset(pair) for pair in self.products}
        if len(unordered) < len(self.products) or len(self.sides) < len(self.names) + len(self.products):
            raise ProtocolError("protocol/option", "Every product is asked for once, in a name that no side has.")
        super().validate()

    @cached_property
    def sides(self) -> dict[str, Schema]:
        products = Schema(self.schema.keys, other=self.schema.other)
        return self.scales | {product_name(*pair): products for pair in self.products}

    @cached_property
    def scales(self) -> dict[str, Schema]:
        """The schema of every coordinate."""
        if self.ranges is None:
            return dict.fromkeys(self.names, self.schema)
        keys, other = self.schema.keys, self.schema.other
        ends = zip(self.names, self.ranges, strict=True)
        return {name: Schema(keys, low, high, other=other) for name, (low, high) in ends}

    def seen(self, record: Mapping[str, Any], side: int) -> dict[str, float]:
        clean = self._clean(record)
        if side < len(self.names):
            return {key: vector[side] for key, (vector, _) in clean.items()}
        first, second = (list(self.names).index(name) for name in self.products[side - len(self.names)])
        return {key: grid[first] * grid[second] / GRID**2 for key, (_, grid) in clean.items()}

    def _clean(self, record: Mapping[str, Any]) -> dict[str, tuple[Sequence[float], list[int]]]:
        """By key the vectors that count, as they were given and on the grid."""
        if not isinstance(record, Mapping):
            raise RecordError("record/type", f"A record maps keys to vectors; this is a {type(record).__name__}.")
        clean: dict[str, tuple[Sequence[float], list[int]]] = {}
        for given, vector in record.items():
            if not _is_vector(vector) or len(vector) != len(self.names):
                continue
            pairs = [scale.read({given: part}) for scale, part in zip(self.scales.values(), vector, strict=True)]
            if all(pairs):  # otherwise the key is unknown, or a coordinate is no finite number
                key = self.schema.keys[pairs[0][0][0]]
                clean[key] = vector, [value for [(_, value)] in pairs]
        return clean

    def product(
        self, finished: History, first: str, second: str, confidence: float = 0.95, population: bool = False
    ) -> Column:
        """The mean of the product of two coordinates for every key, both on [-1, 1]."""
        answers = self.answers(finished, confidence, population)
        for name in (product_name(first, second), product_name(second, first)):
            if name in answers:
                return answers[name].mean
        raise ProtocolError("protocol/nothing", f"Nobody has answered about the product of {first} and {second}.")

    def estimate(self, finished: History, confidence: float = 0.95, population: bool = False) -> Estimates:
        """Frequencies, which all coordinates share; each coordinate has means of its own, in ``answers``."""
        together = merged(finished, self, confidence, population)
        unknown = Column.unknown(self.schema, "Every coordinate has means of its own: ask for answers.", scaled=True)
        return replace(
            together,
            header=replace(together.header, schema=self.schema),
            mean=unknown,
            product=None,
            product_se=None,
            covariance=None,
        )


@dataclass(frozen=True)
class Levels(Facets):
    """Keys like "food/fruit/apple", reported at one of their ``depths``."""

    depths: Sequence[int] = (1, 2)

    name: ClassVar[str] = "levels"

    def validate(self) -> None:
        deepest = max(key.count(SEPARATOR) + 1 for key in self.schema.keys)
        if not self.depths or any(not 1 <= depth <= deepest for depth in self.depths):
            raise ProtocolError("protocol/option", f"These keys have the levels 1 to {deepest} only.")
        if len(set(self.depths)) != len(self.depths):
            raise ProtocolError("protocol/option", "Every level of a hierarchy is asked for once.")
        super().validate()

    @cached_property
    def sides(self) -> dict[str, Schema]:
        low, high, scale = self.schema.low, self.schema.high, self.schema.map
        if isinstance(low, tuple) or isinstance(high, tuple) or isinstance(scale, tuple):
            raise ProtocolError("protocol/option", "Keys of a hierarchy need one range for all of them.")
        return {str(depth): Schema(prefixes(self.schema.keys, depth), low, high, scale) for depth in self.depths}

    def seen(self, record: Mapping[str, Any], side: int) -> dict[str, float]:
        """The record cut to a level; a key that several pairs fall on gets the mean of their values, on [-1, 1]."""
        groups: dict[str, list[int]] = {}
        for place, value in self.schema.read(record):
            groups.setdefault(prefix(self.schema.keys[place], self.depths[side]), []).append(value)
        means = [sum(values) / len(values) / GRID for values in groups.values()]
        return dict(zip(groups, self.sides[str(self.depths[side])].from_unit(means).tolist(), strict=True))

    def estimate(self, finished: History, confidence: float = 0.95, population: bool = False) -> Estimates:
        """The estimates of the last level that has answered; the others are in ``answers``."""
        if not finished:
            raise ProtocolError("protocol/nothing", "No level has sent a report yet.")
        return finished[-1].estimates(confidence, population)


def product_name(first: str, second: str) -> str:
    """The side on which the product of two coordinates is asked for."""
    return f"{first}*{second}"


def _is_vector(value: object) -> bool:
    """Whether a value has coordinates; text has letters."""
    if isinstance(value, np.ndarray):
        return value.ndim == 1
    return isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray)
