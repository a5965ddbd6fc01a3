"""How the values of every key are distributed: laws on cells, quantiles and variances, with intervals.

    found = distribution(mechanism, tally)
    found.median("pepsi"), found.quantile(0.9, "pepsi"), found.variance("pepsi")
    found.of("pepsi").shares, found.share("pepsi", 4, 5), found.plot(top=3)

Works on reports through a window (by EM) and on those that support cells (histograms); which mechanisms give them, a
refusal says. Signs alone tell nothing but means. What is promised, and what is not: docs/distributions.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from keyveil.core.epsilon import decimal_text
from keyveil.core.errors import MechanismError
from keyveil.core.estimates import FLAGS, Column, Interval
from keyveil.core.extras import extra
from keyveil.core.rendering import look
from keyveil.core.schema import Schema
from keyveil.core.tally import Tally
from keyveil.learn.consistency import norm_sub
from keyveil.learn.masses import Floats, Masses, label_masses, window_masses
from keyveil.learn.places import Kind, Within
from keyveil.learn.quantiles import level_of, quantile_interval, quantile_of, share_interval
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import Cells, Windows, can, who_can
from keyveil.mechanisms.responses import INSUFFICIENT, normal_quantile

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
    within: Within = "any",
) -> Distributions:
    """The distribution of every key's values among its holders.

    The method follows from the mechanism: ``em`` for windows (or ``ems``, for laws known to be smooth), ``histogram``
    for bins. ``population`` widens the intervals of histograms to the population that the people are a sample of;
    those of EM always speak about it. Intervals hold for ``any`` law between points or within cells;
    ``within="uniform"`` takes values as evenly spread there, and they are narrower. Levels need no such assumption.
    """
    if within not in ("any", "uniform"):
        raise MechanismError("estimate/within", f"Within cells values have any law or a uniform one, not {within!r}.")
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
    doubtful = estimates.respondents == 0
    if not frequency.absent:  # among many keys some lie far from zero by chance
        doubtful = ~(frequency.values - z * frequency.se > 0) | ~estimates.told
    if (found := estimates.header.undercount) is not None and found.shift:
        masses = replace(masses, dropped=found.shifts(frequency.values))
    return Distributions(
        schema=mechanism.schema,
        mechanism=mechanism.name,
        epsilon=mechanism.epsilon,
        n=tally.reports,
        method=used,
        confidence=confidence,
        masses=masses,
        means=estimates.mean,
        within=within,
        flag=np.where(doubtful, INSUFFICIENT, 0).astype(np.int8),
    )


@dataclass(frozen=True, eq=False)
class Law:
    """The distribution of one key's values, in the units of the schema."""

    key: str
    kind: Kind  # what shares are of: levels, points that values were rounded to, or cells
    values: Floats  # [cells], the levels or points, or the middles of cells
    edges: Floats  # [cells + 1], of cells, or between levels or points
    shares: Floats  # [cells], sums to one
    cumulative: Floats  # at the edges
    se: Floats  # of the cumulative, at the edges
    flag: str


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Distributions:
    """The distributions of all keys, each on its levels, points or cells of [-1, 1].

    A key that cannot be told from one that nobody holds, decided over all keys as for means, is flagged insufficient:
    its law is noise, or NaN.
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
    within: Within = "any"

    def __repr__(self) -> str:
        return (
            f"Distributions({self.mechanism}, {self.method}, ε={decimal_text(self.epsilon)}, n={self.n:,}, "
            f"d={self.schema.d}, {self.masses.values.shape[1]} {self.masses.places(0).kind})"
        )

    def _repr_html_(self) -> str:
        return str(look("distributions.html")(self))

    @cached_property
    def law(self) -> Floats:
        """The share of each cell among a key's holders, [d, cells]: the nearest proper law (Norm-Sub)."""
        law = np.full(self.masses.values.shape, np.nan)
        for key in range(self.schema.d):
            own = self.masses.of(key)
            if own.sum() > 0:
                law[key] = 0.0
                law[key, : len(own)] = norm_sub(own / own.sum())
        return law

    @property
    def cumulative(self) -> Floats:
        """The share of a key's holders below each edge, [d, cells + 1]."""
        return np.concatenate([np.zeros((self.schema.d, 1)), np.cumsum(self.law, axis=1)], axis=1)

    def of(self, key: str | int) -> Law:
        """Everything about one key."""
        at = self.schema.place(key)
        places = self.masses.places(at)
        cells = len(places.points)
        return Law(
            key=self.schema.keys[at],
            kind=places.kind,
            values=self._in_units(at, places.points),
            edges=self._in_units(at, places.edges),
            shares=self.law[at, :cells],
            cumulative=self.cumulative[at, : cells + 1],
            se=self._errors(at),
            flag=FLAGS[self.flag[at]],
        )

    # -- numbers ------------------------------------------------------------------------------------------------

    def quantile(self, level: float, key: str | int) -> Interval:
        """The value below which the share ``level`` of the key's holders lies."""
        if not 0 <= level <= 1:
            raise MechanismError("estimate/level", f"A quantile has a level from 0 to 1, not {level}.")
        at, z = self.schema.place(key), normal_quantile(self.confidence)
        places = self.masses.places(at)
        law = self.law[at, : len(places.points)]
        if not np.isfinite(law).all():
            value = np.nan
        elif places.kind == "levels":
            value = level_of(law, places.points, level)
        else:
            value = quantile_of(law, places.edges, level)
        if self.flag[at] >= INSUFFICIENT:
            low, high = -1.0, 1.0
        else:
            low, high = quantile_interval(self.masses, at, level, z, self.within)
            value = float(np.clip(value, low, high))
        value, low, high = self._in_units(at, np.array([value, low, high])).tolist()
        return Interval(value, low, high, (high - low) / (2 * z), FLAGS[self.flag[at]])

    def share(self, key: str | int, low: float | None = None, high: float | None = None) -> Interval:
        """The share of the key's holders whose values lie from ``low`` to ``high``, both included, in its units."""
        at, z = self.schema.place(key), normal_quantile(self.confidence)
        ends = [unit if given is None else self._unit(at, given) for given, unit in ((low, -1.0), (high, 1.0))]
        if ends[0] > ends[1]:
            raise MechanismError(
                "estimate/share", f"A share of values reaches from low to high, not from {low} to {high}."
            )
        places = self.masses.places(at)
        inside = (places.points >= ends[0] - 1e-12) & (places.points <= ends[1] + 1e-12)
        if places.kind == "levels" and not inside.any():
            name = self.schema.keys[at]
            raise MechanismError("estimate/share", f"No level of {name!r} lies from {low} to {high}.")
        if self.flag[at] >= INSUFFICIENT:
            return Interval(np.nan, 0.0, 1.0, np.nan, FLAGS[self.flag[at]])
        least, most, se = share_interval(self.masses, at, (ends[0], ends[1]), z, self.within)
        least, most = (float(np.clip(one, 0.0, 1.0)) for one in (least, most))
        law = self.law[at, : len(places.points)]
        below, up_to = places.rows(np.array(ends), "uniform")[0]
        value = float(law[inside].sum() if places.kind == "levels" else (up_to - below) @ law)
        return Interval(float(np.clip(value, least, most)), least, most, se)

    def median(self, key: str | int) -> Interval:
        return self.quantile(0.5, key)

    def mean(self, key: str | int) -> Interval:
        """The mean, unbiased whatever the law; refused where reports tell cells only, since those do not tell it."""
        return self.means.interval(self.schema.keys[self.schema.place(key)])

    def variance(self, key: str | int) -> Interval:
        """How much the values of holders vary, in squared units of the schema.

        Rounding to points adds up to a quarter of the squared step, and the place within a cell may be anywhere: the
        interval allows for it. Where values are uniform there, what it adds is known.
        """
        at, z = self.schema.place(key), normal_quantile(self.confidence)
        if self.flag[at] >= INSUFFICIENT:
            low, high = self._in_units(at, np.array([-1.0, 1.0]))
            return Interval(np.nan, 0.0, float(high - low) ** 2 / 4, np.nan, FLAGS[self.flag[at]])
        places = self.masses.places(at)
        points = self._in_units(at, places.points)
        law = self.law[at, : len(points)]
        squares = (points - law @ points) ** 2
        value = float(law @ squares)
        # To first order the error of the mean inside the square plays no part.
        se = float(np.sqrt(self.masses.variance(at, (squares - value)[None]))[0] / self.masses.of(at).sum())
        step = float(np.diff(self._in_units(at, places.edges if places.kind == "cells" else places.points)).max())
        least, most = value - z * se, value + z * se
        if places.kind == "points":
            value -= step**2 / 6
            least, most = (one - step**2 * part for one, part in zip((least, most), self._rounding, strict=True))
        elif places.kind == "cells" and self.within == "any":
            least, most = (max(least, 0) ** 0.5 - step / 2) ** 2 * (least > step**2 / 4), (most**0.5 + step / 2) ** 2
        elif places.kind == "cells":
            value, least, most = (one + step**2 / 12 for one in (value, least, most))
        least = max(least, 0.0)
        return Interval(float(np.clip(value, least, most)), least, max(most, least), se)

    @property
    def _rounding(self) -> tuple[float, float]:
        """The most and the least that rounding to points adds to a variance, in squared steps."""
        return (1 / 4, 0.0) if self.within == "any" else (1 / 6, 1 / 6)

    # -- frames and pictures ------------------------------------------------------------------------------------

    def to_frame(self) -> Any:
        """A pandas frame: key, value, low, high, share, cumulative, cumulative_se, flag; a row for every share.

        ``value`` is the level or point, or the middle of the cell from ``low`` to ``high``. Values with a share at a
        point lie anywhere between its neighbours, which are ``low`` and ``high`` there.
        """
        with extra("local", "Frames"):
            import pandas
        laws = [self.of(key) for key in self.schema.keys]
        return pandas.concat(
            [
                pandas.DataFrame(
                    {
                        "key": law.key,
                        "value": law.values,
                        "low": _reach(law)[0],
                        "high": _reach(law)[1],
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
        heights = law.shares if law.kind == "levels" else law.shares / np.diff(law.edges)
        if law.kind == "levels":
            upper.bar(law.values, heights, 0.6 * float(np.diff(law.values).min()), color=colour, alpha=0.6)
        else:
            upper.stairs(heights, law.edges, fill=True, color=colour, alpha=0.35)
            upper.stairs(heights, law.edges, color=colour, linewidth=1.2)
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
        upper.set_ylabel("share" if law.kind == "levels" else "density")
        lower.set_ylabel("share below")
        lower.set_ylim(0, 1)
        for ax in (upper, lower):
            ax.spines[["top", "right"]].set_visible(False)
            margin = 0.4 * float(np.diff(law.values).min()) if law.kind == "levels" else 0.0
            ax.set_xlim(law.edges[0] - margin, law.edges[-1] + margin)
        upper.set_ylim(bottom=0)

    # -- inside -------------------------------------------------------------------------------------------------

    def _in_units(self, at: int, unit: Floats) -> Floats:
        return self.schema.from_unit(unit, np.full(unit.shape, at))

    def _unit(self, at: int, value: float) -> float:
        return float(self.schema.to_unit(np.array([at]), np.array([value], dtype=np.float64))[0])

    def _errors(self, at: int) -> Floats:
        """Pointwise standard errors of the cumulative of a key, at its edges."""
        own = self.masses.of(at)
        total, cells = own.sum(), len(own)
        if not total > 0:
            return np.full(cells + 1, np.nan)
        weights = np.tri(cells + 1, cells, -1) - self.cumulative[at, : cells + 1][:, None]
        errors: Floats = np.sqrt(self.masses.variance(at, weights)) / total
        errors[[0, -1]] = 0.0
        return errors


def _reach(law: Law) -> tuple[Floats, Floats]:
    """Between which values those of each share lie."""
    if law.kind == "cells":
        return law.edges[:-1], law.edges[1:]
    if law.kind == "levels":
        return law.values, law.values
    return np.append(law.values[0], law.values[:-1]), np.append(law.values[1:], law.values[-1])


def _no_method(mechanism: Mechanism, method: object, known: str) -> MechanismError:
    return MechanismError("estimate/method", f"Distributions of {mechanism.name} come by {known}, not {method!r}.")
