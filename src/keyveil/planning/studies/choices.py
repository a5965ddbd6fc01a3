"""The page docs/choices.md: is what ``auto`` chooses the best, and is it better than what is published?

python -m keyveil.planning.studies.choices docs/choices.md

Cells that are in the results already are not measured again, so that a run can be stopped and go on; ``--minutes``
stops it in time. The seed of a cell follows from its name.
"""

from __future__ import annotations

import argparse
import math
import re
import shlex
import textwrap
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from keyveil.lab.datasets import names
from keyveil.lab.decoders import BAYES, RAW, title
from keyveil.planning.studies.contest import DECODERS
from keyveil.planning.studies.journal import Document, go_on, read
from keyveil.planning.studies.looked_at import drawn, looked_at
from keyveil.planning.studies.regret import (
    FINALISTS,
    GOALS,
    HOPEFUL,
    LAST_LEAST,
    LAST_MOST,
    MOST_KEYS,
    MOST_PAIRS,
    NEAR,
    PEOPLE,
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
the 20 most frequent keys; and whether estimates will be read as they are or after empirical Bayes (`postprocess`). It
knows the people as a sample and chooses one mechanism of one round before anybody reports. Against it stand

* **the best of all**: every mechanism of one round in the form that the plan has for a goal, if its predicted error is
  at most {NEAR:g} times that of the choice; every protocol of two rounds (up to {MOST_KEYS:,} keys), with the options
  that simulations choose; and everything that is published;
* **the best published**: the forms of [the comparison with equal decoders](equal-decoders.md), with both splits of the
  budget and their best caps, and the forms that the plan has for published mechanisms.

Everybody collects in a few runs first. Those whose squared error is at most {HOPEFUL:g} times the least of a quantity,
the first {FINALISTS} of all and the first {FINALISTS} of the published, and what `auto` chose take part in {LAST_LEAST}
to {LAST_MOST} new runs, more where there are few keys. In these both kinds of best are found on one half and measured
on the other, `auto` on all. All spend the same exact ε. A cell has {PEOPLE:,} people (fewer where they would hold more
than {MOST_PAIRS:,} pairs, and fewer in small files), the same in all runs. Levels of values are not stated.

Everybody is measured with the same decoder. *As estimated* frequencies are unbiased, and means are cut to [−1, 1] and 0
where they are unknown. `privkvm-star` gives all rare keys their average, which is a decoder of its own: here it is
measured without that. *With empirical Bayes* everybody's estimates are shrunk; `privkvm-star` also takes part with its
own average ([decision 124](decisions/0124-decoders-are-not-mechanisms.md)).

*Regret* is the root mean squared error of `auto` over that of the best. *Gain* is the mean squared error of the best
published over that of `auto`; a cell is lost if the published one is better by more than two standard errors of the
difference.

Beside regrets and losses stands whether a **guess** that hears nobody is better than both: that every frequency is 0,
or the mean set size over the number of keys; that every mean is 0, or the mean of all values. Where `auto` foresees
that, it also takes caps below what half of the people hold for frequencies as estimated, and its plan says that nothing
is learnt about single keys ([decision 172](decisions/0172-where-a-guess-is-better.md)). Elsewhere others may have such
caps, and `auto` does not ([decision 100](decisions/0100-errors-as-shown.md)).

Cells whose results were seen before the rules of `auto` were what they are
([decision 173](decisions/0173-few-keys-are-drawn.md)) are measured last; the seed draws the order of the others.

The page is written by"""


_INFORMED = """\
Of cells that were not looked at before, those in which `auto`, the best of all or the best published has a smaller
error than the guess. Elsewhere nothing is learnt, and what is counted is who comes nearest to saying nothing. This
table was added after the first ten cells had been seen."""


def rows(lines: Iterable[Document], quantity: str, decoder: str) -> list[tuple[Document, Row]]:
    """The rows of some cells for one quantity and decoder."""
    return [
        (line, row)
        for line in lines
        for row in line["rows"]
        if (row["quantity"], row["decoder"]) == (quantity, decoder)
    ]


def missed(lines: Sequence[Document], of: int) -> list[str]:
    """What the finished table must show and does not, a sentence each; with every decoder."""
    told = [] if len(lines) == of else [f"{len(lines)} of {of} cells were measured."]
    for quantity in GOALS:
        for decoder in DECODERS:
            found, name = rows(lines, quantity, decoder), f"{TITLES[quantity]}, {title(decoder)}"
            if not found:
                continue
            close, most = sum(map(_close, found)) / len(found), max(map(_regret_of, found))
            if close < MOST_CELLS or most > FARTHEST:
                far = f"{close:.0%} of the cells are within {CLOSE:g}, and the largest regret is {most:.2f}"
                told.append(f"{name}: {far}.")
            mean = geometric(gain(row) for _, row in found)
            if mean < GAINS[quantity]:
                told.append(f"{name}: the gain is {mean:.2f}, and {GAINS[quantity]:g} is wanted.")
            kept = 1 - sum(row["won"] < 0 for _, row in found) / len(found)
            if kept < NOT_WORSE:
                told.append(f"{name}: {kept:.0%} of the cells are not lost, and {NOT_WORSE:.0%} are wanted.")
    return told


def page(lines: Sequence[Document], of: int, written_by: str) -> str:
    """The whole page, from some of ``of`` cells."""
    if not lines:
        return f"{_OPENING}\n\n```console\n$ {written_by}\n```\n\nNothing was measured yet.\n"
    return "\n\n".join(
        [
            _OPENING,
            f"```console\n$ {written_by}\n```",
            f"{len(lines)} of {of} cells were measured, {len(_held_out(lines))} of which were not looked at before.",
            "## What is not reached",
            _listed(missed(lines, of)) or "Nothing.",
            "## Regret",
            _regrets(lines),
            f"### By ε, as the share of cells within a tenth, and the largest, {title(RAW)}",
            _by(lines, "epsilon", _regret_range, RAW),
            f"### By ε, the same {title(BAYES)}",
            _by(lines, "epsilon", _regret_range, BAYES),
            f"### Cells beyond {CLOSE:g}",
            _far(lines),
            "## Gain over the best published",
            _gains(lines),
            "### By ε, with empirical Bayes",
            _by(lines, "epsilon", _gain_of, BAYES),
            "### By data set, with empirical Bayes",
            _by(lines, "data", _gain_of, BAYES),
            "### The same on cells that were not looked at before",
            _gains(_held_out(lines)),
            "### The same where anybody's reports tell more than a guess",
            _INFORMED,
            _gains(_held_out(lines), informed=True),
            "### Cells that are lost",
            _lost(lines),
            "## What was chosen",
            _chosen(lines) + "\n",
        ]
    )


def _regret_of(one: tuple[Document, Row]) -> float:
    return regret(one[1])


def _regret_range(found: Sequence[tuple[Document, Row]]) -> str:
    return f"{_share(found, _close)}, {max(map(_regret_of, found)):.2f}"


def _close(one: tuple[Document, Row]) -> bool:
    return regret(one[1]) <= CLOSE


def _share(found: Sequence[tuple[Document, Row]], right: Callable[[tuple[Document, Row]], bool]) -> str:
    count = sum(map(right, found))
    return f"{count} of {len(found)}"


def _regrets(lines: Sequence[Document]) -> str:
    head = f"within {CLOSE:g} | wanted {MOST_CELLS:.0%} | largest | wanted {FARTHEST:g} | geometric mean"
    table = [f"| goal | decoder | {head} |", "|---|---|---:|---|---:|---|---:|"]
    for quantity in GOALS:
        for decoder in DECODERS:
            found = rows(lines, quantity, decoder)
            if found:
                close, most = sum(map(_close, found)) / len(found), max(map(_regret_of, found))
                mean = geometric(regret(row) for _, row in found)
                table.append(
                    f"| {TITLES[quantity]} | {title(decoder)} | {_share(found, _close)} ({close:.0%}) "
                    f"| {_reached(close >= MOST_CELLS)} | {most:.2f} | {_reached(most <= FARTHEST)} | {mean:.3f} |"
                )
    return "\n".join(table)


def _far(lines: Sequence[Document]) -> str:
    found: list[tuple[float, str]] = []
    for quantity in GOALS:
        for decoder in DECODERS:
            for line, row in rows(lines, quantity, decoder):
                if (times := regret(row)) > CLOSE:
                    told = f"{times:.2f}, {_who(row, 'auto')} against {_who(row, 'best')}{_guessed(line, row)}"
                    found.append((times, f"{_name(line)}, {TITLES[quantity]}, {title(decoder)}: {told}"))
    return _listed(text for _, text in sorted(found, reverse=True)) or "None."


def _gains(lines: Sequence[Document], informed: bool = False) -> str:
    """A table of gains; of the ``informed`` cells alone, in which somebody's reports tell more than a guess."""
    head = f"gain | wanted | least | most | won | tied | lost | not lost (wanted {NOT_WORSE:.0%})"
    table = [f"| errors of | decoder | {head} |", "|---|---|---:|---|---:|---:|---:|---:|---:|---|"]
    for quantity, wanted in GAINS.items():
        for decoder in (RAW, BAYES):
            found = [one for one in rows(lines, quantity, decoder) if not (informed and _guessed(*one))]
            if not found:
                continue
            gains, won = [gain(row) for _, row in found], Counter(row["won"] for _, row in found)
            mean, kept = geometric(gains), 1 - won[-1] / len(found)
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
                    told = f"{gain(row):.2f}, {_who(row, 'auto')} against {_who(row, 'published')}{_guessed(line, row)}"
                    found.append((gain(row), f"{_name(line)}, {TITLES[quantity]}, {title(decoder)}: {told}"))
    return _listed(text for _, text in sorted(found)) or "None."


def _guessed(line: Document, row: Row) -> str:
    """Said where nobody's reports tell more than no reports."""
    least = min(row[side][0] for side in ("auto", "best", "published"))
    return "; a guess is better than both" if line["blind"][row["quantity"]] <= least else ""


def _held_out(lines: Sequence[Document]) -> list[Document]:
    return [line for line in lines if not looked_at(line["data"], line["epsilon"])]


def _by(
    lines: Sequence[Document], group: str, told: Callable[[Sequence[tuple[Document, Row]]], str], decoder: str
) -> str:
    head = {"epsilon": "ε", "data": "data set"}[group]
    table = [f"| {head} | cells | {' | '.join(TITLES.values())} |", "|---|---:|" + "---:|" * len(TITLES)]
    for name in sorted({line[group] for line in lines}):
        mine = [line for line in lines if line[group] == name]
        cells = (told(found) if (found := rows(mine, quantity, decoder)) else "–" for quantity in GOALS)
        table.append(f"| {name} | {len(mine)} | {' | '.join(cells)} |")
    return "\n".join(table)


def _gain_of(found: Sequence[tuple[Document, Row]]) -> str:
    won = Counter(row["won"] for _, row in found)
    return f"{geometric(gain(row) for _, row in found):.2f}, {won[1]} / {won[0]} / {won[-1]}"


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
    return f"{line['data']}, ε = {line['epsilon']}"


def _who(row: Row, side: str) -> str:
    return " or ".join(dict.fromkeys(map(form, row["who"][side])))


def form(label: str) -> str:
    """The name of a mechanism with its cap, where the label tells it; other options are in the results."""
    cap = re.search(r"max_pairs=(\d+)", label)
    return f"`{label.partition(':')[0]}`" + ("" if cap is None else f" with max_pairs={cap[1]}")


def _listed(sentences: Iterable[str]) -> str:
    """Sentences as a list; empty if there are none."""
    return "\n".join(
        textwrap.fill(f"- {one}", 120, subsequent_indent="  ", break_on_hyphens=False) for one in sentences
    )


def _reached(so: bool) -> str:
    return "reached" if so else "**not reached**"


def geometric(numbers: Iterable[float]) -> float:
    """The geometric mean."""
    logs = [math.log(one) for one in numbers]
    return math.exp(sum(logs) / len(logs))


def study(
    results: Path,
    data: Sequence[str] | None = None,
    seed: int = SEED,
    minutes: float = 240,
    people: int = PEOPLE,
    repeats: int | None = None,
) -> tuple[list[Document], int]:
    """Measure the cells that are missing, and return all lines with the number of cells that there are.

    Cells of files that are in the results already count, wherever the files are now.
    """
    files = {Path(one).stem: one for one in data or () if one not in names()}
    known = {str(cell): cell for cell in (Cell(one["data"], one["epsilon"]) for one in read(results, KEY).values())}
    everything = sorted(cells(data), key=lambda cell: drawn(seed, *cell))
    wanted = {**known, **{str(cell): cell for cell in everything}}

    def one(name: str) -> Document:
        cell = wanted[name]
        return measured(cell, seed + zlib.crc32(name.encode()), people, repeats, files.get(cell.data))

    lines = go_on(results, KEY, wanted, one, minutes)
    return [lines[name] for name in wanted if name in lines], len(wanted)


def command(seed: int = SEED, data: Sequence[str] = ()) -> str:
    """How the page is written; of files only their names are told."""
    own = ["--data", *(Path(one).name for one in data)] if data else []
    words = shlex.join(["python", "-m", "keyveil.planning.studies.choices", str(PAGE), f"--seed={seed}", *own])
    return " \\\n    ".join(textwrap.wrap(words, 112, break_on_hyphens=False))


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
