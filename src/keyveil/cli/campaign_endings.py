"""``keyveil campaign archive``, ``delete``, ``revoke`` and ``retry``: what is kept of a campaign and what counts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from keyveil.cli.connection import Database, Name, Server, TokenFile, address, reach
from keyveil.cli.data import many, screen
from keyveil.cli.options import Json
from keyveil.cli.printing import printed
from keyveil.core.errors import KeyveilError

_AT_ONCE = 10_000  # tokens in one request


def archive(
    name: Name, server: Server = None, database: Database = None, token_file: TokenFile = None, json: Json = False
) -> int:
    """Keep the documents and tallies of a campaign that is over, and forget its reports, ids and enrolments."""
    with reach(server, database, token_file) as collector:
        view = collector.ask("PATCH", address(name), {"action": "archive"})
    if not printed(json, view):
        screen().print(f"{view['campaign']['name']} is archived: its estimates stay, its reports are forgotten.")
    return 0


def retry(
    name: Name, server: Server = None, database: Database = None, token_file: TokenFile = None, json: Json = False
) -> int:
    """Try again to count the reports of the latest round that could not be counted and were set aside."""
    with reach(server, database, token_file) as collector:
        collector.ask("PATCH", address(name), {"action": "retry"})
        told = collector.ask("GET", address(name, "status"))["rounds"][-1]
    if not printed(json, {key: told[key] for key in ("round", "reports", "folded", "waiting", "set_aside")}):
        here = f"{told['folded']:,} counted, {told['waiting']:,} waiting, {told['set_aside']:,} set aside"
        screen().print(f"Round {told['round']} of {name}: {here}.")
    return 0


def delete(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Do it: there is no way back.")] = False,
    server: Server = None,
    database: Database = None,
    token_file: TokenFile = None,
    json: Json = False,
) -> int:
    """Forget a campaign that is over, with its reports, tallies and enrolments; only its name and hash stay."""
    if not yes:
        raise KeyveilError("campaign/delete", f"Deleting {name} cannot be undone: say --yes if that is wanted.")
    with reach(server, database, token_file) as collector:
        found = collector.ask("DELETE", address(name))
    if not printed(json, found):
        screen().print(f"{name} is deleted.")
    return 0


def revoke(
    name: Name,
    tokens: Annotated[Path, typer.Option("--tokens", metavar="FILE", help="Enrolment tokens, one in each line.")],
    server: Server = None,
    database: Database = None,
    token_file: TokenFile = None,
    json: Json = False,
) -> int:
    """Enrolment tokens that are no longer good; what was reported under them stays counted."""
    try:
        words = tokens.read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError):
        raise KeyveilError("enrolment/file", f"The file {tokens} cannot be read.") from None
    revoked = 0
    with reach(server, database, token_file) as collector:
        for start in range(0, len(words), _AT_ONCE):
            some = {"tokens": words[start : start + _AT_ONCE]}
            revoked += collector.ask("POST", address(name, "revocations"), some)["revoked"]
    if not printed(json, {"revoked": revoked, "given": len(words)}):
        screen().print(f"{many(revoked, 'enrolment token')} of {len(words):,} revoked.")
    return 0
