"""``keyveil campaign enrol``: tokens for devices, shown once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from keyveil.cli.campaign_exports import write_tokens
from keyveil.cli.connection import Database, Name, Server, TokenFile, address, reach
from keyveil.cli.data import say
from keyveil.cli.options import Json
from keyveil.cli.printing import printed

MOST_AT_ONCE = 10_000  # tokens of one request


def enrol(
    name: Name,
    count: Annotated[int, typer.Option("--count", min=1, max=1_000_000, help="How many tokens.")] = 1,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write them there, one in each line.")] = None,
    server: Server = None,
    database: Database = None,
    token_file: TokenFile = None,
    json: Json = False,
) -> int:
    """Make enrolment tokens, one for each device; they are shown now and never again."""
    tokens: list[str] = []
    with reach(server, database, token_file) as collector:
        while len(tokens) < count:
            some = min(count - len(tokens), MOST_AT_ONCE)
            tokens += collector.ask("POST", address(name, "enrolments"), {"count": some})["tokens"]
    if out is not None:
        write_tokens(out, tokens)
        say(f"Written: {out}")
        printed(json, {"count": len(tokens), "written": [str(out)]})
    elif not printed(json, {"tokens": tokens}):
        print("\n".join(tokens))
    return 0
