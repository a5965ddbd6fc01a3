"""The page docs/predictions.md: predicted against simulated errors and half-widths of a thousand random scenarios.

python -m keyveil.planning.studies.predictions docs/predictions.md

Scenarios that are in the results already are not simulated again, so that a run can be stopped and go on; ``--minutes``
stops it in time, and ``--again`` predicts all of them anew.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from keyveil.planning.studies.journal import Document, go_on, read
from keyveil.planning.studies.scenarios import (
    CLEAR,
    EPSILONS,
    HELD,
    KNOWN,
    MOST,
    PEOPLE,
    QUANTITIES,
    TOLD,
    measured,
    predicted,
)

SCENARIOS, FIRST = 1_000, 0
RIGHT = (0.9, 1.1)  # predicted over simulated
GOAL = 0.95  # of the scenarios
LONGEST = (math.inf, math.inf, 0.5, 1.0)
"""Predicted numbers up to which a quantity counts: a longer interval is as long as the whole range of frequencies or
means, and says nothing."""
SHOWN = 40  # scenarios that are listed as wrong, the worst first
KEY, PAGE = "scenario", Path("docs/predictions.md")

_OPENING = f"""\
# Are predictions right?

A scenario is a mechanism in a form that [a plan](plan.md) considers, one of the ten populations of
`lab/datasets/lifelike.py`, {", ".join(f"{n:,}" for n in PEOPLE[:-1])} or {PEOPLE[-1]:,} people, all keys of the
population, a half or a quarter of them, and an ε of {", ".join(EPSILONS)}: all drawn at random. Errors
and half-widths of intervals are predicted from the people as a sample, and then simulated with the same people and new
coins until the standard error of the simulated error is at most {KNOWN:.1%} of it, or {MOST} times. What is not known
as well even then does not count. Bias is part of both errors.

Looked at are keys that {HELD} people hold. A mean counts if its predicted standard error is below {CLEAR:g} (on a range
of −1 to 1) and its frequency {TOLD} standard errors above 0, as a ratio has no variance otherwise. Errors of
frequencies and means and half-widths of frequencies are root mean squares over these keys; of half-widths of means it
is the median. Half-widths are medians over collections: where a cap may hide much, a few are far wider. They count up
to half of the range: longer intervals say nothing.

