"""``keyveil journal …``: the audit log of a collector. ``keyveil clock …``: the time that it believes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from keyveil.cli.connection import Collector, Database, Server, TokenFile, reach, written
from keyveil.cli.data import many, say, screen
from keyveil.cli.options import Json
from keyveil.cli.printing import printed
from keyveil.core.chain import verify as verify_chain
from keyveil.core.errors import KeyveilError

app = typer.Typer(name="journal", help="What was done to a collector, by whom and when.", rich_markup_mode=None)
clock = typer.Typer(name="clock", help="The time that a collector believes.", rich_markup_mode=None)


@app.command()
def export(
    out: Annotated[Path, typer.Option(metavar="FILE", help="One JSON object in each line.")],
    server: Server = None,
    database: Database = None,
    token_file: TokenFile = None,
    json: Json = False,
) -> int:
    """Write all entries to a file, once their chain has been checked."""
    with reach(server, database, token_file) as collector:
        entries = list(_entries(collector))
    number, head = verify_chain(entries)
    with written(out) as part:
        part.write(b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries))
    say(f"Written: {out}")
    if not printed(json, {"entries": number, "head": head, "written": [str(out)]}):
        screen().print(f"{many(number, 'entry', 'entries')}; the last hash is {head}.")
    return 0


@app.command()
def verify(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="An exported journal; else a collector's.")
    ] = None,
    head: Annotated[str | None, typer.Option(metavar="HASH", help="A last hash that you noted earlier.")] = None,
    server: Server = None,
    database: Database = None,
    token_file: TokenFile = None,
    json: Json = False,
) -> int:
    """Check that no entry was changed, removed or put in between; a noted hash tells whether the end is there too."""
    if file is not None:
        number, last = verify_chain(_lines(file), head)
    else:
        with reach(server, database, token_file) as collector:
            number, last = verify_chain(_entries(collector), head)
    if not printed(json, {"entries": number, "head": last}):
        screen().print(f"Unbroken: {many(number, 'entry', 'entries')}; the last hash is {last}.")
    return 0


@clock.command()
def show(server: Server = None, database: Database = None, token_file: TokenFile = None, json: Json = False) -> int:
    """The time that is believed, and whether the machine's clock is held back."""
    return _clock("GET", server, database, token_file, json)


@clock.command()
def confirm(server: Server = None, database: Database = None, token_file: TokenFile = None, json: Json = False) -> int:
    """Believe the machine's clock from now on, although it has jumped."""
    return _clock("POST", server, database, token_file, json)


def _clock(method: str, server: str | None, database: str | None, token_file: Path | None, json: bool) -> int:
    with reach(server, database, token_file) as collector:
        found = collector.ask(method, "/v1/clock")
    if not printed(json, found):
        held = found["held_hours"]
        told = "the machine's clock is believed" if held is None else f"the machine's clock is {held:+g} hours off"
        screen().print(f"{found['believed']}; {told}.")
    return 0


def _entries(collector: Collector) -> Iterator[dict[str, Any]]:
    after, more = 0, True
    while more:
        page = collector.ask("GET", "/v1/journal", after=after)
        yield from page["entries"]
        after, more = after + len(page["entries"]), page["more"] and bool(page["entries"])


def _lines(file: Path) -> Iterator[Any]:
    try:
        with file.open("rb") as lines:
            for line in lines:
                yield msgspec.json.decode(line)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise KeyveilError("journal/file", f"The file {file} is no exported journal.") from None
