"""Weighted sums over the labels of a key: the variance of Σ weight · mass, from how often reports support labels.

The mass of a label is the share of people who hold the key with a value of that label. A mean is such a sum (its
weights are the points), and so is the share of values below a place. Derivation: docs/distributions.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.core.histogram import Histogram, Points
from keyveil.core.schema import Schema
from keyveil.kernels.simplex import nearest_rows
from keyveil.mechanisms.responses import FEWEST, Solution, Spread

Floats = NDArray[np.float64]

_ENTRIES = 1 << 20


@dataclass(frozen=True, eq=False)
class LabelSums:
    """How the supports of labels answer to the people who hold them, for some keys.

    With weights h a report's statistic is T = Σ h over the labels that it supports.
    """

    odds: Floats  # [d, 4]: how often a held label, a foreign one, a held and a foreign, two foreign ones are supported
    respondents: Floats  # [d], the reports that could speak about the key
    known: Floats  # [d], the share of the target that responded
    fixed: NDArray[np.bool_]  # [d], whether a person's label follows from the value; else it is drawn at random

    @classmethod
    def told(
        cls,
        odds: Sequence[Sequence[Any]],
        respondents: NDArray[np.int64],
        n: int,
        population: bool,
        fixed: NDArray[np.bool_] | bool = True,
    ) -> LabelSums:
        """For the people of a tally of ``n`` reports, or for the population that they are a sample of."""
        people = respondents.astype(np.float64)
        known = np.zeros_like(people) if population else people / max(n, 1)
        numbers = np.array([[float(one) for one in row[:4]] for row in odds])
        return cls(numbers, people, known, np.broadcast_to(fixed, people.shape))

    def of(self, keys: slice) -> LabelSums:
        """The same for some of the keys."""
        return LabelSums(self.odds[keys], self.respondents[keys], self.known[keys], self.fixed[keys])

    def masses(self, supports: NDArray[np.int64]) -> Floats:
        """Unbiased masses [d, labels] from the supports of labels; NaN where nobody was asked."""
        own, other = self.odds[:, :1], self.odds[:, 1:2]
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray((supports / self.respondents[:, None] - other) / (own - other))

    def variance(self, masses: Floats, weights: Floats) -> Floats:
        """Of Σ weight · mass, [d, rows], at these masses; ``weights`` are [rows, labels], or [d, rows, labels].

        Masses may be estimates: what is not possible in them is moved to the nearest that is. Of people whose label is
        drawn, only the mean of their statistics is known, so values are taken as constant: that errs upwards.
        """
        raw = np.nan_to_num(masses)
        frequency = np.clip(raw.sum(axis=1), 0.0, 1.0)
        cells, absent = nearest_rows(raw, frequency)[:, None], (1 - frequency)[:, None]
        own, other, mixed, two = (self.odds[:, at, None, None] for at in range(4))
        h = np.broadcast_to(weights, (len(raw), *weights.shape[-2:]))
        total, squares = h.sum(axis=2, keepdims=True), (h**2).sum(axis=2, keepdims=True)
        rest, rest_squares = total - h, squares - h**2
        mean = own * h + other * rest  # of T, for a holder of the label
        square = own * h**2 + other * rest_squares + 2 * mixed * h * rest + two * (rest**2 - rest_squares)
        stranger = (other * total)[..., 0]
        stranger_square = (other * squares + two * (total**2 - squares))[..., 0]
        of_holders = (mean * cells).sum(axis=2)
        spread = (mean**2 * cells).sum(axis=2)
        constant = of_holders**2 / np.maximum(frequency, 1e-300)[:, None]
        everybody = (square * cells).sum(axis=2) + absent * stranger_square
        own_squares = np.where(self.fixed[:, None], spread, constant) + absent * stranger**2  # of everybody's own mean
        between = own_squares - (of_holders + absent * stranger) ** 2
        noise = np.maximum(everybody - own_squares + (1 - self.known)[:, None] * between, 0.0)
        gain = (self.odds[:, 0] - self.odds[:, 1])[:, None]
        variance: Floats = noise / (np.maximum(self.respondents, 1)[:, None] * gain**2)
        return np.where(self.respondents[:, None] > 0, variance, np.nan)

    def histogram(self, schema: Schema, masses: Floats, n: int, points: Points | None) -> Histogram:
        """The masses with their errors; a point that a key does not have has no mass."""
        d, cells = masses.shape
        block = max(_ENTRIES // cells**2, 1)  # keys at once: bounded memory
        parts = [slice(start, start + block) for start in range(0, d, block)]
        se = np.sqrt(np.concatenate([self.of(part).variance(masses[part], np.eye(cells)) for part in parts]))
        used = True if points is None else points.used
        return Histogram(schema, np.where(used, masses, 0.0), np.where(used, se, 0.0), n, points)

    def with_products(self, solution: Solution, masses: Floats, points: Points) -> Solution:
        """The frequencies of a solution, and the products f·m that masses at points give."""
        at = np.nan_to_num(points.at)
        spread = self.product_spread(masses, points)
        gain = self.odds[:, 0] - self.odds[:, 1]
        least = FEWEST / (np.maximum(self.respondents, 1) * gain) ** 2
        spread = Spread(solution.spread.frequency, np.maximum(spread.product, least), spread.covariance)
        return replace(solution, product=(masses * at).sum(axis=1), spread=spread)

    def product_spread(self, masses: Floats, points: Points) -> Spread:
        """Variances and covariance of f and f·m at these masses."""
        at = np.nan_to_num(points.at)
        rows = np.stack([np.ones_like(at), at, 1 + at], axis=1)
        var_f, var_u, both = np.moveaxis(self.variance(masses, rows), 1, 0)
        return Spread(var_f, var_u, (both - var_f - var_u) / 2)
