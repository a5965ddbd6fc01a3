"""The masses of cells: per key and cell, the share of people who hold the key with a value there, and its noise.

Every answer about a distribution (its cumulative, a quantile, a variance) is a weighted sum of masses, so all that
a kind of reports has to tell is the variance of such sums.

    LabelMasses     reports that support cells or points: unbiased masses, exact variances
    LevelMasses     levels through a sliding window: unbiased masses by least squares
    WindowMasses    any values through a sliding window: masses by EM, variances from the information
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from keyveil.core.histogram import Points
from keyveil.core.tally import Tally
from keyveil.kernels.em import window_em
from keyveil.learn.consistency import norm_sub
from keyveil.learn.places import Places
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import Cells, Windows, need
from keyveil.mechanisms.families.window import Window, WindowCounts
from keyveil.mechanisms.label_sums import LabelSums

Floats = NDArray[np.float64]

GROUPS = 16  # groups of neighbouring cells in the Fisher information of EM: docs/distributions.md
_LEAST = 2.0  # standard errors: a smaller frequency is taken as this large, since EM would fit noise
_EMPTY = 1e-6  # the share below which a group is not in the support
_CUT = 0.25  # of the range of weights: a larger step between neighbouring cells asks how their group is divided


@dataclass(frozen=True, eq=False, kw_only=True)
class Masses:
    """Estimated masses [d, cells] on [-1, 1]; a key may have fewer than others, and the rest of its row is zero."""

    values: Floats
    all_places: tuple[Places, ...]  # where they lie: one for all keys, or one for each
    respondents: NDArray[np.int64]  # per key, the reports that could speak about it
    dropped: Floats | None = None  # per key, the variance that is allowed for shares of values that a cap drops

    def places(self, key: int) -> Places:
        """Where the masses of a key lie."""
        return self.all_places[0 if len(self.all_places) == 1 else key]

    def of(self, key: int) -> Floats:
        """The masses of a key at its places."""
        return self.values[key, : len(self.places(key).points)]

    def variance(self, key: int, weights: Floats) -> Floats:
        """Of Σ weight · mass over the places of a key, for each row of weights; NaN if nothing is known of the key.

        The pairs that a cap drops may have other values than those that it keeps.
        """
        noise = self.noise(key, weights)
        if self.dropped is None:
            return noise
        return np.asarray(noise + self.dropped[key] * (self.of(key).sum() * np.ptp(weights, axis=1)) ** 2)

    @abstractmethod
    def noise(self, key: int, weights: Floats) -> Floats:
        """The part of ``variance`` that comes from reports."""


@dataclass(frozen=True, eq=False, kw_only=True)
class LabelMasses(Masses):
    """Reports that support labels: unbiased masses, whose sums have exact variances (``mechanisms.label_sums``)."""

    sums: LabelSums

    def noise(self, key: int, weights: Floats) -> Floats:
        one = slice(key, key + 1)
        padded = np.pad(weights, ((0, 0), (0, self.values.shape[1] - weights.shape[1])))
        return np.asarray(self.sums.of(one).variance(self.values[one], padded)[0])


@dataclass(frozen=True, eq=False, kw_only=True)
class LevelMasses(Masses):
    """Levels through a window: unbiased masses by weighted least squares, with their covariances.

    People count as a sample, so for fixed people the variance is a little too large.
    """

    covariances: tuple[Floats, ...]  # per key

    def noise(self, key: int, weights: Floats) -> Floats:
        return np.asarray(np.einsum("ma,ab,mb->m", weights, self.covariances[key], weights))


@dataclass(frozen=True, eq=False, kw_only=True)
class WindowMasses(Masses):
    """EM through a window: variances from the inverse Fisher information of at most GROUPS groups of cells.

    The masses of the groups are free, silence and fakes included; within a group the law is as EM found it, unless
    weights cut the group: then what its two parts have is free, too, up to all of its mass. People count as a sample,
    so for fixed people the variance is a little too large.
    """

    window: Window
    seen: float  # how often a pair that was sampled speaks
    fake: float  # how often a key that was not sampled speaks; 0 if there is no such thing
    scale: float  # by how much masses exceed the share of people whose pair was sampled

    def noise(self, key: int, weights: Floats) -> Floats:
        shares = self.values[key] / self.scale
        groups = np.arange(len(shares)) * min(GROUPS, len(shares)) // len(shares)
        total = np.bincount(groups, shares)
        if not shares.sum() > 0:
            return np.full(len(weights), np.nan)
        inner = np.zeros((len(shares), len(total)))  # the law within each group
        inner[np.arange(len(shares)), groups] = shares / np.maximum(total[groups], np.finfo(float).tiny)
        inner = inner[:, total > _EMPTY * shares.sum()]
        outputs = self.window.outputs
        slopes = self._slopes(inner)
        expected = self.seen * self._through(shares[:, None])[:, 0] + (1 - shares.sum()) * self.fake / outputs
        if self.fake:
            expected = np.append(expected, 1 - expected.sum())
        reports = self.respondents[key]
        weighted = slopes.T / expected * reports
        covariance = np.linalg.inv(weighted @ slopes)
        grouped = weights @ inner
        noise = np.einsum("mg,mg->m", grouped @ covariance, grouped)
        # Weights that change inside a group ask how its mass is divided there, which counts tell little of.
        cuts = np.flatnonzero(groups[1:] == groups[:-1])
        changes = np.abs(weights[:, cuts + 1] - weights[:, cuts]) > _CUT * np.ptp(weights, axis=1)[:, None]
        rows, columns = np.nonzero(changes)
        asked, columns = np.unique(columns, return_inverse=True)
        if len(asked):
            moved, most = _moved(shares, groups, total, cuts[asked])
            own = self._slopes(moved)
            with_groups = weighted @ own
            by_groups = covariance @ with_groups
            left = np.sum(own**2 / expected[:, None], axis=0) * reports - np.sum(with_groups * by_groups, axis=0)
            rises = weights[rows, cuts[asked][columns]] - weights[rows, cuts[asked][columns] + 1]
            told = rises - np.einsum("mg,gm->m", grouped[rows], by_groups[:, columns])
            with np.errstate(divide="ignore"):
                apart = np.minimum(told**2 / np.maximum(left[columns], 0), (rises * most[columns]) ** 2)
            noise += np.bincount(rows, apart, minlength=len(noise))
        return np.asarray(noise * self.scale**2)

    def _slopes(self, masses: Floats) -> Floats:
        """How the chances of all outputs, and of silence where keys may be silent, grow with columns of masses."""
        held = masses.sum(axis=0)
        slopes = self.seen * self._through(masses) - held * self.fake / self.window.outputs
        return np.vstack([slopes, held * (self.fake - self.seen)]) if self.fake else slopes

    def _through(self, columns: Floats) -> Floats:
        """The window's matrix times columns over the inputs, by cumulative sums."""
        channel, inputs, width = self.window.channel, self.window.inputs, self.window.channel.marked
        running = np.zeros((inputs + 1, columns.shape[1]))
        np.cumsum(columns, axis=0, out=running[1:])
        outputs = np.arange(self.window.outputs)
        sums = running[np.minimum(outputs + 1, inputs)] - running[np.maximum(outputs + 1 - width, 0)]
        through: Floats = float(channel.miss) * running[-1] + float(channel.hit - channel.miss) * sums
        return through


