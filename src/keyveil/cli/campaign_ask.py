"""``keyveil campaign ask``: conditionals, quantiles, sums, comparisons and rankings of a campaign that runs."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer

from keyveil.cli.connection import Collector, Database, Name, Server, TokenFile, address, reach
from keyveil.cli.data import screen
from keyveil.cli.options import Attackers, Json
from keyveil.cli.questions import (
    Compare,
    Given,
    Keys,
    Of,
    Quantiles,
    Rank,
    Row,
    Subset,
    Within,
    grouped,
    questions,
    tables,
)
from keyveil.core.errors import KeyveilError
from keyveil.learn.questions import Question


def ask(
    name: Name,
    given: Given = None,
    quantiles: Quantiles = None,
    keys: Keys = None,
    within: Within = None,
    subset: Subset = None,
    compare: Compare = None,
    of: Of = None,
    rank: Rank = None,
    question: Annotated[
        list[str] | None,
        typer.Option("--question", metavar="JSON", help="""Any question: '{"kind": "top", "count": 5}'."""),
    ] = None,
    round: Annotated[int | None, typer.Option("--round", min=1, help="Which one; otherwise the last.")] = None,
    confidence: Annotated[float | None, typer.Option(help="Of the intervals; 0.95 unless given.")] = None,
    attackers: Attackers = None,
    server: Server = None,
    database: Database = None,
    token_file: TokenFile = None,
    json: Json = False,
) -> int:
    """Ask a campaign more than frequencies and means: what it cannot answer is refused with the name of what could."""
    wanted = [*questions(given, quantiles, keys, subset, compare, of, rank, within), *map(_read, question or [])]
    if not wanted:
        options = "--given, --quantiles, --subset, --compare, --rank or --question"
        raise KeyveilError("question/nothing", f"Say what to ask, by {options}.")
    said = {"round": round, "confidence": confidence}
    wanted = [{**{name: value for name, value in said.items() if value is not None}, **one} for one in wanted]
    for one in wanted:
        Question.read(one)  # mistakes are refused before anything is sent
    with reach(server, database, token_file) as collector:
        groups = grouped((one, _answer(collector, name, one, attackers)) for one in wanted)
    if json:
        print(msgspec.json.encode(groups).decode())
    else:
        for table in tables(groups):
            screen().print(table)
    return 0


def _answer(collector: Collector, name: str, question: dict[str, Any], attackers: int | None) -> list[Row]:
    rows: list[Row] = collector.ask("POST", address(name, "queries"), question, attackers=attackers)["answers"]
    return rows


def _read(text: str) -> dict[str, Any]:
    try:
        read = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        read = None
    if not isinstance(read, dict):
        raise KeyveilError("question/document", """A question is a JSON object such as {"kind": "top", "count": 5}.""")
    return read
