"""Where the masses of a key lie, and what they say about the share of values up to a place.

    levels      masses at the only values that there are
    points      masses at points of a grid, to which the values between were rounded at random
    cells       masses of cells, each somewhere within its cell

A *row* of weights h says: the share of values up to x is at most Σ h · mass. For levels one row is exact. For points
and cells there are rows that hold for any law within cells, and narrower ones where values are evenly spread
(``within="uniform"``). Derivation: docs/distributions.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Kind = Literal["levels", "points", "cells"]
Within = Literal["any", "uniform"]

_STEPS = 256  # places at least where the share of values is looked at, if it changes between points


@dataclass(frozen=True, eq=False)
class Places:
    """Masses of a key on [-1, 1]: at ``points``, which are the middles of cells where there are cells."""

    kind: Kind
    points: Floats
    edges: Floats  # one more than points: borders of the cells, or between the points

    @classmethod
    def at_points(cls, points: Floats, levels: bool) -> Places:
        middles = (points[1:] + points[:-1]) / 2
        return cls("levels" if levels else "points", points, np.concatenate((points[:1], middles, points[-1:])))

    @classmethod
    def in_cells(cls, edges: Floats) -> Places:
        return cls("cells", (edges[1:] + edges[:-1]) / 2, edges)

    @property
    def mirrored(self) -> Places:
        """The same seen from the high end."""
        return Places(self.kind, -self.points[::-1], -self.edges[::-1])

    @property
    def step(self) -> float:
        """How far apart the points are, or how wide the cells; the most there is."""
        return float(np.diff(self.edges if self.kind == "cells" else self.points).max())

    def looked_at(self, within: Within) -> Floats:
        """Places in rising order that show how the share of values grows."""
        if self.kind == "levels":
            return self.points
        if self.kind == "cells" and within == "any":
            return self.edges[:-1]
        knots = np.unique(np.concatenate((self.edges, self.points)))
        parts = -(-_STEPS // (len(knots) - 1))
        steps = np.diff(knots)[:, None] * np.arange(parts) / parts
        return np.append((knots[:-1, None] + steps).ravel(), knots[-1])

    def rows(self, places: Floats, within: Within) -> Floats:
        """Weights [rows, places, points] that each bound the share of values up to the place from above."""
        count = np.arange(len(self.points))
        if self.kind == "levels":
            return (self.points <= places[:, None] + 1e-12)[None].astype(np.float64)
        if self.kind == "cells":
            if within == "any":
                return (self.edges[:-1] <= places[:, None] + 1e-12)[None].astype(np.float64)
            return np.clip((places[:, None] - self.edges[:-1]) / np.diff(self.edges), 0.0, 1.0)[None]
        if within == "uniform":
            part = np.clip((places[:, None] - self.edges[:-1]) / np.diff(self.edges), 0.0, 1.0)
            inner = (count > 0) & (count < len(count) - 1)
            return np.where(inner, np.minimum(2 * part, 1.0), part)[None]
        lower = np.clip(np.searchsorted(self.points, places, side="right") - 1, 0, len(count) - 1)[:, None]
        upper = np.minimum(lower + 1, len(count) - 1)
        step = np.where(upper > lower, self.points[upper] - self.points[lower], 1.0)
        above = np.clip((places[:, None] - self.points[lower]) / step, 0.0, 1 - 1e-9)
        # Two straight lines that lie nowhere below the step at the place: through the points around it, or beyond.
        line = np.where(count == lower, 1 / (1 - above), (count < lower).astype(np.float64))
        return np.stack([line, (count <= upper).astype(np.float64)])
