"""All pairs of keys at once: an array with errors and flags, a frame, and a heat map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from keyveil.core.estimates import FLAGS, Column, Interval
from keyveil.core.extras import extra
from keyveil.core.schema import Schema

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

KINDS = {
    "frequency": "frequency of one key (row) among the holders of another (column)",
    "mean": "mean of one key (row) among the holders of another (column)",
    "joint": "frequency of both keys together",
    "lift": "how much more often two keys are held together than if they were independent",
}
_INK, _UNKNOWN = "#1f2933", "#e4e7eb"
_READABLE = 12  # keys up to which numbers are written into the cells


@dataclass(frozen=True, eq=False, repr=False)
class Matrix:
    """Rows are keys, columns are what they are conditioned on; ``matrix["pepsi", "burger"]`` is an interval."""

    schema: Schema
    kind: str
    frequency: Floats  # of the keys alone
    values: Floats  # [d, d], and so are the rest
    se: Floats
    low: Floats
    high: Floats
    flag: NDArray[np.int8]

    @classmethod
    def of(
        cls, schema: Schema, kind: str, frequency: Floats, own: Column, others: Column, pairs: NDArray[np.int64]
    ) -> Matrix:
        """From the diagonal and a column of all other pairs."""

        def square(part: str) -> NDArray[Any]:
            diagonal, rest = getattr(own, part), getattr(others, part)
            grid = np.diag(diagonal)
            grid[pairs[:, 0], pairs[:, 1]] = rest
            return grid

        return cls(schema, kind, frequency, *(square(part) for part in ("values", "se", "low", "high", "flag")))

    def __getitem__(self, pair: tuple[str, str]) -> Interval:
        places = tuple(self._index(key) for key in pair)
        value, low, high, se = (float(part[places]) for part in (self.values, self.low, self.high, self.se))
        return Interval(value, low, high, se, FLAGS[self.flag[places]])

    def __repr__(self) -> str:
        return f"Matrix({self.kind}, {self.schema.d} × {self.schema.d})"

    def _index(self, key: str) -> int:
        return self.schema.place(key)

    def to_frame(self) -> Any:
        """A pandas frame with a row for every pair: key, given, value, se, low, high, flag."""
        with extra("local", "Frames"):
            import pandas
        names = np.array(self.schema.keys, dtype=object)
        key, given = np.indices(self.values.shape).reshape(2, -1)
        return pandas.DataFrame(
            {
                "key": names[key],
                "given": names[given],
                "value": self.values.ravel(),
                "se": self.se.ravel(),
                "low": self.low.ravel(),
                "high": self.high.ravel(),
                "flag": np.array(FLAGS)[self.flag.ravel()],
            }
        )

    def plot(self, ax: Axes | None = None, top: int = 25, keys: Sequence[str] | None = None) -> Figure:
        """A heat map of these keys, or of the most frequent ones; what the reports cannot tell is grey."""
        with extra("plots", "Plots"):
            from matplotlib import pyplot
        if keys is None:
            shown = np.sort(np.argsort(-self.frequency, kind="stable")[: max(top, 1)])  # NaN sorts last
        else:
            shown = np.array([self._index(key) for key in keys])
        if ax is None:
            side = 2.2 + 0.36 * len(shown)
            _, ax = pyplot.subplots(figsize=(side + 1.2, side), layout="constrained")
        _draw(ax, self, shown)
        return cast("Figure", ax.figure)


def _draw(ax: Axes, matrix: Matrix, shown: NDArray[np.int64]) -> None:
    from matplotlib import colormaps
    from matplotlib.colors import Normalize, TwoSlopeNorm

    grid = np.ix_(shown, shown)
    sure = matrix.flag[grid] < FLAGS.index("insufficient")
    if matrix.kind == "lift":  # what chance alone may have made is no sign of dependence
        sure &= (matrix.low[grid] > 1) | (matrix.high[grid] < 1)
    values = np.where(sure, matrix.values[grid], np.nan)
    if matrix.kind != "mean":  # shown inside what is possible
        values = np.clip(values, 0, np.inf if matrix.kind == "lift" else 1)
    colours, scale = colormaps["viridis"], Normalize(0, 1)
    apart = values[~np.eye(len(shown), dtype=bool) & sure]
    low, high = (float(apart.min()), float(apart.max())) if apart.size else (0.0, 1.0)
    if matrix.kind == "lift":  # keys that go together are above one, keys that avoid each other below
        colours, scale = colormaps["RdBu_r"], TwoSlopeNorm(1.0, min(low, 0.5), max(high, 1.5))
        np.fill_diagonal(values, np.nan)
    elif matrix.kind == "mean":
        ends = np.concatenate([matrix.schema.from_unit(np.full(matrix.schema.d, end)) for end in (-1.0, 1.0)])
        scale = Normalize(float(ends.min()), float(ends.max()))
    elif matrix.kind == "joint":
        scale = Normalize(0, min(max(high, 0.01), 1.0))
    ax.set_facecolor(_UNKNOWN)
    picture = ax.pcolormesh(values, cmap=colours, norm=scale, edgecolors="white", linewidth=0.6)
    bar = ax.figure.colorbar(picture, ax=ax, shrink=0.8, label=matrix.kind)
    bar.outline.set_visible(False)
    names = [matrix.schema.keys[at] for at in shown]
    middle = np.arange(len(shown)) + 0.5
    ax.set_xticks(middle, names, rotation=90, parse_math=False)
    ax.set_yticks(middle, names, parse_math=False)
    ax.invert_yaxis()
    ax.set_aspect("equal")
    if not sure.all():
        untold = "the interval holds 1" if matrix.kind == "lift" else "the reports cannot tell"
        ax.set_xlabel(f"grey: {untold}", color=_INK)
    ax.set_title(KINDS[matrix.kind], fontsize="medium", color=_INK, loc="left", wrap=True)
    ax.tick_params(length=0, colors=_INK)
    ax.spines[:].set_visible(False)
    if len(shown) <= _READABLE:
        for (row, column), value in np.ndenumerate(values):
            if np.isfinite(value):
                red, green, blue, _ = colours(scale(value))
                ink = _INK if 0.3 * red + 0.59 * green + 0.11 * blue > 0.5 else "white"
                ax.text(column + 0.5, row + 0.5, f"{value:.2f}", ha="center", va="center", fontsize=7, color=ink)
