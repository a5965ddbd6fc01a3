"""Trade-offs: how the error of the best mechanisms falls with epsilon and people, and grows with keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from keyveil.core.errors import KeyveilError
from keyveil.planning.plan import Plan
from keyveil.planning.wanted import EPSILONS

TIMES = (0.1, 0.3, 1.0, 3.0, 10.0, 100.0)  # the people that were planned for
KEY_TIMES = (0.25, 0.5, 1.0, 2.0, 4.0)
LINES = 4  # mechanisms of a curve

Again = Callable[..., Plan]


@dataclass(frozen=True)
class Curve:
    """Errors of mechanisms over what changes: ``axis`` is epsilon, people or keys; unknown errors are ``None``."""

    axis: str
    places: tuple[float, ...]
    errors: dict[str, tuple[float | None, ...]]
    here: float

    def document(self) -> dict[str, Any]:
        return {"axis": self.axis, "places": self.places, "errors": self.errors, "here": self.here}


def curves(found: Plan, again: Again) -> list[Curve]:
    """How errors depend on epsilon, on people and, for people that are not a sample, on keys."""
    people = found.people
    drawn = [
        _curve("epsilon", [(float(one), {"epsilon": one}) for one in EPSILONS], float(found.epsilon), found, again),
        _curve("people", [(n, {"n": n}) for n in _times(people.n, TIMES)], people.n, found, again),
    ]
    if people.sample is None:
        counts = [d for d in _times(people.d, KEY_TIMES) if d >= people.pairs]
        drawn.append(_curve("keys", [(d, {"keys": d}) for d in counts], people.d, found, again))
    return drawn


def _times(number: int, factors: tuple[float, ...]) -> list[int]:
    return sorted({max(round(number * factor), 1) for factor in factors})


def _curve(axis: str, places: list[tuple[float, dict[str, Any]]], here: float, found: Plan, again: Again) -> Curve:
    names = [line.name for line in found.lines[:LINES]]
    errors: dict[str, list[float | None]] = {name: [] for name in names}
    for _, change in places:
        try:
            known = {line.name: line.error for line in again(mechanisms=names, **change).lines}
        except KeyveilError:  # no mechanism is possible there, such as a block wider than there are keys
            known = {}
        for name in names:
            errors[name].append(known.get(name))
    return Curve(axis, tuple(place for place, _ in places), {name: tuple(one) for name, one in errors.items()}, here)
