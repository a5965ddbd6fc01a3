"""Who takes part in a comparison: mechanisms by name, each with options of its own where that is wanted.

One is written as its name, or as ``privkv:split=paper`` or ``pckv-ue:split=paper,estimator=published``, as on the
command line; that text also names it in tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from keyveil.core.errors import MechanismError
from keyveil.mechanisms.families.key_value import KeyValue
from keyveil.mechanisms.options import unknown_option
from keyveil.mechanisms.registry import find_mechanism, mechanism_names

PAPER = "split=paper"


@dataclass(frozen=True)
class Contender:
    """A mechanism and what it is told beyond what all are told."""

    name: str
    options: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, text: str) -> Contender:
        """What a text asks for; an unknown name or option is a mistake, not a mechanism that does not apply."""
        name, colon, rest = text.partition(":")
        known = {field.name for field in fields(find_mechanism(name))} - {"schema", "epsilon"}
        options: dict[str, str] = {}
        for item in rest.split(",") if colon else ():
            option, equals, value = (part.strip() for part in item.partition("="))
            option = option.replace("-", "_")
            if not equals:
                raise MechanismError("mechanism/option", f"Options of {name} are written name=value, not {item!r}.")
            if option not in known:
                raise unknown_option(name, option, sorted(known))
            options[option] = value
        return cls(name, tuple(options.items()))

    @property
    def label(self) -> str:
        """How the text would best be written."""
        return self.name + ":" * bool(self.options) + ",".join(f"{option}={value}" for option, value in self.options)


def several(text: str) -> list[str]:
    """The contenders in a list with commas; an item such as ``estimator=published`` belongs to the one before it."""
    found: list[str] = []
    for item in (part.strip() for part in text.split(",") if part.strip()):
        goes_on = "=" in item and ":" not in item.partition("=")[0]
        if goes_on and found and ":" in found[-1]:
            found[-1] += f",{item}"
        else:
            found.append(item)
    return found


def key_value_names() -> tuple[str, ...]:
    """All mechanisms that take sets of pairs."""
    return tuple(name for name in mechanism_names() if issubclass(find_mechanism(name), KeyValue))


def usual() -> tuple[str, ...]:
    """Who is compared unless told: all of them, and those with a published split of the budget in that form, too."""
    published = [
        name for name in key_value_names() if "split" in {field.name for field in fields(find_mechanism(name))}
    ]
    return (*key_value_names(), *(f"{name}:{PAPER}" for name in published))


def forms(labels: Sequence[str]) -> dict[str, list[str]]:
    """By the name of a mechanism that takes part as it is, its other forms."""
    found: dict[str, list[str]] = {}
    for label in labels:
        name, colon, _ = label.partition(":")
        if colon and name in labels:
            found.setdefault(name, []).append(label)
    return found
