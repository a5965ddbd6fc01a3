"""Options that several commands take."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import numpy as np
import typer

from keyveil.core.epsilon import Number
from keyveil.core.errors import MechanismError
from keyveil.core.schema import Schema
from keyveil.lab.public_options import made_for
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.registry import names
from keyveil.protocols.base import Protocol

USUAL_PAIRS = 3  # how many pairs a person has where a mechanism must know and nobody said

Epsilon = Annotated[str, typer.Option("--epsilon", help="The privacy parameter, an exact decimal.")]
Keys = Annotated[int, typer.Option("--keys", help="How many keys there are.")]
KeysOrNames = Annotated[str, typer.Option("--keys", help="How many keys there are, or their names: x/a,x/b,y.")]
MaxPairs = Annotated[int | None, typer.Option("--max-pairs", help="The most pairs of a person that count.")]
Settings = Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="An option of the mechanism.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output, and nothing else there.")]
PerKey = Annotated[
    bool, typer.Option("--per-key", help="Tell each key from absent on its own: right for keys named beforehand.")
]
Attackers = Annotated[
    int | None,
    typer.Option("--attackers", metavar="M", min=0, help="How far could M crafted reports have moved the estimates?"),
]
Recover = Annotated[
    str | None,
    typer.Option(
        "--recover",
        metavar="METHOD",
        help="Frequencies after a suspected attack, labelled: constrained, or removal (which needs a sketch).",
    ),
]
Detect = Annotated[bool, typer.Option("--detect", help="Do the reports look as honest ones do?")]
Raw = Annotated[bool, typer.Option("--raw", help="The table as estimated, also where that is not possible.")]


def names_like(beginning: str) -> list[str]:
    """For the shell's completion: mechanisms and protocols whose names begin so."""
    return [name for name in names() if name.startswith(beginning)]


def settings(given: list[str] | None, max_pairs: int | None = None) -> dict[str, str | int]:
    """``--set name=value`` as keyword arguments, together with ``--max-pairs``."""
    options: dict[str, str | int] = {}
    for item in given or []:
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise MechanismError("mechanism/option", f"--set takes name=value, not {item!r}.")
        _add(options, name.strip().replace("-", "_"), value.strip())
    if max_pairs is not None:
        _add(options, "max_pairs", max_pairs)
    return options


def _add(options: dict[str, str | int], name: str, value: str | int) -> None:
    if name in options:
        raise MechanismError("mechanism/option", f"The option {name} is given twice.")
    options[name] = value


def keys_of(text: str) -> int | list[str]:
    """``--keys`` as a number of keys, or as their names with commas."""
    try:
        return int(text)
    except ValueError:
        return [key.strip() for key in text.split(",") if key.strip()]


def without_data(name: str, keys: int | list[str], epsilon: Number, options: dict[str, Any]) -> Mechanism | Protocol:
    """A mechanism or protocol for so many keys; what it must know of people's sets is assumed unless told, and said."""
    schema = Schema(keys=keys)
    usual = np.array([min(USUAL_PAIRS, schema.d)])
    made, notes = made_for(name, schema, epsilon, usual, options)
    for _ in notes:
        print(
            f"keyveil: {name} is taken for people with {usual[0]} pairs; say otherwise with --max-pairs.",
            file=sys.stderr,
        )
    return made
