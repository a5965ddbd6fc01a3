"""Tables over the states of a few keys — absent, or one of some levels of the value — and what they say of the keys.

Reports told the states of some keys by randomised response over all combinations: with probability ``kept`` the truth,
else one that is uniform. A sum over combinations is then unbiased after one affine step, whatever the levels are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from keyveil.mechanisms.effects import Average
from keyveil.mechanisms.joint.ranks import Ints
from keyveil.mechanisms.joint.statistics import Floats, JointAnswers, Statistic, WithProducts
from keyveil.mechanisms.responses import FEWEST

Places = tuple[int, ...]


def union(one: Statistic, other: Statistic) -> Places:
    """The places that two statistics look at."""
    return tuple(sorted({*one.places, *other.places}))


def needed(statistics: Sequence[Statistic]) -> set[Places]:
    """The places of which tables are needed, for these statistics and their covariances."""
    every = WithProducts(statistics).every
    return {one.places for one in every} | {union(one, other) for one in statistics for other in statistics}


def answer_from_states(
    tables: Mapping[Places, Ints],
    levels: Floats,
    kept: float,
    statistics: Sequence[Statistic],
    n: int,
    population: bool,
) -> JointAnswers:
    """Statistics of rows of keys from counts of combinations ``tables[places][rows, states^places]``.

    ``levels`` has the value of each state, on [-1, 1], 0 for absent, the first.
    """
    wanted = WithProducts(statistics)
    heard = {places: table.sum(axis=1).astype(np.float64) for places, table in tables.items()}
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = {places: table / heard[places][:, None] for places, table in tables.items()}
        values = np.stack(
            [_unbiased(shares[one.places], _worth(one, one.places, levels), kept) for one in wanted.every], 1
        )
        covariance = np.empty((len(values), len(statistics), len(statistics)))
        for i, one in enumerate(statistics):
            for j, other in enumerate(statistics):
                both = union(one, other)
                law, mine, theirs = shares[both], _worth(one, both, levels), _worth(other, both, levels)
                per_report = (law @ (mine * theirs) - (law @ mine) * (law @ theirs)) / kept**2
                reports = heard[one.places] * heard[other.places]
                covariance[:, i, j] = per_report * heard[both] / reports
            if one.places:
                floor = FEWEST / (heard[one.places] * kept) ** 2
                covariance[:, i, i] = np.maximum(covariance[:, i, i], floor)
    if not population:
        covariance = wanted.of_these_people(values, covariance, n)
    own = values[:, : len(statistics)]
    least = np.array([heard[one.places] for one in statistics]).min(axis=0)
    return JointAnswers(own, covariance, least.astype(np.int64))


def effects_of_states(table: Ints, levels: Floats, kept: float, statistic: Statistic) -> list[Average]:
    """What one report can add to a statistic, from the counts of combinations of states at its own places."""
    if not statistic.places:
        return []  # everybody, without error
    worth = _worth(statistic, statistic.places, levels)
    least, largest = ((float(edge) - (1 - kept) * float(worth.mean())) / kept for edge in (worth.min(), worth.max()))
    return [Average(int(table.sum()), least, largest)]


def _unbiased(shares: Floats, worth: Floats, kept: float) -> Floats:
    """The mean over people of what each combination is worth."""
    result: Floats = (shares @ worth - (1 - kept) * worth.mean()) / kept
    return result


def _worth(statistic: Statistic, places: Places, levels: Floats) -> Floats:
    """What each combination of states at these places counts for the statistic; the first place changes slowest."""
    worth = np.ones(1)
    for place in places:
        if place in statistic.values:
            factor = levels
        elif place in statistic.condition:
            factor = ((np.arange(len(levels)) > 0) == statistic.condition[place]).astype(np.float64)
        else:
            factor = np.ones(len(levels))
        worth = np.outer(worth, factor).ravel()
    return worth
