"""Who takes part in a comparison: mechanisms and protocols, by name with options of their own, or as objects.

A name is written as it is, or as ``privkv:split=paper`` or ``pilot:then=wsr,theta=1/4``, as on the command line; that
text also names it in tables. An object keeps its options, also those that it chose for its own epsilon.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.core.errors import MechanismError
from keyveil.core.schema import Schema
from keyveil.lab.matching import spending
from keyveil.lab.public_options import with_public
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import Capped, Parted
from keyveil.mechanisms.construction import form_of
from keyveil.mechanisms.options import option_names, spelled, unknown_option
from keyveil.mechanisms.overflow.beside import options_of
from keyveil.mechanisms.registry import build, find, names
from keyveil.protocols.base import Protocol
from keyveil.protocols.registry import as_protocol

PAPER = "split=paper"
VIRTUAL = "privkvm:rounds=1,virtual=5,estimator=published"
"""PrivKVM in the form that its paper recommends: one real round, and virtual iterations after it."""
APART = ("apart", "apart:mode=dense")
"""A mechanism of two groups; unlike others that are made of several, it is not told which."""

CAP, BEST = "max_pairs", "best-"
BEST_CAPS = (f"{BEST}frequency", f"{BEST}mean")
"""Values of ``max_pairs`` in a comparison: the cap with the least predicted error of frequencies, or of means."""

PROJECT = frozenset({"ssr", "wsr", "wheel", "topsel", "block", "apart", "moments", "topsel-project", "pilot", "split"})
"""Mechanisms and protocols of this project. All others are published, or differ from what is published in details.

