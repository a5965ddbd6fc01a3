"""Errors over several runs: who has the least, who is not told from it, and which form of a contender is its best.

The best of several forms is found on one half of the runs and measured on the other. Found and measured on the same
runs, it would look better than it is: among many forms one is lucky.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

TIE = 2  # standard errors of a difference below which two errors are not told apart


@dataclass(frozen=True)
class Score:
    """A mean squared error over some runs, and its standard error; None after a single run.

    ``forms`` are the labels behind it: one, or two where each half of the runs found another best form.
    """

    error: float
    spread: float | None
    forms: tuple[str, ...]


def score(label: str, runs: Sequence[float]) -> Score:
    """The score of one form from its errors run by run."""
    return _averaged(runs, (label,))


def best_form(runs: Mapping[str, Sequence[float]]) -> Score | None:
    """The score of the best of several forms, from the errors of each, run by run; None if there is no form.

    The runs fall into two halves, by turns. Each half is measured with the form that has the least error in the other
    half. A single run cannot be halved: then the first form stands for all.
    """
    if not runs:
        return None
    count = min(len(errors) for errors in runs.values())
    if len(runs) == 1 or count < 2:
        label = next(iter(runs))
        return score(label, runs[label])
    found: list[float] = []
    forms: list[str] = []
    for half in (0, 1):
        best = min(runs, key=lambda label: float(np.mean(runs[label][1 - half : count : 2])))
        found += runs[best][half:count:2]
        forms.append(best)
    return _averaged(found, tuple(dict.fromkeys(forms)))


def winner(scores: Mapping[str, Score]) -> str | None:
    """Who has the least error."""
    return min(scores, key=lambda name: scores[name].error) if scores else None


def ties(scores: Mapping[str, Score]) -> tuple[str, ...]:
    """Whom the runs do not tell from the winner."""
    best = winner(scores)
    return tuple(name for name in scores if best and name != best and told_apart(scores[best], scores[name]) == 0)


def told_apart(one: Score, other: Score) -> int:
    """1 if the first error is smaller by two standard errors of the difference, -1 if it is larger, 0 for a tie.

    After a single run nothing is known about the spread; then the smaller error is the smaller one.
    """
    gap = other.error - one.error
    if one.spread is not None and other.spread is not None and abs(gap) < TIE * math.hypot(one.spread, other.spread):
        return 0
    return int(np.sign(gap))


def _averaged(runs: Sequence[float], forms: tuple[str, ...]) -> Score:
    spread = float(np.std(runs, ddof=1) / math.sqrt(len(runs))) if len(runs) > 1 else None
    return Score(float(np.mean(runs)), spread, forms)
