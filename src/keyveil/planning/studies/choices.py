"""The page docs/choices.md: is what ``auto`` chooses the best, and is it better than what is published?

python -m keyveil.planning.studies.choices docs/choices.md

Cells that are in the results already are not measured again, so that a run can be stopped and go on; ``--minutes``
stops it in time. The seed of a cell follows from its place in the list of all.
"""

from __future__ import annotations

import argparse
import math
import shlex
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from keyveil.lab.datasets import names
from keyveil.lab.decoders import BAYES, RAW, title
from keyveil.planning.studies.journal import Document, go_on
from keyveil.planning.studies.regret import (
    GOALS,
    MOST_KEYS,
    MOST_PAIRS,
    NEAR,
    PEOPLE,
    REPEATS,
    SHRUNK,
    Cell,
    cells,
    gain,
    measured,
    regret,
)

Row = dict[str, Any]

CLOSE, FARTHEST = 1.1, 1.3  # times the error of the best: within which most cells must be, and all
MOST_CELLS = 0.9
NOT_WORSE = 0.95  # of the cells in which the best published must not be better by two standard errors
GAINS = {"frequency": 1.25, "mean": 1.3, "mean_top": 1.4}
TITLES = {"frequency": "frequencies", "mean": "means", "mean_top": "means of the 20 most frequent keys"}
KEY, SEED, PAGE = "cell", 17, Path("docs/choices.md")

_OPENING = f"""\
# Is `auto` right?

In every cell, a data set and an ε, [`auto`](plan.md) is told one of three goals: frequencies, means, and the means of
the 20 most frequent keys. It knows the people as a sample and chooses one mechanism of one round before anybody
reports. Against it stand

* **the best of all**: every mechanism of one round in the form that the plan has for a goal, if its predicted error is
  at most {NEAR:g} times that of the choice; every protocol of two rounds (up to {MOST_KEYS:,} keys), with the options
  that simulations choose; and everything that is published;
* **the best published**: the forms of [the comparison with equal decoders](equal-decoders.md), with both splits of the
  budget and their best caps, and the forms that the plan has for published mechanisms. With empirical Bayes the
  {SHRUNK} of them take part that have the least error of a quantity as estimated.

Both are found on one half of {REPEATS} runs and measured on the other, `auto` on all of them. All spend the same exact
ε. A cell has {PEOPLE:,} people (fewer where they would hold more than {MOST_PAIRS:,} pairs), the same in all runs.
Levels of values are not stated.

*Regret* is the root mean squared error of `auto` over that of the best, as estimated: means cut to [−1, 1], unknown
ones 0. *Gain* is the mean squared error of the best published over that of `auto`, both with the same decoder; a cell
is lost if the published one is better by more than two standard errors of the difference. `privkvm-star` gives all rare
keys their average, so it shrinks by itself: as estimated, it has a decoder that the others do not have, and where all
keys are alike (`grid`, `lnr`) that wins. With empirical Bayes everybody shrinks.

The page is written by"""


def rows(lines: Iterable[Document], quantity: str, decoder: str) -> list[tuple[Document, Row]]:
    """The rows of some cells for one quantity and decoder."""
    return [
        (line, row)
        for line in lines
        for row in line["rows"]
        if (row["quantity"], row["decoder"]) == (quantity, decoder)
    ]


def page(lines: Sequence[Document], of: int, written_by: str) -> str:
    """The whole page, from some of ``of`` cells."""
    if not lines:
        return f"{_OPENING}\n\n```console\n$ {written_by}\n```\n\nNothing was measured yet.\n"
    return "\n\n".join(
        [
            _OPENING,
            f"```console\n$ {written_by}\n```",
            f"{len(lines)} of {of} cells were measured.",
            "## Regret",
            _regrets(lines),
            "### By ε, as the share of cells within a tenth, and the largest",
            _by(lines, "epsilon", lambda found: f"{_share(found, _close)}, {max(map(_regret_of, found)):.2f}", RAW),
            f"### Cells beyond {CLOSE:g}",
            _far(lines),
            "## Gain over the best published",
            _gains(lines),
            "### By ε, with empirical Bayes",
            _by(lines, "epsilon", _gain_of, BAYES),
            "### By data set, with empirical Bayes",
            _by(lines, "data", _gain_of, BAYES),
            "### Cells that are lost",
            _lost(lines),
            "## What was chosen",
            _chosen(lines) + "\n",
        ]
    )


def _regret_of(one: tuple[Document, Row]) -> float:
    return regret(one[1])


def _close(one: tuple[Document, Row]) -> bool:
    return regret(one[1]) <= CLOSE


def _share(found: Sequence[tuple[Document, Row]], right: Callable[[tuple[Document, Row]], bool]) -> str:
    count = sum(map(right, found))
    return f"{count} of {len(found)}"


def _regrets(lines: Sequence[Document]) -> str:
    table = [
        f"| goal | within {CLOSE:g} | wanted {MOST_CELLS:.0%} | largest | wanted {FARTHEST:g} | geometric mean |",
        "|---|---:|---|---:|---|---:|",
    ]
    for quantity in GOALS:
        found = rows(lines, quantity, RAW)
        if found:
            close, most = sum(map(_close, found)) / len(found), max(map(_regret_of, found))
            mean = _geometric(regret(row) for _, row in found)
            table.append(
                f"| {TITLES[quantity]} | {_share(found, _close)} ({close:.0%}) | {_reached(close >= MOST_CELLS)} "
                f"| {most:.2f} | {_reached(most <= FARTHEST)} | {mean:.3f} |"
            )
    return "\n".join(table)