``kvue`` is Sun et al.'s, ``collision`` Wang et al.'s, and ``marginals`` is in the manner of CALM: they count as
published, whatever was added here (docs/mechanisms).
"""


@dataclass(frozen=True)
class Contender:
    """A mechanism or protocol by its name, and what it is told beyond what all are told; or one that is made."""

    name: str
    options: tuple[tuple[str, Any], ...] = ()
    made: Mechanism | Protocol | None = None

    @classmethod
    def of(cls, asked_for: str | Mechanism | Protocol) -> Contender:
        """A contender from a text such as ``privkv:split=paper``, or from an object."""
        return cls.parse(asked_for) if isinstance(asked_for, str) else cls(asked_for.name, made=asked_for)

    @classmethod
    def parse(cls, text: str) -> Contender:
        """What a text says; an unknown name or option is a mistake, not a contender that does not apply."""
        name, colon, rest = text.partition(":")
        known = options_of(find(name.strip()))
        options: dict[str, str] = {}
        for item in _options(rest) if colon else ():
            option, equals, value = (part.strip() for part in item.partition("="))
            if not equals:
                raise MechanismError("mechanism/option", f"Options of {name} are written name=value, not {item!r}.")
            options = spelled({**options, option: value})
            if next(reversed(options)) not in known:
                raise unknown_option(name, option, sorted(known))
            if value.startswith(BEST.rstrip("-")) and value not in BEST_CAPS and next(reversed(options)) == CAP:
                raise MechanismError("compare/cap", f"The best cap is {' or '.join(BEST_CAPS)}, not {value!r}.")
        return cls(name.strip(), tuple(options.items()))

    @property
    def label(self) -> str:
        """How the text would best be written."""
        return self.name + ":" * bool(self.options) + ",".join(f"{option}={value}" for option, value in self.options)

    @property
    def known(self) -> tuple[str, ...]:
        """The names of the options that it can be told."""
        return () if self.made is not None else options_of(find(self.name))

    @property
    def form(self) -> type[Any]:
        """The class that its name and options stand for."""
        found: type[Any] = form_of(find(self.name), dict(self.options))
        return found

    def at(
        self, epsilon: Fraction, schema: Schema, sizes: NDArray[np.int64], options: Mapping[str, Any]
    ) -> Mechanism | Protocol:
        """The contender for which a person spends epsilon in all, with what everybody is told and what it must know.

        ``sizes`` has the number of pairs of every person. What cannot spend epsilon is refused.
        """
        made = self.made
        if made is None:
            told = {option: value for option, value in spelled(options).items() if option in self.known}
            filled, _ = with_public(self.name, sizes, schema.d, {**told, **dict(self.options)})
            return spending(lambda requested: build(self.name, schema, requested, filled), epsilon)
        if made.schema != schema:
            raise MechanismError("compare/schema", f"This {self.name} was made for another schema than the data have.")
        return spending(
            lambda requested: made if requested == made.epsilon else replace(made, epsilon=requested), epsilon
        )


def contenders(asked_for: Sequence[str | Mechanism | Protocol]) -> dict[str, Contender]:
    """Contenders by their labels; objects of one name are told apart by their options."""
    found: dict[str, Contender] = {}
    for one in map(Contender.of, asked_for):
        label = one.label
        if one.made is not None and label in found and found[label].made != one.made:
            told = [f"{name}={value}" for name, value in as_protocol(one.made).parameters.items() if value is not None]
            label += ":" + ",".join(told) if told else " (object)"
        found[label] = one
    return found


def several(text: str) -> list[str]:
    """The contenders in a list with commas.

    What can only belong to an option stays with the contender before it: ``estimator=published``, the ``kv-sw:1`` of
    ``split:groups=ssr:1,kv-sw:1``, numbers.
    """
    found: list[str] = []
    for item in (part.strip() for part in text.split(",") if part.strip()):
        head, equals, _ = item.partition("=")
        goes_on = (":" not in head) if equals else (":" in item or item[0].isdigit())
        if goes_on and found and ":" in found[-1]:
            found[-1] += f",{item}"
        else:
            found.append(item)
    return found


def key_value_names() -> tuple[str, ...]:
    """All mechanisms that take any set of pairs; those made of others are left to who asks for them."""
    kinds = {name: find(name) for name in names()}
    return tuple(
        name
        for name, kind in kinds.items()
        if issubclass(kind, Mechanism) and kind.takes == "every set" and not issubclass(kind, Parted)
    )


def usual() -> tuple[str, ...]:
    """Who is compared unless told: all of them, also with the published split of the budget, and PrivKVM."""
    published = [name for name in key_value_names() if "split" in option_names(find(name))]
    return (*key_value_names(), *APART, VIRTUAL, *(f"{name}:{PAPER}" for name in published))


def with_best_caps(chosen: Mapping[str, Contender]) -> dict[str, Contender]:
    """Contenders, and those that have a cap and were not told which also with their best caps."""
    found = dict(chosen)
    for one in chosen.values():
        if one.made is None and CAP not in dict(one.options) and issubclass(one.form, Capped):
            for cap in BEST_CAPS:
                capped = replace(one, options=(*one.options, (CAP, cap)))
                found[capped.label] = capped
    return found


def without_best_cap(label: str) -> str:
    """The label of the form whose cap is not the best one but the given one."""
    name, _, rest = label.partition(":")
    options = [option for option in _options(rest) if option and not option.startswith(f"{CAP}={BEST}")]
    return name + ":" * bool(options) + ",".join(options)


def of_project(label: str) -> bool:
    """Whether a contender is a mechanism or protocol of this project, by its label."""
    return label.partition(":")[0] in PROJECT


def families(labels: Iterable[str]) -> dict[str, list[str]]:
    """The labels of every mechanism, the form that is named by the name alone first: one column of a table each."""
    found: dict[str, list[str]] = {}
    for label in labels:
        found.setdefault(label.partition(":")[0], []).append(label)
    return {
        (some[0] if len(some) == 1 else name): sorted(some, key=lambda label: label != name)
        for name, some in found.items()
    }


def _options(text: str) -> list[str]:
    """``groups=ssr:1,kv-sw:1,max_pairs=3`` as its two options: a comma before a name and a sign of equality parts."""
    found: list[str] = []
    for item in text.split(","):
        if found and "=" not in item and "=" in found[-1]:
            found[-1] += f",{item}"
        else:
            found.append(item)
    return found