def _moved(shares: Floats, groups: NDArray[np.int64], total: Floats, cuts: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """For every cut behind a cell, one unit of mass moved within the cell's group from above the cut to below.

    The parts keep the law that they have, or an even one if they have no mass. And how much mass the group has.
    """
    cell, group = np.arange(len(shares))[:, None], groups[cuts]
    inside = groups[:, None] == group
    even = shares[:, None] + _EMPTY * np.maximum(total[group], np.finfo(float).tiny)
    below, above = (np.where(inside & side, even, 0.0) for side in (cell <= cuts, cell > cuts))
    return below / below.sum(axis=0) - above / above.sum(axis=0), total[group]


def label_masses(mechanism: Mechanism, tally: Tally, population: bool) -> LabelMasses:
    """The masses of a mechanism whose reports support cells or points."""
    cells = need(mechanism, Cells)
    histogram = cells.histogram(tally, population)
    respondents = mechanism.estimate(tally).respondents
    points = histogram.points
    fixed = True if points is None else points.levels
    return LabelMasses(
        values=histogram.mass,
        all_places=(Places.in_cells(histogram.edges),) if points is None else _places(points),
        respondents=respondents,
        sums=LabelSums.told(cells.cell_odds(), respondents, tally.reports, population, fixed),
    )


def _places(points: Points) -> tuple[Places, ...]:
    return tuple(
        Places.at_points(row[used], bool(levels))
        for row, used, levels in zip(points.at, points.used, points.levels, strict=True)
    )


def level_masses(told: WindowCounts) -> LevelMasses:
    """The masses of levels that a window tells; no law has to be found, so none is smeared."""
    assert told.inputs is not None
    d, width = len(told.counts), max(len(row) for row in told.inputs)
    values, covariances, matrix = np.zeros((d, width)), [], told.window.matrix()
    for key, inputs in enumerate(told.inputs):
        shares, covariance = _least_squares(told, key, matrix[:, inputs])
        values[key, : len(inputs)] = shares
        covariances.append(covariance)
    steps = told.window.inputs - 1
    return LevelMasses(
        values=values,
        all_places=tuple(Places.at_points(2 * np.array(row) / steps - 1, levels=True) for row in told.inputs),
        respondents=told.respondents,
        covariances=tuple(covariances),
    )


def _least_squares(told: WindowCounts, key: int, matrix: Floats) -> tuple[Floats, Floats]:
    """Masses of a key's levels and their covariance: what reports say, silence included, is linear in the masses."""
    n, outputs = int(told.respondents[key]), len(matrix)
    if not n:
        return np.zeros(matrix.shape[1]), np.full((matrix.shape[1],) * 2, np.nan)
    slopes = (told.seen * matrix - told.fake / outputs) / told.scale
    base, said = np.full(outputs, told.fake / outputs), told.counts[key] / n
    if told.fake:
        slopes = np.vstack([slopes, -slopes.sum(axis=0)])
        base, said = np.append(base, 1 - told.fake), np.append(said, 1 - said.sum())
    shares, likely = np.zeros(matrix.shape[1]), (said + base + 1 / outputs) / 3
    for _ in range(3):  # the weights of a later pass come from a possible law, not from noise
        weighted = slopes.T / likely
        information = weighted @ slopes
        shares = np.linalg.solve(information, weighted @ (said - base))
        held = float(np.clip(shares.sum(), 0.0, told.scale))
        likely = np.maximum(base + slopes @ norm_sub(shares, held), 1e-12)
    return shares, np.linalg.inv(information) / n


def window_masses(mechanism: Mechanism, tally: Tally, method: Literal["em", "ems"]) -> Masses:
    """The masses of a mechanism with a window, by ``em`` or ``ems``; those of levels need neither."""
    told = need(mechanism, Windows).window_counts(tally)
    if told.inputs is not None:
        return level_masses(told)
    points = np.linspace(-1.0, 1.0, told.window.inputs)
    frequency = mechanism.estimate(tally, population=True).frequency
    if frequency.absent:  # everybody holds every key
        held = np.ones(mechanism.schema.d)
    else:
        held = np.clip(np.maximum(frequency.values, _LEAST * frequency.se), 0.0, told.scale)
    values = np.zeros((mechanism.schema.d, told.window.inputs))
    spoken = np.flatnonzero(told.respondents)
    if len(spoken):
        values[spoken] = held[spoken, None] * _without_fakes(told, spoken, held[spoken] / told.scale, method)
    return WindowMasses(
        values=values,
        all_places=(Places.at_points(points, levels=False),),
        respondents=told.respondents,
        window=told.window,
        seen=told.seen,
        fake=told.fake,
        scale=told.scale,
    )


def _without_fakes(told: WindowCounts, keys: NDArray[np.int64], sampled: Floats, method: str) -> Floats:
    """EM with the fakes as a component of known law; their weight follows from the share of people who sampled a key.

    With no true answers at all EM would learn nothing of the cells, and with very few it would chase noise: that is
    why the share must not be taken too small.
    """
    channel = told.window.channel
    fakes = (1 - sampled) * told.fake
    return window_em(
        told.counts[keys],
        float(channel.hit),
        float(channel.miss),
        channel.marked,
        (fakes / (sampled * told.seen + fakes), np.full(channel.outputs, 1 / channel.outputs)),
        # Smoothing never converges to the likeliest law: it has to be stopped while it still gains.
        tolerance=1e-3 * (channel.high / channel.low if method == "em" else 1),
        smooth=method == "ems",
    )
