"""Cells over a few keys — each key minus, absent or plus — as frequency oracles report them, pooled and with errors.

A member is a set of keys that some reports are about; its table counts the reports and their supports of cells. A
statistic comes from all members that hold its keys. They all have the same error for each report, so adding their
counts is weighting them by inverse variance.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from keyveil.mechanisms.categorical.grr import GRR
from keyveil.mechanisms.effects import Average
from keyveil.mechanisms.families.categorical import FrequencyOracle
from keyveil.mechanisms.joint.ranks import Ints, rank_sets
from keyveil.mechanisms.joint.statistics import Floats, JointAnswers, Statistic, WithProducts, both, share, total

MINUS, ABSENT, PLUS = range(3)  # digits of a cell's number in base 3, the first key's digit first


class KeyTables(NamedTuple):
    """Sets of keys, and how people are spread over the cells of each."""

    members: Ints  # [members, size], each rising
    shares: Floats  # unbiased, [members, 3^size]; NaN where there are no reports
    reports: Ints  # [members]


def pooled(members: Ints, tables: Ints, keys: Ints) -> Ints:
    """For rows of keys [m, t] the reports and supports [m, 1 + 3^t] of all members [members, L] that hold them.

    A table has the reports first, then the supports of 3^L cells; the digits of a cell follow the order of the keys.
    """
    size, order = keys.shape[1], np.argsort(keys, axis=1)
    wanted, rows = np.unique(rank_sets(np.sort(keys, axis=1)), return_inverse=True)
    sums = np.zeros((len(wanted), 1 + 3**size), dtype=np.int64)
    for places in combinations(range(members.shape[1]), size):
        ranks = rank_sets(members[:, list(places)])
        at = np.minimum(np.searchsorted(wanted, ranks), len(wanted) - 1)
        here = np.flatnonzero(wanted[at] == ranks)
        np.add.at(sums, at[here], marginal(tables[here], places))
    result = sums[rows]
    for turn in np.unique(order, axis=0) if size else []:  # from rising keys back to the order of the row
        some = np.flatnonzero((order == turn).all(axis=1))
        cells = result[some, 1:].reshape(len(some), *[3] * size).transpose(0, *(1 + np.argsort(turn)))
        result[some, 1:] = cells.reshape(len(some), 3**size)
    return result


def marginal(tables: Ints, places: Sequence[int]) -> Ints:
    """Tables of the keys at some places only."""
    length = round(np.log(tables.shape[1] - 1) / np.log(3))
    gone = tuple(1 + place for place in range(length) if place not in places)
    cells = tables[:, 1:].reshape(len(tables), *[3] * length).sum(axis=gone)
    return np.concatenate([tables[:, :1], cells.reshape(len(tables), 3 ** len(places))], axis=1)


def answer_from_cells(
    oracle: FrequencyOracle,
    members: Ints,
    tables: Ints,
    keys: Ints,
    statistics: Sequence[Statistic],
    n: int,
    population: bool,
) -> JointAnswers:
    """Statistics of rows of keys from what an oracle says about the cells of members."""
    length, wanted = members.shape[1], WithProducts(statistics)
    gain = float(oracle.response.holder.support - oracle.response.stranger.support)
    fake = float(oracle.response.stranger.support)
    counts = {
        places: pooled(members, tables, keys[:, list(places)])
        for places in {tuple(sorted({*a.places, *b.places})) for a in statistics for b in statistics}
    }
    respondents = np.array([counts[one.places][:, 0] for one in wanted.every]).T
    sizes = np.array([_cells(one, length) for one in wanted.every])
    sums = np.array([counts[one.places][:, 1:] @ _signs(one) for one in wanted.every]).T
    with np.errstate(divide="ignore", invalid="ignore"):
        values = (sums / respondents - fake * sizes) / gain
    certain = [at for at, one in enumerate(wanted.every) if not one.places]  # everybody: one, without error
    values[:, certain] = 1.0
    covariance = _per_report(oracle, wanted, values, sizes, length)
    for i, a in enumerate(statistics):
        for j, b in enumerate(statistics):
            common = counts[tuple(sorted({*a.places, *b.places}))][:, 0]
            with np.errstate(divide="ignore", invalid="ignore"):
                covariance[:, i, j] *= common / (respondents[:, i].astype(np.float64) * respondents[:, j])
    certain = [at for at in certain if at < len(statistics)]
    covariance[:, certain, :] = covariance[:, :, certain] = 0.0
    if not population:
        covariance = wanted.of_these_people(values, covariance, n)
    own = slice(len(statistics))
    return JointAnswers(values[:, own], covariance, respondents[:, own].min(axis=1))


def effects_of_cells(
    oracle: FrequencyOracle, members: Ints, tables: Ints, keys: Ints, statistic: Statistic
) -> list[Average]:
    """What one report can add to a statistic of a row of keys: GRR supports one cell, unary oracles any cells."""
    places, length = statistic.places, members.shape[1]
    if not places:
        return []  # everybody, without error
    people = int(pooled(members, tables, keys[None, list(places)])[0, 0])
    gain = float(oracle.response.holder.support - oracle.response.stranger.support)
    level = float(oracle.response.stranger.support) * _cells(statistic, length)
    signs = _signs(statistic)
    least, largest = int(signs.min()), int(signs.max())
    if not isinstance(oracle, GRR):
        times = 3 ** (length - len(places))
        least, largest = (times * int(edge(signs, 0).sum()) for edge in (np.minimum, np.maximum))
    return [Average(people, (least - level) / gain, (largest - level) / gain)]


def predicted_from_cells(
    oracle: FrequencyOracle, length: int, frequency: Floats, mean: Floats, respondents: Floats, n: int, population: bool
) -> Floats:
    """Covariance [keys, 2, 2] of the estimates of f and f·m from so many reports about members of ``length`` keys."""
    wanted, values = WithProducts([share({0: True}), total(0, {})]), np.stack([frequency, frequency * mean], axis=1)
    sizes = np.array([_cells(statistic, length) for statistic in wanted.every])
    covariance = _per_report(oracle, wanted, values, sizes, length) / respondents[:, None, None]
    return covariance if population else wanted.of_these_people(values, covariance, n)


def _per_report(oracle: FrequencyOracle, wanted: WithProducts, values: Floats, sizes: Ints, length: int) -> Floats:
    """Covariance [rows, i, j] of the statistics from one report by a random person.

    GRR supports exactly one cell; unary oracles support cells independently, given the true one. Everything follows
    from how many cells two statistics share, and how many people.
    """
    own, fake = (float(part.support) for part in (oracle.response.holder, oracle.response.stranger))
    statistics = wanted.statistics
    shared = np.array([[_cells(both(a, b), length) for b in statistics] for a in statistics])
    people, gain = wanted.products(values), own - fake
    likely = np.clip(np.nan_to_num(values[:, : len(statistics)]), -1, 1)
    if isinstance(oracle, GRR):
        seen = fake * sizes[: len(statistics)] + gain * likely
        return (fake * shared + gain * people - seen[:, :, None] * seen[:, None, :]) / gain**2
    spread: Floats = (fake * (1 - fake) * shared + gain * (1 - 2 * fake) * people) / gain**2
    return spread - likely[:, :, None] * likely[:, None, :]


def _cells(statistic: Statistic | None, length: int) -> int:
    """Cells that a statistic counts, plus less minus."""
    if statistic is None or statistic.values:
        return 0
    return int(2 ** sum(held for _, held in statistic.held) * 3 ** (length - len(statistic.held)))


def _signs(statistic: Statistic) -> Ints:
    """What each cell over the statistic's own places counts."""
    size = len(statistic.places)
    digits, signs = np.indices([3] * size).reshape(size, 3**size), np.ones(3**size, dtype=np.int64)
    for row, place in zip(digits, statistic.places, strict=True):
        if place in statistic.values:
            signs *= row - ABSENT
        else:
            signs *= (row != ABSENT) == statistic.condition[place]
    return signs
