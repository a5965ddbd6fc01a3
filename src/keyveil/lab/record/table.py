"""The table of a record: a row for each contender and decoder, with its regret, its rank and who ties.

A *setting* is some people at one ε. There the best has the least error of all rows (or of those with the same decoder);
a regret is an error over the least one, so 1 is the best. Whoever is less than two standard errors of the difference
away shares the first place (``lab.scores``).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from keyveil.lab.record.cells import Cell
from keyveil.lab.record.measures import MEASURES
from keyveil.lab.record.people import COUNTS, LIMIT
from keyveil.lab.scores import Score, ties, winner

SCHEMA, VERSION = "keyveil-record", 1
"""Name and version of the layout of ``record.parquet`` and ``record.json``; it only grows within a version."""

Row = dict[str, Any]
Setting = tuple[str, str]

COLUMNS: dict[str, str] = {
    "data": "the people, as on the command line; for files their name",
    "n": "how many people",
    "keys": "how many keys",
    "pairs_per_person": "pairs that a person holds on average",
    "epsilon": "ε that everybody spends in all",
    "mechanism": "a name, with its options behind a colon",
    "decoder": "what is done with everybody's estimates; raw is nothing",
    "repeats": "runs over the same people",
    "seed": "of people and coins",
    "counts": "where the counts come from: " + "; ".join(f"*{name}*, {about}" for name, about in COUNTS.items()),
    "approximate": "whether they are from a normal limit",
    "exact_epsilon": "the largest loss of a person by the closed form, rounded up; never above epsilon",
    "requested_epsilon": "what the mechanism was asked for, larger where it spends less than it is asked for",
    "proof": "*certified*: the closed form of the mechanism, which the tests hold to an enumeration of its code; "
    "*submitted*: the code came with --submit and passed the contract, a certificate and an audit at that time",
    "truncated": "whether a cap hides something of somebody's pairs",
    "bits_per_report": "bits that a person sends, all rounds together",
    "us_per_report": "CPU microseconds that drawing a report of the first round took here, in bulk; from run to run "
    "another number",
    "distance": "distance of the mechanism to the information limit, 1 at the limit, from its plain estimates; unknown "
    "for fewer than eight runs",
    "distance_se": "its standard error",
    "limit_proved": "whether the recipe holds keys independently, as the limit asks; otherwise it is indicative",
    "least_mse_frequency": "the mean squared error of frequencies below which no locally unbiased estimator comes that "
    "spends all it learns on frequencies; biased ones may",
    **{name: one.about for name, one in MEASURES.items()},
    **{f"{name}_se": f"standard error of {name} over the runs" for name in MEASURES},
    **{
        f"regret_{name}": f"{name} over the least of all rows of the same people and ε"
        for name, one in MEASURES.items()
        if one.better == "less"
    },
    **{
        f"regret_same_{name}": f"{name} over the least with the same decoder"
        for name, one in MEASURES.items()
        if one.better == "less"
    },
    **{f"best_{name}": f"whether the row has the best {name}" for name, one in MEASURES.items() if one.better},
    **{f"tied_{name}": "whether it is not told from the best" for name, one in MEASURES.items() if one.better},
    "seconds": "CPU seconds of the cell, all decoders together",
}
"""Every column, in order, with what it means. Unknown numbers are missing."""


@dataclass(frozen=True, eq=False)
class Record:
    """Finished cells as rows, and who was refused."""

    rows: tuple[Row, ...]
    refused: tuple[dict[str, str], ...]  # data, epsilon, mechanism, decoder, reason
    planned: int  # cells, of which these are finished ones

    @property
    def settings(self) -> tuple[Setting, ...]:
        return tuple(dict.fromkeys(setting_of(row) for row in self.rows))

    def wins(self, measure: str) -> dict[tuple[str, str], tuple[int, int]]:
        """How often each contender with its decoder is best alone, and how often it shares the first place."""
        alone: Counter[tuple[str, str]] = Counter()
        shared: Counter[tuple[str, str]] = Counter()
        for rows in by_setting(self.rows).values():
            first = [row for row in rows if row[f"best_{measure}"] or row[f"tied_{measure}"]]
            for row in first:
                (alone if len(first) == 1 else shared)[row["mechanism"], row["decoder"]] += 1
        return {one: (alone[one], shared[one]) for one in dict.fromkeys([*alone, *shared])}


def record_of(cells: Sequence[Cell], finished: Mapping[str, Mapping[str, Any]]) -> Record:
    """The record of those cells that are finished."""
    done = [(cell, finished[cell.key]) for cell in cells if cell.key in finished]
    rows = [row for cell, one in done for row in _rows(cell, one)]
    for some in by_setting(rows).values():
        _rank(some)
    refused = [entry for cell, one in done for entry in _refused(cell, one)]
    return Record(tuple({name: row.get(name) for name in COLUMNS} for row in rows), tuple(refused), len(cells))


def by_setting(rows: Iterable[Row]) -> dict[Setting, list[Row]]:
    """Rows of the same people and ε together."""
    found: dict[Setting, list[Row]] = {}
    for row in rows:
        found.setdefault(setting_of(row), []).append(row)
    return found


def setting_of(row: Row) -> Setting:
    return row["data"], f"{row['epsilon']:g}"


def _rows(cell: Cell, done: Mapping[str, Any]) -> Iterator[Row]:
    for decoder, numbers in done["values"].items():
        row: Row = {
            "data": cell.people,
            "epsilon": float(Fraction(cell.epsilon)),
            "mechanism": cell.who,
            "decoder": decoder,
            "repeats": cell.repeats,
            "seed": cell.seed,
            "approximate": done["counts"] == LIMIT,
            "requested_epsilon": float(Fraction(done["requested"])),
            "proof": "submitted" if cell.submitted else "certified",
        }
        for name in MEASURES:
            row[name], row[f"{name}_se"] = numbers.get(name, (None, None))
        yield {**{name: done[name] for name in COLUMNS if name in done}, **row}


def _rank(rows: Sequence[Row]) -> None:
    """Fill in regrets and first places among the rows of one setting."""
    for name, measure in MEASURES.items():
        if not measure.better:
            continue
        sign = 1 if measure.better == "less" else -1
        scores = {
            str(place): Score(sign * row[name], row[f"{name}_se"], ())
            for place, row in enumerate(rows)
            if row[name] is not None
        }
        best, tied = winner(scores), ties(scores)
        for place, row in enumerate(rows):
            row[f"best_{name}"], row[f"tied_{name}"] = str(place) == best, str(place) in tied
            if measure.better == "less":
                same = [one for one in rows if one["decoder"] == row["decoder"]]
                row[f"regret_{name}"] = _regret(row, rows, name)
                row[f"regret_same_{name}"] = _regret(row, same, name)


def _regret(row: Row, among: Sequence[Row], name: str) -> float | None:
    errors = [one[name] for one in among if one[name] is not None]
    if row[name] is None or not errors:
        return None
    return float(row[name] / min(errors)) if min(errors) > 0 else None if row[name] > 0 else 1.0


def _refused(cell: Cell, done: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    place = {"data": cell.data, "epsilon": cell.epsilon, "mechanism": cell.who}
    if "refused" in done:
        yield {**place, "decoder": "", "reason": done["refused"]}
    for decoder, reason in done.get("decoders_refused", {}).items():
        yield {**place, "decoder": decoder, "reason": reason}


def typical(rows: Iterable[Row], column: str) -> float | None:
    """The geometric mean of a column over the rows that have it; None where none has."""
    told = [math.log(row[column]) for row in rows if row[column] is not None and row[column] > 0]
    return math.exp(sum(told) / len(told)) if told else None
