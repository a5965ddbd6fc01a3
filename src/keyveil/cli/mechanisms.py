"""``keyveil mechanisms``: every name, what it tells, its options and its price."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from keyveil.cli.connection import written
from keyveil.cli.options import Json, names_like
from keyveil.cli.terminal import Terminal
from keyveil.mechanisms.questions import ASKABLE
from keyveil.protocols.catalogue import EPSILON, SIZES, Description, catalogue, describe

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

_PAGE = """\
# What can be asked

Which questions the reports of every mechanism and protocol can answer. The page is written by this command:

```console
$ keyveil mechanisms --page docs/what-can-be-asked.md
```

{meanings}

{told} is told with the usual options, {part} with others that are listed below the table. Devices answer only what
can take every record: otherwise whether somebody answers at all would tell. Of protocols, frequencies and means come
from all rounds together, and every other question is put to the last round that can answer it. Bits are what a person
sends in all at ε = {epsilon} and the number of keys beside them, ids not counted.

{table}

## Other options

{forms}
"""


def mechanisms(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="One name, with all of its options.", autocompletion=names_like),
    ] = None,
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
    for line in _lines(found):
        screen.print(line)
    screen.print()
    for kind, row in ASKABLE.items():
        screen.print(f"{_SHORT[kind]:7}{kind:14}{row.meaning}")
    screen.print(
        f"{_MARK} told, {_PART} told with other options: keyveil mechanisms NAME. Devices refuse what has no yes. "
        f"Bits are what a person sends for {SIZES[0]} keys (fewer where it cannot take so many) at ε = {EPSILON}."
    )
    return 0


def _lines(found: list[Description]) -> Iterator[str]:
    """The table in eighty columns."""
    yield f"{'name':16}{'device':7}" + "".join(f"{short:^6}" for short in _SHORT.values()) + "bits"
    for one in found:
        marks = "".join(f"{mark(one, kind):^6}" for kind in ASKABLE)
        yield f"{one.name:16}{'yes' if one.devices else '':7}{marks}{one.price.bits:4.0f}"


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
    return _PAGE.format(
        meanings="\n".join(meanings),
        told=_MARK,
        part=_PART,
        epsilon=EPSILON,
        table="\n".join(f"| {row} |" for row in table),
        forms="\n".join(forms),
    )


def _show(screen: Terminal, one: Description) -> None:
    screen.print(f"{one.name} ({one.kind}, {one.price.rounds} round{'s' if one.price.rounds > 1 else ''})")
    screen.print(one.summary)
    alike: dict[tuple[str, ...], list[str]] = {}
    for options, kinds in one.answers.items():
        alike.setdefault(kinds, []).append(options)
    for kinds, forms in alike.items():
        screen.print(f"\nTells{' with ' * bool(forms[0])}{' or '.join(filter(None, forms))}:")
        for kind in kinds:
            screen.print(f"  {kind:14}{ASKABLE[kind].meaning}")
    screen.print(f"\nRecords    {one.takes}; devices {'answer it' if one.devices else 'refuse it'}")
    screen.print(f"Price      a person sends {one.price.bits:.0f} bits, at {one.price.keys} keys and ε = {EPSILON}")
    if one.options:
        screen.print("\nOptions    (--set NAME=VALUE)")
        for option in one.options:
            default = "must be given" if option.required else f"default {option.default}" if option.default else ""
            screen.print(f"  {option.name:14}{option.type:14}  {default}".rstrip())
