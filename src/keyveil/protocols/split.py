"""Split: people go to disjoint groups, and each group spends the whole ε on the mechanism that answers its question.

No single report answers everything: ``ssr`` gives frequencies and means, ``kv-sw`` distributions, ``moments``
conditionals. Which group a person belongs to follows from public randomness. What several groups estimate is merged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

from keyveil.core.errors import ProtocolError
from keyveil.core.estimates import Estimates
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.registry import create, find_mechanism
from keyveil.protocols.assignments import assignments
from keyveil.protocols.base import Finished, History, Part, Protocol, Round, in_parts
from keyveil.protocols.merged import merged

Options = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Split(Protocol):
    """``groups`` are mechanisms with shares of the people, such as "ssr:0.5,kv-sw:0.5".

    ``options`` belong to single groups: a mapping of mappings, or text such as "ssr.max_pairs=3;kv-sw.cells=64".
    ``max_pairs`` is the cap of every group that needs one and has none of its own.
    """

    groups: str = "ssr:1,kv-sw:1"
    options: Options | str = field(default_factory=dict)
    max_pairs: int | None = None

    name: ClassVar[str] = "split"
    examples: ClassVar[tuple[dict[str, Any], ...]] = ({"max_pairs": 2}, {"groups": "ssr,moments", "max_pairs": 2})
    announces: ClassVar[bool] = False

    def validate(self) -> None:
        object.__setattr__(self, "options", _read_options(self.options))
        strangers = set(self.options) - set(self.shares)
        if strangers:
            raise ProtocolError("protocol/option", f"split has no group {min(strangers)!r} to give options to.")
        for name in self.shares:
            self.mechanism(name)

    @cached_property
    def shares(self) -> dict[str, Fraction]:
        """The relative share of the people in each group, in order."""
        return _read_shares(self.groups)

    def mechanism(self, group: str) -> Mechanism:
        """What the people of one group answer, with the whole ε."""
        assert isinstance(self.options, Mapping)
        own = dict(self.options.get(group, {}))
        if self.max_pairs is not None and "max_pairs" in {option.name for option in fields(find_mechanism(group))}:
            own.setdefault("max_pairs", self.max_pairs)
        return create(group, self.schema, self.epsilon, **own)

    def part(self, group: str) -> Part:
        """Who belongs to a group."""
        return in_parts(*self.shares.values())[list(self.shares).index(group)]

    def plan(self, finished: History) -> Round | None:
        names = list(self.shares)
        if len(finished) == len(names):
            return None
        group = names[len(finished)]
        return Round(len(finished) + 1, self.mechanism(group), self.part(group))

    def group(self, finished: History, name: str) -> Finished:
        """The reports of one group, for the questions that only its mechanism answers."""
        for one in finished:
            if one.round.mechanism.name == name:
                return one
        raise ProtocolError("protocol/group", f"No group of this split has answered with {name!r}.")

    def answers(self, finished: History, confidence: float = 0.95, population: bool = False) -> dict[str, Estimates]:
        """Every group's own estimates, about its own people."""
        return {one.round.mechanism.name: one.estimates(confidence, population) for one in finished}

    def estimate(self, finished: History, confidence: float = 0.95, population: bool = False) -> Estimates:
        return merged(finished, self, confidence, population)


def _read_shares(text: str) -> dict[str, Fraction]:
    shares: dict[str, Fraction] = {}
    for entry in str(text).split(","):
        name, _, share = (part.strip() for part in entry.partition(":"))
        if not name:
            raise ProtocolError("protocol/option", "The groups of split are written like ssr:0.5,kv-sw:0.5.")
        if name in shares:
            raise ProtocolError("protocol/option", f"split takes every mechanism once, and {name} comes twice.")
        try:
            shares[name] = Fraction(share or "1")
        except (ValueError, ZeroDivisionError):
            raise ProtocolError("protocol/option", f"{share!r} is not a share of the people for {name}.") from None
        if shares[name] <= 0:
            raise ProtocolError("protocol/option", f"The share of {name} must be positive, not {share}.")
    return shares


def _read_options(options: Options | str) -> Options:
    """Options of groups, also from the text that the command line gives."""
    if not isinstance(options, str):
        return {name: dict(own) for name, own in options.items()}
    read: dict[str, dict[str, Any]] = {}
    for place, value in assignments(options).items():
        group, dot, option = place.partition(".")
        if not dot:
            raise ProtocolError(
                "protocol/option", f"Options of groups are written like ssr.max_pairs=3, not {place!r}."
            )
        read.setdefault(group, {})[option] = value
    return read
