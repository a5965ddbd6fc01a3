"""Values that are vectors: everybody reports one coordinate, or the product of two, with the whole ε.

To perturb each of r coordinates with its own budget would cost r times as much (erratum A11). One coordinate each costs
r times the variance instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from keyveil.core.errors import ProtocolError, RecordError
from keyveil.core.estimates import Column, Estimates
from keyveil.core.schema import GRID, Schema
from keyveil.protocols.base import History
from keyveil.protocols.merged import merged
from keyveil.protocols.one_view import OneView


@dataclass(frozen=True)
class Coordinates(OneView):
    """Values of several ``names``; ``ranges`` are their low and high ends, those of the schema where none are given.

    ``products`` are pairs of names of which the mean product is wanted, each a view of its own; the coordinates are
    taken on [-1, 1], and so is their product. A value that is no vector of finite numbers, one for each name, counts as
    absent in all views, which therefore share their frequencies.
    """

    names: Sequence[str] = ()
    ranges: Sequence[tuple[float, float]] | None = None
    products: Sequence[Sequence[str]] = ()

    name: ClassVar[str] = "coordinates"

    def validate(self) -> None:
        if not self.names or len(set(self.names)) != len(self.names):
            raise ProtocolError("protocol/option", "Coordinates need distinct names.")
        if self.ranges is not None and self.schema.levels is not None:
            raise ProtocolError("protocol/option", "Coordinates have ranges of their own, or the levels of the schema.")
        if self.ranges is not None and len(self.ranges) != len(self.names):
            raise ProtocolError("protocol/option", f"{len(self.names)} coordinates need as many ranges.")
        if any(len(pair) != 2 or not set(pair) <= set(self.names) for pair in self.products):
            raise ProtocolError("protocol/option", "A product is a pair of the coordinates' names.")
        unordered = {frozenset(pair) for pair in self.products}
        if len(unordered) < len(self.products) or len(self.views) < len(self.names) + len(self.products):
            raise ProtocolError("protocol/option", "Every product stands once, under a name that no coordinate has.")
        super().validate()

    @cached_property
    def views(self) -> dict[str, Schema]:
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

    def view_of(self, record: Mapping[str, Any], view: int) -> dict[str, float]:
        clean = self._clean(record)
        if view < len(self.names):
            return {key: vector[view] for key, (vector, _) in clean.items()}
        first, second = (list(self.names).index(name) for name in self.products[view - len(self.names)])
        return {key: grid[first] * grid[second] / GRID**2 for key, (_, grid) in clean.items()}

    def _clean(self, record: Mapping[str, Any]) -> dict[str, tuple[Sequence[float], list[int]]]:
        """The vectors that count, by key: each as it was given, and on the grid."""
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


def product_name(first: str, second: str) -> str:
    """The name of the view that is the product of two coordinates."""
    return f"{first}*{second}"


def _is_vector(value: object) -> bool:
    """Whether a value is a sequence of coordinates; text is none."""
    if isinstance(value, np.ndarray):
        return value.ndim == 1
    return isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray)
