"""``auto``: a mechanism for people and a goal, resolved to a concrete one with all its options.

This module is light: a device that makes a mechanism by name loads nothing of the planner.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from keyveil.core.epsilon import Number
from keyveil.core.errors import PlanError
from keyveil.core.schema import Schema
from keyveil.mechanisms import registry

if TYPE_CHECKING:
    from keyveil.mechanisms.base import Mechanism
    from keyveil.protocols.base import Protocol

AUTO = "auto"
KNOWN = (
    *("users", "pairs", "sample", "sizes", "frequency", "mean", "typical"),
    *("goal", "bits", "rounds", "mechanisms", "postprocess"),
)
"""What ``auto`` may be told of the people and of what is wanted (``kv.plan``)."""


_PLANNED = re.compile(r"Planned for ([0-9,]{1,20}) people .*?with ([0-9.e+-]{1,12}) pairs on average")
"""How the people of a plan are told at the end of a reason (``people.about``)."""


def planned_for(reason: str) -> tuple[int, float] | None:
    """For how many people, and how many pairs of each, a mechanism was chosen, as its reason says; if it does."""
    found = _PLANNED.search(reason)
    if found is None:
        return None
    try:
        return int(found[1].replace(",", "")), float(found[2])
    except ValueError:  # somebody wrote the reason by hand
        return None


class Resolved(NamedTuple):
    """What ``auto`` stands for, and why."""

    mechanism: Mechanism | Protocol
    reason: str
    settings: dict[str, Any]

    @property
    def options(self) -> dict[str, Any]:
        """The options that are set, as they stand in documents."""
        return {name: value for name, value in self.settings.items() if value is not None}


def make(name: str, schema: Schema, epsilon: Number, **options: Any) -> Mechanism | Any:
    if name != AUTO:
        return registry.make(name, schema, epsilon, **options)
    return resolve(schema, epsilon, **options).mechanism


_OF_AUTO = """    The name "auto" stands for the mechanism of least predicted error. It takes what
    ``kv.plan`` takes of people and goal: users and pairs (or sizes, or a sample), typical, goal, bits, rounds,
    and the names of the mechanisms to choose from.

    Examples
"""
make.__doc__ = (registry.make.__doc__ or "").replace("    Examples\n", _OF_AUTO, 1)


def resolve(schema: Schema, epsilon: Number, **told: Any) -> Resolved:
    """The best mechanism for what is told of the people, with the reason in words."""
    for option in told:
        if option not in KNOWN:
            raise PlanError(
                "plan/auto",
                f"auto chooses options itself, so it takes no {option!r}: tell it {', '.join(KNOWN)}, or name a "
                "mechanism.",
            )
    from keyveil.planning.ask import plan  # only who asks for a plan needs it

    found = plan(schema=schema, epsilon=epsilon, **told)
    goal = ",".join(one.name for one in found.goals)
    read = "" if told.get("postprocess") is None else f" after {told['postprocess']}"
    why = found.best.why if found.note is None else f"{found.best.why} {found.note}"
    reason = f"{found.best.name} for the goal {goal}{read}, {why} Planned for {found.people.about}"
    return Resolved(found.mechanism, reason, found.best.options)
