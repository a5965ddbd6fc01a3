"""The masses of cells: per key and cell, the share of people who hold the key with a value there, and its noise.

Every answer about a distribution (its cumulative, a quantile, a variance) is a weighted sum of masses, so all that
a kind of reports has to tell is the variance of such sums.

    LabelMasses     reports that support cells: unbiased masses, exact variances
    WindowMasses    reports through a sliding window: masses by EM, variances from the information
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from keyveil.core.tally import Tally
from keyveil.kernels.em import window_em
from keyveil.learn.consistency import norm_sub
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import Cells, Windows, need
from keyveil.mechanisms.families.set_response import Odds
from keyveil.mechanisms.families.window import Window, WindowCounts

Floats = NDArray[np.float64]

GROUPS = 16  # groups of neighbouring cells in the Fisher information of EM: docs/distributions.md
_LEAST = 2.0  # standard errors: a smaller frequency is taken as this large, since EM would fit noise
_EMPTY = 1e-6  # the share below which a group is not in the support


@dataclass(frozen=True, eq=False, kw_only=True)
class Masses:
    """Estimated masses [d, cells] on cells of [-1, 1]."""

    values: Floats
    points: Floats  # where the mass of a cell is taken to lie
    edges: Floats
    respondents: NDArray[np.int64]  # per key, the reports that could speak about it

    @abstractmethod
    def variance(self, key: int, weights: Floats) -> Floats:
        """Of Σ weight · mass over the cells of a key, for each row of weights; NaN if nothing is known of the key."""


@dataclass(frozen=True, eq=False, kw_only=True)
class LabelMasses(Masses):
    """Reports that support cells; with weights h, a report's statistic is T = Σ h over the cells that it supports."""

    odds: tuple[Odds, ...]  # per key
    known: Floats  # per key, the share of the target that responded

    def variance(self, key: int, weights: Floats) -> Floats:
        own, other, mixed, two = (float(odds) for odds in self.odds[key][:4])
        raw = self.values[key]
        if not self.respondents[key]:
            return np.full(len(weights), np.nan)
        frequency = float(np.clip(raw.sum(), 0.0, 1.0))
        cells, absent = norm_sub(raw, frequency), 1 - frequency
        total, squares = weights.sum(axis=1, keepdims=True), (weights**2).sum(axis=1, keepdims=True)
        rest, rest_squares = total - weights, squares - weights**2
        mean = own * weights + other * rest  # of T, for a holder with a value in the cell
        square = own * weights**2 + other * rest_squares + 2 * mixed * weights * rest + two * (rest**2 - rest_squares)
        stranger, stranger_square = other * total[:, 0], other * squares[:, 0] + two * (total**2 - squares)[:, 0]
        all_squares = square @ cells + absent * stranger_square
        own_squares = mean**2 @ cells + absent * stranger**2  # of everybody's own mean
        between = own_squares - (mean @ cells + absent * stranger) ** 2
        spread = all_squares - own_squares + (1 - self.known[key]) * between
        noise: Floats = np.maximum(spread, 0.0) / (self.respondents[key] * (own - other) ** 2)
        return noise


@dataclass(frozen=True, eq=False, kw_only=True)
class WindowMasses(Masses):
    """EM through a window: variances from the inverse Fisher information of at most GROUPS groups of cells.

    The masses of the groups are free, silence and fakes included; within a group the law is as EM found it. People
    count as a sample, so for fixed people the variance is a little too large.
    """

    window: Window
    seen: float  # how often a pair that was sampled speaks
    fake: float  # how often a key that was not sampled speaks; 0 if there is no such thing
    scale: float  # by how much masses exceed the share of people whose pair was sampled

    def variance(self, key: int, weights: Floats) -> Floats:
        shares = self.values[key] / self.scale
        groups = np.arange(len(shares)) * min(GROUPS, len(shares)) // len(shares)
        total = np.bincount(groups, shares)
        if not shares.sum() > 0:
            return np.full(len(weights), np.nan)
        inner = np.zeros((len(shares), len(total)))  # the law within each group
        inner[np.arange(len(shares)), groups] = shares / np.maximum(total[groups], np.finfo(float).tiny)
        inner = inner[:, total > _EMPTY * shares.sum()]
        outputs = self.window.outputs
        slopes = self.seen * self._through(inner) - self.fake / outputs
        expected = self.seen * self._through(shares[:, None])[:, 0] + (1 - shares.sum()) * self.fake / outputs
        if self.fake:
            slopes = np.vstack([slopes, np.full(slopes.shape[1], self.fake - self.seen)])
            expected = np.append(expected, 1 - expected.sum())
        information = (slopes.T / expected) @ slopes * self.respondents[key]
        grouped = weights @ inner
        noise: Floats = np.einsum("mg,mg->m", grouped, np.linalg.solve(information, grouped.T).T) * self.scale**2
        return noise

    def _through(self, columns: Floats) -> Floats:
        """The window's matrix times columns over the inputs, by cumulative sums."""
        channel, inputs, width = self.window.channel, self.window.inputs, self.window.channel.marked
        running = np.zeros((inputs + 1, columns.shape[1]))
        np.cumsum(columns, axis=0, out=running[1:])
        outputs = np.arange(self.window.outputs)
        sums = running[np.minimum(outputs + 1, inputs)] - running[np.maximum(outputs + 1 - width, 0)]
        through: Floats = float(channel.miss) * running[-1] + float(channel.hit - channel.miss) * sums
        return through


def label_masses(mechanism: Mechanism, tally: Tally, population: bool) -> LabelMasses:
    """The masses of a mechanism whose reports support cells."""
    cells = need(mechanism, Cells)
    histogram = cells.histogram(tally, population)
    respondents = mechanism.estimate(tally).respondents
    known = np.zeros(mechanism.schema.d) if population else respondents / max(tally.reports, 1)
    middle = (histogram.edges[1:] + histogram.edges[:-1]) / 2
    return LabelMasses(
        values=histogram.mass,
        points=middle,
        edges=histogram.edges,
        respondents=respondents,
        odds=tuple(cells.cell_odds()),
        known=known,
    )


def window_masses(mechanism: Mechanism, tally: Tally, method: Literal["em", "ems"]) -> WindowMasses:
    """The masses of a mechanism with a window, by ``em`` or ``ems``."""
    told = need(mechanism, Windows).window_counts(tally)
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
        points=points,
        edges=np.concatenate(([-1.0], (points[1:] + points[:-1]) / 2, [1.0])),
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