def _far(lines: Sequence[Document]) -> str:
    found: list[tuple[float, str]] = []
    for quantity in GOALS:
        for line, row in rows(lines, quantity, RAW):
            if (times := regret(row)) > CLOSE:
                told = f"{times:.2f}, {_who(row, 'auto')} against {_who(row, 'best')}"
                found.append((times, f"- {_name(line)}, {TITLES[quantity]}: {told}"))
    return "\n".join(text for _, text in sorted(found, reverse=True)) or "None."


def _gains(lines: Sequence[Document]) -> str:
    head = f"gain | wanted | least | most | won | tied | lost | not lost (wanted {NOT_WORSE:.0%})"
    table = [f"| errors of | decoder | {head} |", "|---|---|---:|---|---:|---:|---:|---:|---:|---|"]
    for quantity, wanted in GAINS.items():
        for decoder in (RAW, BAYES):
            found = rows(lines, quantity, decoder)
            if not found:
                continue
            gains, won = [gain(row) for _, row in found], Counter(row["won"] for _, row in found)
            mean, kept = _geometric(gains), 1 - won[-1] / len(found)
            table.append(
                f"| {TITLES[quantity]} | {title(decoder)} | {mean:.2f} | {wanted:g}, {_reached(mean >= wanted)} "
                f"| {min(gains):.2f} | {max(gains):.2f} | {won[1]} | {won[0]} | {won[-1]} "
                f"| {kept:.0%}, {_reached(kept >= NOT_WORSE)} |"
            )
    return "\n".join(table)


def _lost(lines: Sequence[Document]) -> str:
    found: list[tuple[float, str]] = []
    for quantity in GOALS:
        for decoder in (RAW, BAYES):
            for line, row in rows(lines, quantity, decoder):
                if row["won"] < 0:
                    told = f"{gain(row):.2f}, {_who(row, 'auto')} against {_who(row, 'published')}"
                    found.append((gain(row), f"- {_name(line)}, {TITLES[quantity]}, {title(decoder)}: {told}"))
    return "\n".join(text for _, text in sorted(found)) or "None."


def _by(
    lines: Sequence[Document], group: str, told: Callable[[Sequence[tuple[Document, Row]]], str], decoder: str
) -> str:
    head = {"epsilon": "ε", "data": "data set"}[group]
    table = [f"| {head} | cells | {' | '.join(TITLES.values())} |", "|---|---:|" + "---:|" * len(TITLES)]
    for name in sorted({line[group] for line in lines}):
        mine = [line for line in lines if line[group] == name]
        cells = (told(found) if (found := rows(mine, quantity, decoder)) else "–" for quantity in GOALS)
        table.append(f"| {_short(name)} | {len(mine)} | {' | '.join(cells)} |")
    return "\n".join(table)


def _gain_of(found: Sequence[tuple[Document, Row]]) -> str:
    won = Counter(row["won"] for _, row in found)
    return f"{_geometric(gain(row) for _, row in found):.2f}, {won[1]} / {won[0]} / {won[-1]}"


def _chosen(lines: Sequence[Document]) -> str:
    told = []
    for quantity in GOALS:
        sides = (
            Counter(label.partition(":")[0] for _, row in rows(lines, quantity, RAW) for label in row["who"][side][:1])
            for side in ("auto", "best", "published")
        )
        auto, best, published = (
            ", ".join(f"{name} {count}" for name, count in side.most_common()) or "–" for side in sides
        )
        text = f"- {TITLES[quantity]}: chosen {auto}; best of all {best}; best published {published}."
        told.append(textwrap.fill(text, 120, subsequent_indent="  "))
    return "\n".join(told)


def _name(line: Document) -> str:
    return f"{_short(line['data'])}, ε = {line['epsilon']}"


def _short(name: str) -> str:
    """A file without its folder."""
    return Path(name).stem if "/" in name else name


def _who(row: Row, side: str) -> str:
    return " or ".join(f"`{label.partition(':')[0]}`" for label in row["who"][side])


def _reached(so: bool) -> str:
    return "reached" if so else "**not reached**"


def _geometric(numbers: Iterable[float]) -> float:
    logs = [math.log(one) for one in numbers]
    return math.exp(sum(logs) / len(logs))


def study(
    results: Path,
    data: list[str] | None = None,
    seed: int = SEED,
    minutes: float = 240,
    people: int = PEOPLE,
    repeats: int = REPEATS,
) -> tuple[list[Document], int]:
    """Measure the cells that are missing, and return all lines with the number of cells that there are."""
    wanted = {str(cell): (cell, seed + place) for place, cell in enumerate(cells(data))}

    def one(name: str) -> Document:
        cell, own = wanted[name]
        return measured(Cell(*cell), own, people, repeats)

    lines = go_on(results, KEY, wanted, one, minutes)
    return [lines[name] for name in wanted if name in lines], len(wanted)


def command(seed: int = SEED, data: Sequence[str] = ()) -> str:
    """How the page is written; of files only their names are told."""
    own = ["--data", *(Path(one).name for one in data)] if data else []
    return shlex.join(["python", "-m", "keyveil.planning.studies.choices", str(PAGE), f"--seed={seed}", *own])


def main() -> None:
    reader = argparse.ArgumentParser(prog="python -m keyveil.planning.studies.choices", description=__doc__)
    reader.add_argument("page", type=Path, help="where the page is written; the results lie beside it")
    reader.add_argument("--seed", type=int, default=SEED, help="of people and coins")
    reader.add_argument("--minutes", type=float, default=240, help="after which no further cell begins")
    reader.add_argument("--data", nargs="*", default=[], help="files of people that are measured as well")
    given = reader.parse_args()
    data = [*names(), *given.data]
    lines, of = study(given.page.with_suffix(".jsonl"), data, given.seed, given.minutes)
    given.page.write_text(page(lines, of, command(given.seed, given.data)), encoding="utf-8")


if __name__ == "__main__":
    main()
