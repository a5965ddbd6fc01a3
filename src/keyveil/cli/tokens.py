"""``keyveil token …``: who may ask a collector, and for which campaigns."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer

from keyveil.cli.campaign_exports import write_tokens
from keyveil.cli.connection import Database, Server, TokenFile, reach
from keyveil.cli.data import say, screen
from keyveil.cli.options import Json
from keyveil.cli.printing import printed, table

app = typer.Typer(name="token", help="Make, list and revoke tokens of analysts and admins.", rich_markup_mode=None)

TokenName = Annotated[str, typer.Argument(metavar="NAME", help="What the token is called, such as anna-2027.")]


@app.command()
def create(
    name: TokenName,
    role: Annotated[str, typer.Option(help="analyst or admin.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="A new file that only you can read; never shown.")],
    campaign: Annotated[
        list[str] | None, typer.Option("--campaign", metavar="NAME", help="Good for this one only; may be repeated.")
    ] = None,
    expires: Annotated[str | None, typer.Option(metavar="DAY", help="The last day, such as 2027-12-31.")] = None,
    server: Server = None,
    database: Database = None,
    token_file: TokenFile = None,
    json: Json = False,
) -> int:
    """Make a token and write it to a file."""
    wanted = {"name": name, "role": role, "campaigns": campaign or None, "expires": expires}
    write_tokens(out, [])  # a file that cannot be written is told before a token is made
    try:
        with reach(server, database, token_file, create=True) as collector:
            token = collector.ask("POST", "/v1/tokens", wanted)["token"]
    finally:
        out.unlink()
    write_tokens(out, [token])
    say(f"Written: {out}")
    if not printed(json, {**wanted, "written": [str(out)]}):
        screen().print(f"{name} is good for {', '.join(campaign or ['all campaigns'])} as {role}.")
    return 0


@app.command("list")
def list_(server: Server = None, database: Database = None, token_file: TokenFile = None, json: Json = False) -> int:
    """All tokens that were ever made, by their names."""
    with reach(server, database, token_file) as collector:
        found = collector.ask("GET", "/v1/tokens")
    if not printed(json, found):
        rows = table("Tokens", "name", "role", "campaigns", "last day", "state")
        for one in found["tokens"]:
            campaigns = "all" if one["campaigns"] is None else ", ".join(one["campaigns"])
            rows.add_row(one["name"], one["role"], campaigns, one["expires"] or "–", one["state"])
        screen().print(rows)
    return 0


@app.command()
def revoke(
    name: TokenName, server: Server = None, database: Database = None, token_file: TokenFile = None, json: Json = False
) -> int:
    """A token that is no longer good, at once and for ever."""
    with reach(server, database, token_file) as collector:
        found = collector.ask("DELETE", f"/v1/tokens/{quote(name, safe='')}")
    if not printed(json, found):
        screen().print(f"{name} is revoked.")
    return 0
