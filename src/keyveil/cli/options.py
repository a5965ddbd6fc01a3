"""Options that several commands take."""

from __future__ import annotations

from typing import Annotated

import typer

from keyveil.core.errors import MechanismError

Epsilon = Annotated[str, typer.Option("--epsilon", help="The privacy parameter, an exact decimal.")]
Keys = Annotated[int, typer.Option("--keys", help="How many keys there are.")]
MaxPairs = Annotated[int | None, typer.Option("--max-pairs", help="The most pairs of a person that count.")]
Settings = Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="An option of the mechanism.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output, and nothing else there.")]


def settings(given: list[str] | None, max_pairs: int | None = None) -> dict[str, str | int]:
    """``--set name=value`` as keyword arguments, together with ``--max-pairs``."""
    options: dict[str, str | int] = {}
    for item in given or []:
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise MechanismError("mechanism/option", f"--set takes name=value, not {item!r}.")
        options[name.strip().replace("-", "_")] = value.strip()
    if max_pairs is not None:
        options["max_pairs"] = max_pairs
    return options
