"""Questions on a command line: the options that ask them, and their answers as JSON and as tables.

``keyveil estimate`` asks them of a tally, ``keyveil campaign ask`` of a collector; options and answers are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

import typer
from rich.table import Table

from keyveil.core.errors import KeyveilError
from keyveil.core.estimates import worst
from keyveil.display.answers import interval_text

Row = dict[str, Any]
Document = dict[str, Any]  # a question as learn.questions reads it

Given = Annotated[
    list[str] | None, typer.Option("--given", metavar="KEY|CONDITION", help="A conditional: 'pepsi|burger,!fries'.")
]
Quantiles = Annotated[str | None, typer.Option("--quantiles", metavar="Q,…", help="Of the values: 0.25,0.5,0.75.")]
Keys = Annotated[str | None, typer.Option("--keys", metavar="KEY,…", help="Quantiles of these keys; otherwise of all.")]
Within = Annotated[
    Literal["any", "uniform"] | None,
    typer.Option("--within", help="What --quantiles take for the law within cells; any unless given."),
]
Subset = Annotated[
    list[str] | None, typer.Option("--subset", metavar="KEY,…", help="The sum of the frequencies of some keys.")
]
Compare = Annotated[list[str] | None, typer.Option("--compare", metavar="KEY,KEY", help="Do two keys differ?")]
Of = Annotated[
    Literal["frequency", "mean"] | None, typer.Option("--of", help="What --compare compares; frequency unless given.")
]
Rank = Annotated[
    int | None, typer.Option("--rank", min=1, help="The most frequent keys, so many, and how sure their order is.")
]

_GROUPS = {  # kind of question -> where its rows stand in the JSON
    "conditional": "given",
    "quantiles": "quantiles",
    "subset": "sums",
    "compare": "comparisons",
    "top": "ranking",
}


def questions(
    given: Sequence[str] | None,
    quantiles: str | None,
    keys: str | None,
    subset: Sequence[str] | None,
    compare: Sequence[str] | None,
    of: str | None,
    rank: int | None,
    within: str | None = None,
) -> list[Document]:
    """The questions that these options ask."""
    if keys and not quantiles:
        raise KeyveilError("question/keys", "--keys belongs to --quantiles: say which quantiles of these keys.")
    if of and not compare:
        raise KeyveilError("question/of", f"--of {of} belongs to --compare: say which two keys.")
    if within and not quantiles:
        raise KeyveilError("question/within", "--within belongs to --quantiles: say which quantiles.")
    only: Document = {"keys": several(keys)} if keys else {}
    only |= {"within": within} if within else {}
    by = {"of": of} if of else {}
    return [
        *(_conditional(text) for text in given or []),
        *([{"kind": "quantiles", "quantiles": several(quantiles), **only}] if quantiles else []),
        *({"kind": "subset", "keys": several(names)} for names in subset or []),
        *({"kind": "compare", "keys": several(names), **by} for names in compare or []),
        *([{"kind": "top", "count": rank}] if rank else []),
    ]


def grouped(answers: Iterable[tuple[Document, list[Row]]]) -> dict[str, list[Row]]:
    """Rows by the kind of their question: ``given``, ``quantiles``, ``sums``, ``comparisons`` and ``ranking``.

    A kind without a question has no rows.
    """
    groups: dict[str, list[Row]] = {name: [] for name in _GROUPS.values()}
    for question, rows in answers:
        groups[_GROUPS[question["kind"]]] += rows
    return groups


def tables(groups: dict[str, list[Row]]) -> list[Table]:
    """Answers for a terminal, one table for each kind of question."""
    return [_TABLES[name](rows) for name, rows in groups.items() if rows]


def several(text: str) -> list[str]:
    """``a, b`` as a list."""
    return [part.strip() for part in text.split(",") if part.strip()]


def _conditional(text: str) -> Document:
    """``pepsi|burger,!fries`` as a question."""
    key, _, condition = text.partition("|")
    given = {part.removeprefix("!").strip(): not part.startswith("!") for part in several(condition)}
    return {"kind": "conditional", "key": key.strip(), "given": given}


# -- tables ---------------------------------------------------------------------------------------------------------


def _given(rows: list[Row]) -> Table:
    table = _table("Among those who hold or lack some keys", "key", "given", "frequency", "mean", "flag")
    for row in rows:
        condition = ", ".join(name if held else f"not {name}" for name, held in row["given"].items()) or "anything"
        frequency, mean = row["frequency"], row["mean"]
        flag = frequency["flag"] if mean is None else worst(frequency["flag"], mean["flag"])
        table.add_row(row["key"], condition, interval_text(frequency, 0, 1), interval_text(mean), flag)
    return table


def _quantiles(rows: list[Row]) -> Table:
    table = _table("Quantiles of the values", "key", "quantile", "value", "flag")
    for row in rows:
        table.add_row(row["key"], f"{row['quantile']:g}", interval_text(row["value"]), row["value"]["flag"])
    return table


def _sums(rows: list[Row]) -> Table:
    table = _table("Sums of frequencies", "keys", "sum", "flag")
    for row in rows:
        table.add_row(" + ".join(row["keys"]), interval_text(row["sum"], 0, len(row["keys"])), row["sum"]["flag"])
    return table


def _comparisons(rows: list[Row]) -> Table:
    table = _table("Differences", "keys", "of", "difference", "p-value", "flag")
    for row in rows:
        chance = "unknown" if row["p_value"] is None else f"{row['p_value']:.3g}"
        difference = row["difference"]
        table.add_row(" - ".join(row["keys"]), row["of"], interval_text(difference), chance, difference["flag"])
    return table


def _ranking(rows: list[Row]) -> Table:
    table = _table("The most frequent keys", "rank", "key", "may rank", "frequency", "flag")
    for row in rows:
        chosen = {**row, "low": row["selected_low"], "high": row["selected_high"]}
        shown = interval_text(chosen, 0, 1)
        table.add_row(str(row["rank"]), row["key"], f"{row['best']} to {row['worst']}", shown, row["flag"])
    return table


_TABLES = {
    "given": _given,
    "quantiles": _quantiles,
    "sums": _sums,
    "comparisons": _comparisons,
    "ranking": _ranking,
}


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", pad_edge=False)
    for column in columns:
        left = column in ("key", "keys", "given", "of", "flag")
        table.add_column(column, justify="left" if left else "right", no_wrap=column == "flag", overflow="fold")
    return table
