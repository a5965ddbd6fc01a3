"""``keyveil mechanisms``: every name, what it tells, its options and its price."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.table import Table

from keyveil.cli.connection import written
from keyveil.cli.options import Json
from keyveil.cli.terminal import Terminal
from keyveil.mechanisms.questions import ASKABLE
from keyveil.protocols.catalogue import EPSILON, Description, catalogue, describe

_MARK, _PART = "●", "○"
_SHORT = {  # headings of kinds that fit into eighty columns
    "frequency": "freq",
    "mean": "mean",
    "top": "top",
    "subset": "sum",
    "compare": "cmp",
    "compare-means": "cmp m",
    "quantiles": "quant",
    "conditional": "cond",
}


def mechanisms(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="One name, with all of its options.")] = None,
    page: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the table as a Markdown page.")] = None,
    json: Json = False,
) -> int:
    """Say what every mechanism and protocol can tell, whom it suits, and what it costs."""
    found = catalogue() if name is None else [describe(name)]
    if page is not None:
        with written(page) as file:
            file.write(markdown(catalogue()).encode())
        return 0
    if json:
        documents = [one.document() for one in found]
        whole = {"questions": {kind: row.meaning for kind, row in ASKABLE.items()}, "mechanisms": documents}
        print(msgspec.json.encode(whole if name is None else documents[0]).decode())
        return 0
    screen = Terminal()
    if name is not None:
        _show(screen, found[0])
        return 0
    screen.print(_table(found))
    for kind, row in ASKABLE.items():
        screen.print(f"{_SHORT[kind]:7}{kind:14}{row.meaning}")
    screen.print(
        f"{_MARK} told, {_PART} told with other options: keyveil mechanisms NAME. Devices answer only what is checked. "
        f"Bits are what a person sends at ε = {EPSILON} and so many keys."
    )
    return 0


def _table(found: list[Description]) -> Table:
    table = Table(title="What can be asked", title_justify="left", box=None, pad_edge=False)
    for heading in ("name", "device", *_SHORT.values()):
        table.add_column(heading, no_wrap=True, justify="left" if heading == "name" else "center")
    for heading in ("rounds", "bits", "keys"):
        table.add_column(heading, no_wrap=True, justify="right")
    for one in found:
        marks = [mark(one, kind) for kind in ASKABLE]
        bits = f"{one.price.bits:.0f}"
        table.add_row(one.name, "✓" if one.devices else "", *marks, str(one.price.rounds), bits, str(one.price.keys))
    return table


def mark(one: Description, kind: str) -> str:
    """Whether the usual form, or only another one, answers a kind of question."""
    if kind in next(iter(one.answers.values())):
        return _MARK
    return _PART if any(kind in kinds for kinds in one.answers.values()) else ""


def markdown(found: list[Description]) -> str:
    """The page ``docs/what-can-be-asked.md``."""
    heads = ["name", "kind", "devices", *ASKABLE, "rounds", "bits", "at keys"]
    rows = [
        [
            f"`{one.name}`",
            one.kind,
            "yes" if one.devices else f"no: takes {one.takes}",
            *(mark(one, kind) for kind in ASKABLE),
            str(one.price.rounds),
            f"{one.price.bits:.0f}",
            str(one.price.keys),
        ]
        for one in found
    ]
    table = [" | ".join(row) for row in [heads, ["---"] * len(heads), *rows]]
    forms = [
        f"- `{one.name}` with `{options}`: {', '.join(kinds)}"
        for one in found
        for options, kinds in one.answers.items()
        if options
    ]
    meanings = [f"- **{kind}**: {row.meaning}" for kind, row in ASKABLE.items()]
    return "\n".join(
        [
            "# What can be asked",
            "",
            "Which questions the reports of every mechanism and protocol can answer. The page is written by this command:",
            "",
            "```console",
            "$ keyveil mechanisms --page docs/what-can-be-asked.md",
            "```",
            "",
            *meanings,
            "",
            f"{_MARK} is told with the usual options, {_PART} with others that are listed below the table. Devices answer",
            "only what can take every record, since otherwise whether somebody answers at all would tell. Of protocols,",
            "frequencies and means come from all rounds together, and every other question is put to the last round.",
            f"Bits are what a person sends in all at ε = {EPSILON} and the number of keys beside them, ids not counted.",
            "",
            *(f"| {row} |" for row in table),
            "",
            "## Other options",
            "",
            *forms,
            "",
        ]
    )


def _show(screen: Terminal, one: Description) -> None:
    screen.print(f"{one.name} ({one.kind}, {one.price.rounds} round{'s' if one.price.rounds > 1 else ''})")
    screen.print(one.summary)
    for options, kinds in one.answers.items():
        screen.print(f"\nTells{f' with {options}' if options else ''}:")
        for kind in kinds:
            screen.print(f"  {kind:14}{ASKABLE[kind].meaning}")
    screen.print(f"\nRecords    {one.takes}; devices {'answer it' if one.devices else 'refuse it'}")
    screen.print(f"Price      {one.price.bits:.0f} bits at {one.price.keys} keys and ε = {EPSILON}")
    if one.options:
        screen.print("\nOptions    (--set NAME=VALUE)")
        for option in one.options:
            default = (
                "must be given" if option.default is None else f"default {option.default}" if option.default else ""
            )
            screen.print(f"  {option.name:14}{option.type:24}{default}")
