"""How the values of every key are distributed: laws on cells, quantiles and variances, with intervals.

    found = distribution(mechanism, tally)
    found.median("pepsi"), found.quantile(0.9, "pepsi"), found.variance("pepsi")
    found.of("pepsi").shares, found.plot(top=3)

Works on reports through a window (by EM) and on those that support cells (histograms); which mechanisms give them, a
refusal says. Signs alone tell nothing but means. What is promised, and what is not: docs/distributions.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from keyveil.core.epsilon import decimal_text
from keyveil.core.errors import MechanismError
from keyveil.core.estimates import FLAGS, Column, Interval
from keyveil.core.extras import extra
from keyveil.core.schema import Schema
from keyveil.core.tally import Tally
from keyveil.learn.consistency import norm_sub
from keyveil.learn.masses import Floats, Masses, label_masses, window_masses
from keyveil.learn.quantiles import below, quantile_of, woodruff
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import Cells, Windows, can, who_can
from keyveil.mechanisms.responses import INSUFFICIENT, Spread, fieller, normal_quantile

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Method = Literal["em", "ems", "histogram"]


def distribution(
    mechanism: Mechanism,
    tally: Tally,
    method: Method | None = None,
    *,
    confidence: float = 0.95,
    population: bool = False,
) -> Distributions:
    """The distribution of every key's values among its holders.

    The method follows from the mechanism: ``em`` for windows (or ``ems``, for laws known to be smooth), ``histogram``
    for bins. ``population`` widens the intervals of histograms to the population that the people are a sample of;
    those of EM always speak about it.
    """
    z = normal_quantile(confidence)
    masses: Masses
    if can(mechanism, Windows) is not None:
        if method not in (None, "em", "ems"):
            raise _no_method(mechanism, method, "em or ems")
        used: Method = method or "em"
        masses = window_masses(mechanism, tally, "ems" if used == "ems" else "em")
    elif can(mechanism, Cells) is not None:
        if method not in (None, "histogram"):
            raise _no_method(mechanism, method, "histogram")
        used, masses = "histogram", label_masses(mechanism, tally, population)
    else:
        raise MechanismError(
            "estimate/no-distribution",
            f"Reports of {mechanism.title} do not tell how values are distributed; "
            f"those of {who_can(Windows, Cells)} do.",
        )
    estimates = mechanism.estimate(tally, confidence, population)
    frequency = estimates.frequency
    doubtful = estimates.respondents == 0 if frequency.absent else ~(frequency.values - z * frequency.se > 0)
    return Distributions(
        schema=mechanism.schema,
        mechanism=mechanism.name,
        epsilon=mechanism.epsilon,
        n=tally.reports,
        method=used,
        confidence=confidence,
        masses=masses,
        means=_means(mechanism.schema, masses, z) if estimates.mean.absent else estimates.mean,
        flag=np.where(doubtful, INSUFFICIENT, 0).astype(np.int8),
    )


@dataclass(frozen=True, eq=False)
class Law:
    """The distribution of one key's values, in the units of the schema."""

    key: str
    edges: Floats  # [cells + 1]
    shares: Floats  # [cells], sums to one
    cumulative: Floats  # at the edges
    se: Floats  # of the cumulative, at the edges
    flag: str


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Distributions:
    """The distributions of all keys on common cells of [-1, 1].

    A key that cannot be told from one that nobody holds is flagged insufficient: its law is noise, or NaN.
    """

    schema: Schema
    mechanism: str
    epsilon: Fraction
    n: int
    method: Method
    confidence: float
    masses: Masses
    means: Column
    flag: NDArray[np.int8]

    def __repr__(self) -> str:
        return (
            f"Distributions({self.mechanism}, {self.method}, ε={decimal_text(self.epsilon)}, n={self.n:,}, "
            f"d={self.schema.d}, {len(self.edges) - 1} cells)"
        )

    @property
    def edges(self) -> Floats:
        """The borders of the cells, on [-1, 1]."""
        return self.masses.edges

    @cached_property
    def law(self) -> Floats:
        """The share of each cell among a key's holders, [d, cells]: the nearest proper law (Norm-Sub)."""
        values = self.masses.values
        total = values.sum(axis=1)
        law = np.full(values.shape, np.nan)
        for key in np.flatnonzero(total > 0):
            law[key] = norm_sub(values[key] / total[key])
        return law

    @property
    def cumulative(self) -> Floats:
        """The share of a key's holders below each edge, [d, cells + 1]."""
        return np.concatenate([np.zeros((self.schema.d, 1)), np.cumsum(self.law, axis=1)], axis=1)

    @cached_property
    def cumulative_se(self) -> Floats:
        """Pointwise standard errors of ``cumulative``."""
        return np.array([self._errors(key) for key in range(self.schema.d)])

    def of(self, key: str | int) -> Law:
        """Everything about one key."""
        at = self._index(key)
        edges = self._in_units(at, self.edges)
        flag = FLAGS[self.flag[at]]
        return Law(self.schema.keys[at], edges, self.law[at], self.cumulative[at], self._errors(at), flag)

    # -- numbers ------------------------------------------------------------------------------------------------

    def quantile(self, level: float, key: str | int) -> Interval:
        """The value below which the share ``level`` of the key's holders lies."""
        if not 0 <= level <= 1:
            raise MechanismError("estimate/level", f"A quantile has a level from 0 to 1, not {level}.")
        at, z = self._index(key), normal_quantile(self.confidence)
        known = bool(np.isfinite(self.law[at]).all())
        value = quantile_of(self.law[at], self.edges, level) if known else np.nan
        if self.flag[at] >= INSUFFICIENT:
            low, high = -1.0, 1.0
        else:
            low, high = woodruff(self.masses, at, level, z)
            low, high = min(low, value), max(high, value)
        value, low, high = self._in_units(at, np.array([value, low, high])).tolist()
        return Interval(value, low, high, (high - low) / (2 * z), FLAGS[self.flag[at]])

    def median(self, key: str | int) -> Interval:
        return self.quantile(0.5, key)

    def mean(self, key: str | int) -> Interval:
        """The mean: unbiased from window reports whatever EM found, from the middles of cells for histograms."""
        return self.means.interval(self.schema.keys[self._index(key)])

    def variance(self, key: str | int) -> Interval:
        """How much the values of holders vary, as far as the cells tell, in squared units of the schema."""
        at, z = self._index(key), normal_quantile(self.confidence)
        if self.flag[at] >= INSUFFICIENT:
            low, high = self._in_units(at, np.array([-1.0, 1.0]))
            return Interval(np.nan, 0.0, float(high - low) ** 2 / 4, np.nan, FLAGS[self.flag[at]])
        law, points = self.law[at], self._in_units(at, self.masses.points)
        squares = (points - law @ points) ** 2
        value = float(law @ squares)
        # To first order the error of the mean inside the square plays no part.
        se = float(np.sqrt(self.masses.variance(at, (squares - value)[None]))[0] / self.masses.values[at].sum())
        return Interval(value, max(value - z * se, 0.0), value + z * se, se)

    # -- frames and pictures ------------------------------------------------------------------------------------

    def to_frame(self) -> Any:
        """A pandas frame with a row for every key and cell: key, low, high, share, cumulative, cumulative_se, flag."""
        with extra("local", "Frames"):
            import pandas
        laws = [self.of(key) for key in self.schema.keys]
        return pandas.concat(
            [
                pandas.DataFrame(
                    {
                        "key": law.key,
                        "low": law.edges[:-1],
                        "high": law.edges[1:],
                        "share": law.shares,
                        "cumulative": law.cumulative[1:],
                        "cumulative_se": law.se[1:],
                        "flag": law.flag,
                    }
                )
                for law in laws
            ],
            ignore_index=True,
        )

    def plot(self, keys: str | Sequence[str] | None = None, top: int = 3, axes: NDArray[Any] | None = None) -> Figure:
        """Densities above, cumulatives with their band and the median below; of some keys, or of the most frequent."""
        with extra("plots", "Plots"):
            from matplotlib import pyplot
        if keys is None:
            order = np.argsort(-self.masses.values.sum(axis=1), kind="stable")[: max(top, 1)]
            chosen = [self.schema.keys[at] for at in order]
        else:
            chosen = [keys] if isinstance(keys, str) else list(keys)
        if axes is None:
            size = (0.6 + 3.2 * len(chosen), 4.6)
            _, axes = pyplot.subplots(2, len(chosen), figsize=size, squeeze=False, sharex="col", layout="constrained")
        for column, key in zip(np.reshape(axes, (2, -1)).T, chosen, strict=True):
            self._draw(column[0], column[1], key)
        figure: Figure = np.ravel(axes)[0].figure
        return figure

    def _draw(self, upper: Axes, lower: Axes, key: str) -> None:
        law, median, z = self.of(key), self.median(key), normal_quantile(self.confidence)
        colour = "#9aa5b1" if law.flag == "insufficient" else "#2b6cb0"
        upper.stairs(law.shares / np.diff(law.edges), law.edges, fill=True, color=colour, alpha=0.35)
        upper.stairs(law.shares / np.diff(law.edges), law.edges, color=colour, linewidth=1.2)
        lower.fill_between(
            law.edges,
            np.clip(law.cumulative - z * law.se, 0, 1),
            np.clip(law.cumulative + z * law.se, 0, 1),
            color=colour,
            alpha=0.2,
            linewidth=0,
        )
        lower.plot(law.edges, law.cumulative, color=colour, linewidth=1.4)
        lower.plot([median.low, median.high], [0.5, 0.5], color="#c05621", linewidth=2)
        lower.plot(median.value, 0.5, "o", color="#c05621", markersize=5)
        remark = "" if law.flag == "ok" else f" ({law.flag})"
        upper.set_title(key + remark, fontsize="medium", loc="left", color="#1f2933", parse_math=False)
        upper.set_ylabel("density")
        lower.set_ylabel("share below")
        lower.set_ylim(0, 1)
        for ax in (upper, lower):
            ax.spines[["top", "right"]].set_visible(False)
            ax.set_xlim(law.edges[0], law.edges[-1])
        upper.set_ylim(bottom=0)

    # -- inside -------------------------------------------------------------------------------------------------

    def _index(self, key: str | int) -> int:
        return self.schema.place(key)

    def _in_units(self, at: int, unit: Floats) -> Floats:
        return self.schema.from_unit(unit, np.full(unit.shape, at))

    def _errors(self, at: int) -> Floats:
        total = self.masses.values[at].sum()
        if not total > 0:
            return np.full(len(self.edges), np.nan)
        weights = below(self.edges, self.edges) - self.cumulative[at][:, None]
        errors: Floats = np.sqrt(self.masses.variance(at, weights)) / total
        errors[[0, -1]] = 0.0
        return errors


def _means(schema: Schema, masses: Masses, z: float) -> Column:
    """Means from the middles of cells, with Fieller's intervals."""
    frequency, product = masses.values.sum(axis=1), masses.values @ masses.points
    rows = np.stack([np.ones_like(masses.points), masses.points, 1 + masses.points])
    var_f, var_u, both = np.array([masses.variance(key, rows) for key in range(schema.d)]).T
    return fieller(schema, frequency, product, Spread(var_f, var_u, (both - var_f - var_u) / 2), z)


def _no_method(mechanism: Mechanism, method: object, known: str) -> MechanismError:
    return MechanismError("estimate/method", f"Distributions of {mechanism.name} come by {known}, not {method!r}.")
