"""The distribution of values per key, as a mechanism that reports cells or points estimates it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from keyveil.core.schema import GRID, Schema

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Points:
    """The points of [-1, 1] that values are told by, for every key; values between two are rounded to one of them."""

    at: Floats  # [d, points], rising; NaN where a key has fewer points than others
    levels: NDArray[np.bool_]  # [d], whether the points are the only values of the key

    @classmethod
    def of(cls, schema: Schema, count: int) -> Self:
        """The levels of every key; ``count`` equidistant points, both ends included, where it has none."""
        points = cls.equal(schema.d, count)
        for key in range(schema.d):
            row = schema.levels_of(key)
            if row is not None:
                points.levels[key], points.at[key] = True, np.nan
                points.at[key, : len(row)] = schema.to_unit(np.full(len(row), key), [float(level) for level in row])
        return points

    @classmethod
    def equal(cls, d: int, count: int) -> Self:
        """``count`` equidistant points for each of d keys, whatever values they have."""
        row = np.asarray(equidistant(count)) / GRID
        return cls(np.tile(row, (d, 1)), np.zeros(d, dtype=np.bool_))

    @property
    def used(self) -> NDArray[np.bool_]:
        """Which points a key has, [d, points]."""
        return ~np.isnan(self.at)

    def shares(self, keys: NDArray[np.int64], units: Floats) -> Floats:
        """How often a value on [-1, 1] of each of these keys is rounded to each point, [values, points]."""
        shares = np.zeros((len(keys), self.at.shape[1]))
        for key in np.unique(keys):
            mine, row = np.flatnonzero(keys == key), self.at[key, self.used[key]]
            lower = np.clip(np.searchsorted(row, units[mine], side="right") - 1, 0, len(row) - 2)
            upper = np.clip((units[mine] - row[lower]) / (row[lower + 1] - row[lower]), 0.0, 1.0)
            shares[mine, lower] = 1 - upper
            shares[mine, lower + 1] = upper
        return shares


def equidistant(count: int) -> tuple[int, ...]:
    """So many points from the low to the high end of the range, as z on the grid."""
    return tuple(round(2 * GRID * place / (count - 1)) - GRID for place in range(count))


@dataclass(frozen=True, eq=False)
class Histogram:
    """For every key the share of people who hold it with a value in the cell, or at the point; NaN errors are unknown.

    Cells are equal parts of [-1, 1], unless ``points`` says where the masses lie.
    """

    schema: Schema
    mass: Floats  # [d, cells]
    se: Floats  # [d, cells]
    n: int
    points: Points | None = None

    @property
    def cells(self) -> int:
        return int(self.mass.shape[1])

    @property
    def edges(self) -> Floats:
        """The borders of the cells on [-1, 1], where there are cells."""
        return np.linspace(-1.0, 1.0, self.cells + 1)

    @property
    def law(self) -> Floats:
        """The distribution among each key's holders: negative masses cut, then normalised; NaN where none is left."""
        cut = np.maximum(self.mass, 0)
        total = cut.sum(axis=1, keepdims=True)
        law: Floats = np.divide(cut, total, out=np.full_like(cut, np.nan), where=total > 0)
        return law
