"""Answers as parts of a page: a sentence first, then the numbers with their intervals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keyveil.core.columns import worst
from keyveil.dashboard.layout import table
from keyveil.display.answers import (
    comparison_sentence,
    conditional_sentence,
    interval_text,
    ranking_text,
    share_text,
    told,
)
from keyveil.display.markup import Child, Html, tag, together
from keyveil.display.report import MEANINGS

Rows = list[dict[str, Any]]


def _flag(flag: str) -> Html:
    return tag("td", flag, class_="told" if flag == "ok" else "flagged", title=MEANINGS.get(flag, ""))


def _cell(text: str, known: bool) -> Html:
    return tag("td", text if known else "not told", class_="told" if known else "doubtful")


def _meaning(*flags: str) -> Child:
    flag = worst(*flags)
    return None if flag == "ok" else tag("p", tag("b", flag), f": {MEANINGS[flag]}.", class_="small")


def _conditional(rows: Rows) -> Html:
    (row,) = rows
    flags = [row["frequency"]["flag"], *([] if row["mean"] is None else [row["mean"]["flag"]])]
    return together(tag("p", conditional_sentence(row), class_="finding"), _meaning(*flags))


def _top(rows: Rows) -> Html:
    sure = [row["key"] for row in rows if row["certain"]]
    listed = [
        tag(
            "tr",
            tag("td", str(row["rank"])),
            tag("th", row["key"], scope="row"),
            tag("td", ranking_text(row), class_="told" if row["best"] == row["worst"] else "doubtful"),
            _cell(share_text({**row, "low": row["selected_low"], "high": row["selected_high"]}), told(row)),
            _flag(row["flag"]),
        )
        for row in rows
    ]
    count = len(rows)
    said = f"{len(sure):,} of these {count:,} keys are surely among the {count:,} most frequent."
    head = ("By estimate", "Key", "Rank may be", "Share of the people", "Flag")
    return together(
        tag("p", said, class_="finding"),
        table("The most frequent keys, with the ranks that they may have", head, listed),
    )


def _quantiles(rows: Rows) -> Html:
    names = {0.25: "a quarter have less", 0.5: "half have less", 0.75: "three quarters have less"}
    listed = [
        tag(
            "tr",
            tag("th", f"{row['quantile']:.0%}", scope="row"),
            tag("td", names.get(row["quantile"], f"{row['quantile']:.0%} have less")),
            _cell(interval_text(row["value"]), told(row["value"])),
            _flag(row["value"]["flag"]),
        )
        for row in rows
    ]
    middle = next((row for row in rows if row["quantile"] == 0.5), rows[0])
    known = told(middle["value"])
    said = f"Half of those who hold {middle['key']} have a value below {interval_text(middle['value'])}."
    unsaid = f"How the values of {middle['key']} are spread cannot be told yet."
    table_ = table(f"Values of {middle['key']}", ("Quantile", "In words", "Value", "Flag"), listed)
    return together(tag("p", said if known else unsaid, class_="finding"), table_)


def _subset(rows: Rows) -> Html:
    (row,) = rows
    known = told(row["sum"])
    names = ", ".join(row["keys"])
    said = f"A person holds {interval_text(row['sum'], 0, len(row['keys']))} of these keys on average: {names}."
    unsaid = f"How many of these a person holds cannot be told: {names}."
    return together(tag("p", said if known else unsaid, class_="finding"), _meaning(row["sum"]["flag"]))


def _compare(rows: Rows) -> Html:
    (row,) = rows
    flag = row["difference"]["flag"]
    return together(tag("p", comparison_sentence(row), class_="finding"), _meaning(flag))


ANSWERS: dict[str, Callable[[Rows], Html]] = {
    "conditional": _conditional,
    "top": _top,
    "quantiles": _quantiles,
    "subset": _subset,
    "compare": _compare,
}
