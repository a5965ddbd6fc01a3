"""``keyveil backup`` and ``keyveil restore``: a collector's whole database as one file, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from keyveil.cli.connection import database_url
from keyveil.cli.data import screen, working
from keyveil.cli.options import Json
from keyveil.core.errors import MissingExtra

Database = Annotated[
    str | None,
    typer.Option(metavar="FILE|URL", help="Of the collector; the one of its settings unless given."),
]
Config = Annotated[Path | None, typer.Option(metavar="FILE", help="The collector's settings (TOML).")]


def backup(
    target: Annotated[Path, typer.Argument(metavar="FILE", help="A new file; only you may read it.")],
    database: Database = None,
    config: Config = None,
    json: Json = False,
) -> int:
    """Write a collector's database to a file, while it runs. The file holds payloads: keep it no longer than they."""
    backups = _backups()
    with working(f"Writing {target}"):
        counts = backups.backup(_url(database, config), target)
    if json:
        print(msgspec.json.encode({"file": str(target), "bytes": target.stat().st_size, "rows": counts}).decode())
    else:
        screen().print(f"{sum(counts.values()):,} rows of {len(counts)} tables are in {target}.")
    return 0


def restore(
    source: Annotated[Path, typer.Argument(metavar="FILE", help="Made by keyveil backup.")],
    database: Database = None,
    config: Config = None,
    replace: Annotated[bool, typer.Option("--replace", help="Give up what the database holds now.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Only look whether the file is whole.")] = False,
    json: Json = False,
) -> int:
    """Put a backup in the place of a collector's database. Stop all collectors first."""
    backups = _backups()
    with working(f"Reading {source}"):
        schema = backups.verify(source)
        if not check:
            backups.restore(source, _url(database, config), replace)
    if json:
        print(msgspec.json.encode({"file": str(source), "schema": schema, "restored": not check}).decode())
    else:
        screen().print(f"{source} is whole." if check else f"The database is as it was when {source} was made.")
    return 0


def _backups() -> Any:
    """The module that does it, which a device does not have."""
    try:
        from keyveil.collector import backup
    except ImportError as reason:
        raise MissingExtra("install/server", "A collector needs more: pip install 'keyveil[server]'.") from reason
    return backup


def _url(database: str | None, config: Path | None) -> str:
    from keyveil.collector.settings import load

    given = None if database is None else database_url(database, create=True)
    return load(config, database_url=given).database_url
