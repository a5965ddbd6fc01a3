"""``keyveil serve``: run a collector."""

from __future__ import annotations

import gc
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from keyveil.cli.connection import database_url
from keyveil.core.errors import MissingExtra

if TYPE_CHECKING:
    from keyveil.collector.app import Mounts
    from keyveil.collector.service import Service
    from keyveil.collector.settings import Settings as CollectorSettings

LISTENING = "Listening on "  # begins what a collector says once it takes requests


def serve(
    host: Annotated[str | None, typer.Option(help="Where to listen; 127.0.0.1 unless given.")] = None,
    port: Annotated[int | None, typer.Option(help="8337 unless given; 0 for any that is free.")] = None,
    database: Annotated[
        str | None,
        typer.Option(metavar="FILE|URL", help="keyveil.db unless given; or postgresql://user@host/name."),
    ] = None,
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="Settings (TOML); flags go before it.")] = None,
    behind_tls: Annotated[
        bool, typer.Option("--behind-tls", help="A proxy in front speaks TLS: other machines may connect.")
    ] = False,
    workers: Annotated[
        int | None, typer.Option(min=1, max=64, help="Processes that share the port; 1 unless given.")
    ] = None,
    sketches: Annotated[
        bool, typer.Option("--sketches", help="Keep a sketch beside each tally, to warn of crafted reports.")
    ] = False,
    json_logs: Annotated[bool, typer.Option("--json-logs", help="Logs as JSON, also on a terminal.")] = False,
) -> int:
    """Run a collector. Every setting is also a variable such as KEYVEIL_PORT."""
    gc.disable()  # what is loaded stays: searching it for garbage takes a tenth of the start; serving looks again
    if find_spec("fastapi") is not None:  # otherwise it is refused below, and nothing starts
        _say("Starting a collector: loading its modules.")
    try:
        from keyveil.collector import serving
        from keyveil.collector.settings import load
    except ImportError as reason:
        raise MissingExtra("install/server", "A collector needs more: pip install 'keyveil[server]'.") from reason

    settings = load(
        config,
        host=host,
        port=port,
        database_url=None if database is None else database_url(database, create=True),
        behind_tls=behind_tls or None,
        workers=workers,
        sketches=sketches or None,
        json_logs=json_logs or None,
    )
    serving.serve(settings, _say, _pages)
    return 0


def _say(sentence: str) -> None:
    print(sentence, flush=True)
    if sentence.startswith(LISTENING):
        print(f"Look at it with a browser: {sentence.removeprefix(LISTENING)}/", flush=True)


def _pages(service: Service, settings: CollectorSettings) -> Mounts:
    """The pages beside the API, by their path."""
    from keyveil.dashboard.app import dashboard

    return {"/": dashboard(service, settings)}
