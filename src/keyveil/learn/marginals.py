"""Marginals that agree: shared keys have one law, and no share is negative (docs/mechanisms/marginals.md)."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from keyveil.core.tally import Tally
from keyveil.learn.consistency import norm_sub
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import ContingencyTables, need
from keyveil.mechanisms.joint.ranks import Ints, rank_sets
from keyveil.mechanisms.responses import Floats

SWEEPS = 3  # of averaging and Norm-Sub: docs/mechanisms/marginals.md


def consistent(mechanism: Mechanism, tally: Tally, sweeps: int = SWEEPS) -> Floats:
    """The shares of the cells of every member [members, 3^size], made possible: better together, biased one by one."""
    members, raw, reports = need(mechanism, ContingencyTables, "question/no-cells").contingency_tables(tally)
    shares = np.where(np.isfinite(raw), raw, 1 / raw.shape[1])
    for _ in range(sweeps):
        shares = np.array([norm_sub(row) for row in agreed(members, shares, reports)])
    return shares


def agreed(members: Ints, shares: Floats, weights: Ints) -> Floats:
    """Sub-marginals that members share are replaced by their weighted average, from small to large.

    The difference is spread evenly over the cells, so a step leaves all smaller sub-marginals as they are.
    """
    size = members.shape[1]
    cells = shares.reshape(-1, *[3] * size).copy()
    for shared in range(size):
        groups = [(places, rank_sets(members[:, list(places)])) for places in combinations(range(size), shared)]
        own = [_over(cells, places) for places, _ in groups]
        known, at = np.unique(np.concatenate([ranks for _, ranks in groups]), return_inverse=True)
        heaviness = np.tile(np.maximum(weights, 1e-9), len(groups))
        sums = np.zeros((len(known), 3**shared))
        np.add.at(sums, at, np.concatenate(own) * heaviness[:, None])
        average = (sums / np.bincount(at, weights=heaviness)[:, None])[at].reshape(len(groups), len(members), -1)
        for (places, _), mean, mine in zip(groups, average, own, strict=True):
            shape = [3 if place in places else 1 for place in range(size)]
            cells += ((mean - mine) / 3 ** (size - shared)).reshape(-1, *shape)
    return cells.reshape(shares.shape)


def _over(cells: Floats, places: tuple[int, ...]) -> Floats:
    gone = tuple(1 + place for place in range(cells.ndim - 1) if place not in places)
    summed: Floats = cells.sum(axis=gone).reshape(len(cells), -1)
    return summed
