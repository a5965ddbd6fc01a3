"""What a mechanism gains and what a decoder gains, kept apart: geometric means of ratios of mean squared errors.

A ratio above 1 is a gain. Both sides are given their best form of every row (data set and epsilon), found on one half
of the runs and measured on the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from keyveil.lab.comparison import Comparison
from keyveil.lab.contenders import of_project
from keyveil.lab.scores import Score, told_apart


@dataclass(frozen=True)
class Gain:
    """How much smaller one error is than another over several rows, and in how many of them the runs tell so."""

    ratio: float  # geometric mean of the other error over this one
    least: float
    most: float
    wins: int
    ties: int  # less than two standard errors of the difference apart
    losses: int

    @property
    def rows(self) -> int:
        return self.wins + self.ties + self.losses

    def __str__(self) -> str:
        return f"{self.ratio:.2f}"


def gain(pairs: Iterable[tuple[Score, Score]]) -> Gain | None:
    """The gain of the first of every pair of scores over the second; None where there is no row."""
    rows = [(mine, other) for mine, other in pairs if mine.error > 0 and other.error > 0]
    if not rows:
        return None
    ratios = [other.error / mine.error for mine, other in rows]
    signs = [told_apart(mine, other) for mine, other in rows]
    ratio = math.exp(math.fsum(map(math.log, ratios)) / len(ratios))
    return Gain(ratio, min(ratios), max(ratios), signs.count(1), signs.count(0), signs.count(-1))


def mechanism_gain(
    comparisons: Sequence[Comparison], quantity: str, decoder: str, against: str | None = None
) -> Gain | None:
    """The best of this project against the best published mechanism, both with one decoder.

    With ``against``, the published ones have that decoder instead: then the gains of mechanism and decoder are mixed.
    """
    return gain(
        (ours, theirs)
        for one, epsilon in _rows(comparisons)
        if (ours := one.best_of(_side(one, True), epsilon, quantity, decoder))
        and (theirs := one.best_of(_side(one, False), epsilon, quantity, against or decoder))
    )


def decoder_gain(
    comparisons: Sequence[Comparison], labels: Sequence[str], quantity: str, decoder: str, against: str
) -> Gain | None:
    """What a decoder gains over another for one mechanism, each with the form that suits it best."""
    return gain(
        (mine, other)
        for one, epsilon in _rows(comparisons)
        if (mine := one.best_of(labels, epsilon, quantity, decoder))
        and (other := one.best_of(labels, epsilon, quantity, against))
    )


def _rows(comparisons: Sequence[Comparison]) -> Iterator[tuple[Comparison, Fraction]]:
    return ((one, epsilon) for one in comparisons for epsilon in one.epsilons)


def _side(one: Comparison, ours: bool) -> list[str]:
    return [label for label in one.mechanisms if of_project(label) == ours]
