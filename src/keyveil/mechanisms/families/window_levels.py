"""Levels of a schema as inputs of a window: each level is one of the equidistant points that values are rounded to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.core.coins import Coins
from keyveil.core.histogram import equidistant
from keyveil.core.levels import lattice
from keyveil.core.schema import Schema
from keyveil.mechanisms.encoders import PointLabels


@dataclass(frozen=True)
class WindowLevels:
    """How values become inputs: per key the ``inputs`` of its levels, and ``labels`` that round values to levels."""

    inputs: tuple[tuple[int, ...], ...]
    labels: PointLabels

    def draw(self, key: int, value: int, coins: Coins) -> int:
        return self.inputs[key][self.labels.draw(value, coins, key)]

    def draw_many(self, keys: NDArray[np.int64], values: NDArray[np.int32], coins: Coins) -> NDArray[np.int64]:
        drawn: NDArray[np.int64] = self._table[keys, self.labels.draw_many(values, coins, keys)]
        return drawn

    @cached_property
    def _table(self) -> NDArray[Any]:
        width = max(map(len, self.inputs))
        return np.array([[*row, *[0] * (width - len(row))] for row in self.inputs], dtype=np.int64)


def points_for_levels(schema: Schema, usual: int, most: int) -> int | None:
    """Points that every level is one of; None without levels, on logarithmic scales, or if too many are needed."""
    return lattice(schema.levels, schema.d, usual, most) if schema.map == "linear" else None


def window_levels(schema: Schema, points: int) -> WindowLevels:
    """The levels of a schema among so many points (``points_for_levels``); all of them if a key has none."""
    rows = [schema.levels_of(key) for key in range(schema.d)]
    inputs = tuple(
        tuple(range(points))
        if row is None
        else tuple(int((one - row[0]) / (row[-1] - row[0]) * (points - 1)) for one in row)
        for row in rows
    )
    at = tuple(schema.grid_levels(key) or equidistant(points) for key in range(schema.d))
    return WindowLevels(inputs, PointLabels(points, at))
