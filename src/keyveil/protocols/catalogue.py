"""Every name with what it tells, whom it suits, its options and its price: the table behind ``keyveil mechanisms``."""

from __future__ import annotations

import inspect
from dataclasses import MISSING, Field, asdict, dataclass, fields
from fractions import Fraction
from typing import Any

from keyveil.core.epsilon import decimal_text
from keyveil.core.errors import KeyveilError
from keyveil.core.schema import Schema
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.options import option_names
from keyveil.mechanisms.overflow.beside import OPTION, options_of
from keyveil.mechanisms.questions import ASKABLE, answerable
from keyveil.mechanisms.registry import find, is_protocol, make, names
from keyveil.protocols.base import Protocol
from keyveil.protocols.registry import as_protocol

SIZES = (100, 10, 3)  # numbers of keys at which a price is given: the first that the mechanism takes
EPSILON = 1


@dataclass(frozen=True)
class Option:
    """A keyword argument of a mechanism, or ``--set name=value`` on the command line."""

    name: str
    type: str  # in plain words, such as "whole number"
    required: bool
    default: str | None  # None where it must be given, or where nothing is set


@dataclass(frozen=True)
class Price:
    """What a person sends in all, ids not counted, at so many keys and ε = 1."""

    bits: float
    keys: int
    rounds: int


@dataclass(frozen=True)
class Description:
    """What one should know of a name before choosing it."""

    name: str
    kind: str  # mechanism or protocol
    summary: str
    takes: str  # which records it can answer
    devices: bool  # whether devices answer it: only where every record can be answered
    answers: dict[str, tuple[str, ...]]  # kinds of questions by the options that bring them; "" are the usual ones
    options: tuple[Option, ...]
    price: Price

    def document(self) -> dict[str, Any]:
        """The description as JSON."""
        return asdict(self)


def catalogue(*wanted: str) -> list[Description]:
    """Every name of the registry, or those that are wanted, described."""
    return [describe(name) for name in wanted or names()]


def describe(name: str) -> Description:
    """One name, described; loads its module."""
    kind = find(name)
    usual, keys = _usual(name)
    rounds = [one.mechanism for one in usual.longest()]
    return Description(
        name=name,
        kind="protocol" if is_protocol(name) else "mechanism",
        summary=_summary(kind),
        takes=rounds[0].takes,
        devices=unsuited(usual) is None,
        answers={
            _spelled(options): answered(as_protocol(make(name, Schema(keys=3), EPSILON, **options)))
            for options in kind.examples
        },
        options=(*(_option(field) for field in fields(kind) if field.name not in ("schema", "epsilon")), *_group(kind)),
        price=Price(_bits(usual), keys, len(rounds)),
    )


def _group(kind: type) -> tuple[Option, ...]:
    """The option that every mechanism with a cap has besides its own."""
    return (Option(OPTION, "number", False, None),) if options_of(kind) != option_names(kind) else ()


def unsuited(protocol: Protocol) -> Mechanism | None:
    """The first mechanism of a round that cannot answer every record: devices refuse it, as silence would tell."""
    return next((one.mechanism for one in protocol.longest() if one.mechanism.takes != "every set"), None)


def answered(protocol: Protocol) -> tuple[str, ...]:
    """The kinds of questions that a collection answers.

    Frequencies and means come from all rounds together; every other question is put to the reports of one round, the
    last that can answer it (``mechanisms.questions.who_is_asked``). Where answers decide on the kind of a round, it
    counts what all of its kinds can answer.
    """
    rounds = protocol.longest()
    together = frozenset().union(*(one.mechanism.estimated for one in rounds))
    sure = [set[str].intersection(*(set(answerable(kind)) for kind in protocol.kinds(one.number))) for one in rounds]
    return tuple(kind for kind in ASKABLE if kind in together or any(kind in one for one in sure))


def _usual(name: str) -> tuple[Protocol, int]:
    """A name with its usual options, at the largest number of keys in ``SIZES`` that it takes."""
    options = find(name).examples[0]
    for keys in SIZES[:-1]:
        try:
            return as_protocol(make(name, Schema(keys=keys), EPSILON, **options)), keys
        except KeyveilError:  # it grows too fast with the number of keys
            continue
    return as_protocol(make(name, Schema(keys=SIZES[-1]), EPSILON, **options)), SIZES[-1]


def _bits(protocol: Protocol) -> float:
    """On average over people: everybody answers the rounds of their own part."""
    return sum(one.mechanism.bits_per_report * float(one.part.stop - one.part.start) for one in protocol.longest())


def _summary(kind: type) -> str:
    """The first line of the module, which says what it is for; of the class where a module has several."""
    module = inspect.getmodule(kind)
    line = (inspect.getdoc(module) or "").split("\n")[0]
    own = (inspect.getdoc(kind) or "").split("\n")[0]
    several = [one for one in vars(module).values() if isinstance(one, type) and one.__module__ == kind.__module__]
    return own if sum("name" in vars(one) for one in several) > 1 or not line else line


_PLAIN = {"int": "whole number", "Fraction": "number", "str": "text", "bool": "true or false"}


def _option(field: Field[Any]) -> Option:
    required = field.default is MISSING and field.default_factory is MISSING
    shown = None if field.default in (MISSING, None) else field.default
    if isinstance(shown, Fraction):
        shown = decimal_text(shown) if shown.denominator in (1, 2, 5, 10, 20) else shown
    if isinstance(shown, bool):
        shown = str(shown).lower()
    return Option(field.name, _plain(str(field.type)), required, None if shown is None else str(shown))


def _plain(kind: str) -> str:
    """A declared type in plain words; text where it can be written in several ways."""
    kinds = [one.strip() for one in kind.split("|") if one.strip() != "None"]
    return _PLAIN.get(kinds[0], "whole numbers" if kinds[0].startswith("tuple[int") else "text")


def _spelled(options: dict[str, Any]) -> str:
    return ",".join(f"{name}={value}" for name, value in options.items() if name != "max_pairs")