The page is written by"""


def ratios(line: Document) -> list[float | None]:
    """Predicted over simulated numbers in the order of ``QUANTITIES``; None for what is not known or says nothing."""
    numbers = zip(line["predicted"], line["simulated"], line["se"], LONGEST, strict=True)
    return [
        told / seen if told is not None and seen and se <= KNOWN and told <= longest else None
        for told, seen, se, longest in numbers
    ]


def counted(lines: Iterable[Document]) -> list[Document]:
    """The scenarios whose errors of frequencies are known well enough: those that count."""
    return [one for one in lines if "refused" not in one and ratios(one)[0] is not None]


def within(lines: Iterable[Document], quantity: int) -> tuple[int, int]:
    """How many scenarios are right in a quantity, and of how many it is known."""
    known = [ratio for one in lines if (ratio := ratios(one)[quantity]) is not None]
    return sum(RIGHT[0] <= ratio <= RIGHT[1] for ratio in known), len(known)


def page(lines: Sequence[Document], written_by: str) -> str:
    """The page of what was simulated."""
    sure = counted(lines)
    if not sure:
        return f"{_OPENING}\n\n```console\n$ {written_by}\n```\n\nNothing was simulated yet.\n"
    refused = sum("refused" in one for one in lines)
    unknown = len(lines) - refused - len(sure)
    told = (
        f"{len(sure):,} of {SCENARIOS:,} scenarios are shown, of {len(lines):,} that were drawn: in {refused:,} "
        f"mechanism and people do not go\ntogether or no key is held by enough people, and the errors of {unknown:,} "
        "are not known well enough."
    )
    return "\n\n".join(
        [
            _OPENING,
            f"```console\n$ {written_by}\n```",
            told,
            f"## Predicted over simulated, within {RIGHT[0]:g} and {RIGHT[1]:g}",
            _table("", {"all": sure}) + f"\n\nThe goal is {GOAL:.0%} of each.",
            "## By mechanism",
            _table("mechanism", _grouped(sure, "mechanism")),
            "## By population",
            _table("population", _grouped(sure, "population")),
            "## By ε",
            _table("ε", _grouped(sure, "epsilon")),
            "## What is not right",
            _wrong(sure) + "\n",
        ]
    )


def _grouped(lines: Sequence[Document], name: str) -> dict[str, list[Document]]:
    return {str(group): [one for one in lines if one[name] == group] for group in sorted({one[name] for one in lines})}


def _table(head: str, groups: Mapping[str, Sequence[Document]]) -> str:
    rows = [f"| {head} | scenarios | {' | '.join(QUANTITIES)} |", "|---|---:|" + "---:|" * len(QUANTITIES)]
    for name, lines in groups.items():
        cells = (_share(*within(lines, quantity)) for quantity in range(len(QUANTITIES)))
        rows.append(f"| {name} | {len(lines):,} | {' | '.join(cells)} |")
    return "\n".join(rows)


def _share(right: int, known: int) -> str:
    return f"{right:,} of {known:,} ({right / known:.1%})" if known else "–"


def _wrong(lines: Sequence[Document]) -> str:
    found: list[tuple[float, str]] = []
    for one in lines:
        for quantity, ratio in zip(QUANTITIES, ratios(one), strict=True):
            if ratio is not None and not RIGHT[0] <= ratio <= RIGHT[1]:
                row = (one["mechanism"], one["population"], f"{one['n']:,}", one["d"], one["epsilon"], quantity)
                found.append((max(ratio, 1 / ratio), f"| {' | '.join(map(str, row))} | {ratio:.2f} |"))
    if not found:
        return "Nothing."
    rows = ["| mechanism | population | people | keys | ε | what | ratio |", "|---|---|---:|---:|---:|---|---:|"]
    shown = [row for _, row in sorted(found, reverse=True)[:SHOWN]]
    more = f"\n\n{len(found) - SHOWN:,} more are in the results." if len(found) > SHOWN else ""
    return "\n".join(rows + shown) + more


def again(results: Path) -> None:
    """Predict everything anew; what would be simulated differently now is dropped, so that it is measured again."""
    kept: list[Document] = []
    for number, line in read(results, KEY).items():
        now: dict[str, Any] = predicted(number)
        if all(now.get(name) == line.get(name) for name in ("refused", "options", "keys", "means")):
            kept.append({**line, **now})
    results.write_text("".join(json.dumps(one, separators=(",", ":")) + "\n" for one in kept), encoding="utf-8")
    sys.stderr.write(f"{len(kept):,} predicted again\n")


def study(
    results: Path, scenarios: int = SCENARIOS, minutes: float = 240, most: int = MOST, first: int = FIRST
) -> list[Document]:
    """Simulate what is missing until so many scenarios count, and return all lines.

    Scenarios have numbers, from which all that is random in them follows; they are taken from the ``first`` one on.
    """
    lines = go_on(
        results,
        KEY,
        count(first),
        lambda number: measured(number, most),
        minutes,
        lambda known: len(counted(known.values())) >= scenarios,
    )
    return [lines[number] for number in sorted(lines)]


def command(page: Path = PAGE, first: int = FIRST) -> str:
    """How the page is written."""
    return f"python -m keyveil.planning.studies.predictions {page}{f' --first={first}' if first else ''}"


def main() -> None:
    reader = argparse.ArgumentParser(prog="python -m keyveil.planning.studies.predictions", description=__doc__)
    reader.add_argument("page", type=Path, help="where the page is written; the results lie beside it")
    reader.add_argument("--scenarios", type=int, default=SCENARIOS, help="how many must count")
    reader.add_argument("--minutes", type=float, default=240, help="after which no further scenario begins")
    reader.add_argument("--first", type=int, default=FIRST, help="number of the first scenario: others are drawn anew")
    reader.add_argument("--again", action="store_true", help="predict what was simulated before anew")
    given = reader.parse_args()
    results = given.page.with_suffix(".jsonl")
    if given.again:
        again(results)
    lines = study(results, given.scenarios, given.minutes, first=given.first)
    given.page.write_text(page(lines, command(first=given.first)), encoding="utf-8")


if __name__ == "__main__":
    main()
