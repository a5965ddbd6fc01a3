"""Protocols in which everybody reports one view of their record, and spends the whole ε on it.

A view is a coordinate of vector values (``Coordinates``) or a level of a hierarchy of keys (``Levels``). The public
word of a person chooses it.

A record is cleaned whole before a view is taken of it, by the rules of ``Schema.read``: a pair counts in all views or
in none, and every record has an answer in every view.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

from keyveil.core.estimates import Estimates
from keyveil.core.schema import Schema
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.registry import create
from keyveil.protocols.base import History, Protocol, Round, in_parts


@dataclass(frozen=True)
class OneView(Protocol):
    """One round a view, for equal parts of the people; ``options`` are those of ``mechanism``."""

    mechanism: str = "kvue"
    options: Mapping[str, Any] = field(default_factory=dict)

    announces: ClassVar[bool] = False

    @property
    @abstractmethod
    def views(self) -> Mapping[str, Schema]:
        """The schema of every view, by the view's name; round number k is about view k - 1."""

    @abstractmethod
    def view_of(self, record: Mapping[str, Any], view: int) -> dict[str, float]:
        """What a device hands to the mechanism of a view, given by its place in ``views``: values by key."""

    def validate(self) -> None:
        for schema in self.views.values():
            self._mechanism(schema)

    def _mechanism(self, schema: Schema) -> Mechanism:
        return create(self.mechanism, schema, self.epsilon, **self.options)

    def plan(self, finished: History) -> Round | None:
        view, count = len(finished), len(self.views)
        if view == count:
            return None
        part = in_parts(*[Fraction(1)] * count)[view]
        return Round(view + 1, self._mechanism(list(self.views.values())[view]), part)

    def answers(self, finished: History, confidence: float = 0.95, population: bool = False) -> dict[str, Estimates]:
        """The estimates of every view whose round is finished, by the view's name."""
        rounds = (one.estimates(confidence, population) for one in finished)
        return dict(zip(self.views, rounds, strict=False))
