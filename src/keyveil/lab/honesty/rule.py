"""What must hold of the counts: intervals cover, are not too wide, and a flag is deserved.

Coverage is tested on one side, with Holm's correction over all cells and questions together, so that a page of
thousands of cells raises a false alarm with probability 0.05. The tests take intervals as independent. Those of one run
are not, quite; a cell has few runs where it has many keys, so the rule errs towards alarm.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keyveil.core.extras import extra
from keyveil.lab.honesty.cells import COLUMNS, Cell, Count, Measured

LEAST_COVERAGE, LEAST_AFTER_SHRINKAGE, MOST_COVERAGE = 0.93, 0.92, 0.97
ALARM = 0.05
DESERVED = 0.8  # share of truncated keys whose undercount must matter
HIDDEN = 0.5  # share of the strong keys that may be flagged
FEW = 20  # keys below which a share says nothing
BIASED, SURE = 0.2, 3.0
"""Standard errors by which estimates lie off the truth on average, beyond so many standard errors of that average, from
which on a contender is measured on so many people that a bias outweighs noise."""


@dataclass(frozen=True)
class Fault:
    """What does not hold, where."""

    cell: Cell
    question: str
    kind: str  # "misses", "too wide", "undeserved" or "hides"
    share: float
    of: int

    def __str__(self) -> str:
        what = {
            "misses": "of the intervals hold the truth",
            "too wide": "of the plain intervals hold the truth",
            "undeserved": "of the keys called truncated are undercounted",
            "hides": "of the keys beyond 5 standard errors are flagged",
        }[self.kind]
        return f"{self.share:.3f} of {self.of} {what}"


def faults(measured: Iterable[Measured]) -> list[Fault]:
    """Everything that breaks the rule."""
    rows = [(one.cell, question, count) for one in measured for question, count in one.counts.items()]
    found = [*_coverage(rows, low=True), *_coverage(rows, low=False)]
    for cell, question, count in rows:
        cut = count.flags["truncated"]
        # whether a sum or a quantile is undercounted is not counted
        if question in COLUMNS and cut >= FEW and count.truncated_rightly < DESERVED * cut:
            found.append(Fault(cell, question, "undeserved", count.truncated_rightly / cut, cut))
        if count.strong >= FEW and count.strong_flagged > HIDDEN * count.strong:
            found.append(Fault(cell, question, "hides", count.strong_flagged / count.strong, count.strong))
    return found


def biased(measured: Iterable[Measured]) -> set[tuple[str, str]]:
    """The contenders whose unshrunk estimates show a bias on a population, all epsilons taken together."""
    told: dict[tuple[str, str, str], tuple[int, float]] = {}
    for one in measured:
        for question, count in one.counts.items():
            pair = one.cell.contender, one.cell.population, question
            tested, above = told.get(pair, (0, 0.0))
            told[pair] = tested + count.tested, above + count.above
    return {
        (contender, population)
        for (contender, population, _), (tested, above) in told.items()
        if tested and abs(above) / tested - SURE / math.sqrt(tested) > BIASED
    }


def _coverage(rows: Sequence[tuple[Cell, str, Count]], *, low: bool) -> list[Fault]:
    """The cells in which intervals hold the truth too seldom, or plain ones too often."""
    with extra("local", "Tests of coverage"):
        from scipy import stats

    tested = [(count.tested, count.covered) if low else (count.plain, count.plain_covered) for *_, count in rows]
    limits = [_least(question) if low else MOST_COVERAGE for _, question, _ in rows]
    chances = np.array(
        [
            stats.binom.cdf(covered, n, limit) if low else stats.binom.sf(covered - 1, n, limit)
            for (n, covered), limit in zip(tested, limits, strict=True)
        ]
    )
    return [
        Fault(cell, question, "misses" if low else "too wide", covered / n, n)
        for (cell, question, _), (n, covered), fails in zip(rows, tested, holm(chances), strict=True)
        if fails
    ]


def holm(chances: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which of some tests reject together, with a false alarm of ``ALARM`` among all of them."""
    order = np.argsort(chances)
    rejected = np.zeros(len(chances), dtype=bool)
    for rank, place in enumerate(order):
        if chances[place] > ALARM / (len(chances) - rank):
            break
        rejected[place] = True
    return rejected


def _least(question: str) -> float:
    return LEAST_AFTER_SHRINKAGE if question.endswith("shrunk") else LEAST_COVERAGE
