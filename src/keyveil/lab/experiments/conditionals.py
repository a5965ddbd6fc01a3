"""Errors of two-way conditionals (Sun et al. 2019): how many of those with one key hold another, and its mean there."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from keyveil.lab.experiments.people import Crowd
from keyveil.lab.experiments.readings import Points, Run
from keyveil.learn.conditionals import Conditionals

Floats = NDArray[np.float64]
MOST_PAIRS = 12  # ordered pairs of keys that are asked about; there are d(d - 1)


def conditional_frequency(run: Run, points: Points) -> Sequence[float]:
    """The absolute error of the frequency of one key among the holders of another, averaged over pairs."""
    return [_error(run, 0)]


def conditional_mean(run: Run, points: Points) -> Sequence[float]:
    """The same of the mean, cut to [-1, 1]."""
    return [_error(run, 1)]


def _error(run: Run, kind: int) -> float:
    last = run.history[-1]
    asked, schema = Conditionals(last.round.mechanism, last.tally), run.crowd.schema
    errors = []
    for one, other in list(permutations(range(schema.d), 2))[:MOST_PAIRS]:
        key, given = schema.keys[one], {schema.keys[other]: True}
        found = asked.mean(key, given).value if kind else asked.frequency(key, given).value
        low = -1.0 if kind else 0.0
        shown = float(np.clip(np.nan_to_num(found), low, 1))
        errors.append(abs(shown - truth(run.crowd, one, other)[kind]))
    return float(np.mean(errors))


@lru_cache(maxsize=256)
def truth(crowd: Crowd, key: int, given: int) -> tuple[float, float]:
    """The share of the holders of ``given`` who hold the key, and the mean of the key among them."""
    people = crowd.population
    users = np.repeat(np.arange(people.n), people.sizes)
    values = np.zeros((people.n, 2))
    holds = np.zeros((people.n, 2), dtype=bool)
    for place, wanted in enumerate((key, given)):
        rows = people.keys == wanted
        holds[users[rows], place], values[users[rows], place] = True, people.values[rows]
    both = holds.all(axis=1)
    return float(both.sum() / max(holds[:, 1].sum(), 1)), float(values[both, 0].mean()) if both.any() else 0.0
