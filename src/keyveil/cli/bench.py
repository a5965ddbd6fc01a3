"""``keyveil bench``: speed as ratios of one run, against plain NumPy, peers and what the machine can do."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.table import Table

from keyveil.bench.history import add, slower
from keyveil.bench.machine import machine
from keyveil.bench.measuring import measure
from keyveil.bench.peers import measure_peers
from keyveil.cli.data import say, screen
from keyveil.cli.options import Json


def bench(
    quick: Annotated[bool, typer.Option("--quick", help="Fewer people and repeats.")] = False,
    peers: Annotated[
        bool, typer.Option("--peers", help="Also pure-ldp and multi-freq-ldpy, installed in a folder of their own.")
    ] = False,
    only: Annotated[str, typer.Option(metavar="TEXT", help="Only rows whose name contains it.")] = "",
    history: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Compare with the last run of this machine in the file, and add this one."),
    ] = None,
    json: Json = False,
) -> int:
    """Measure speed on this machine; every ratio is of one run, and larger is better."""
    found: list[dict[str, Any]] = []
    for row in measure(quick, only):
        found.append(row)
        say(_line(row))
    if peers:
        for row in measure_peers(quick, only):
            found.append(row)
            say(_line(row))
    result = {"machine": machine(), "ratios": found}
    worse: list[str] = []
    if history is not None:
        worse = slower(history, result, quick)
        add(history, result, quick)
    if json:
        print(msgspec.json.encode({**result, "slower": worse}).decode())
        return 0
    console = screen()
    console.print(machine())
    console.print(_table(found))
    for sentence in worse:
        console.print(sentence)
    return 0


def _table(found: list[dict[str, Any]]) -> Table:
    table = Table(pad_edge=False)
    for column in ("name", "ratio", "goal", "", "a second", "against"):
        table.add_column(column, justify="right" if column in ("ratio", "goal", "a second") else "left")
    for row in found:
        goal, rate = row["goal"], row.get("reports_per_second")
        table.add_row(
            row["name"],
            _number(row["ratio"]),
            "" if goal is None else f"{goal:g}",
            row["verdict"] or "",
            "" if rate is None else f"{rate:,.0f}",
            row["against"] + (f" ({row['why']})" if "why" in row else ""),
        )
    return table


def _line(row: dict[str, Any]) -> str:
    return f"{row['name']}: {_number(row['ratio'])}"


def _number(ratio: float | None) -> str:
    return "–" if ratio is None else f"{ratio:,.3g}" if ratio < 100 else f"{ratio:,.0f}"
