"""The distribution of values per key, as a mechanism that reports cells estimates it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keyveil.core.schema import Schema

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Histogram:
    """For every key and cell, the share of people who hold the key with a value in the cell; NaN errors are unknown."""

    schema: Schema
    mass: Floats  # [d, cells]
    se: Floats  # [d, cells]
    n: int

    @property
    def cells(self) -> int:
        return int(self.mass.shape[1])

    @property
    def edges(self) -> Floats:
        """The borders of the cells on [-1, 1]."""
        return np.linspace(-1.0, 1.0, self.cells + 1)

    @property
    def law(self) -> Floats:
        """The distribution among each key's holders: negative masses cut, then normalised; NaN where none is left."""
        cut = np.maximum(self.mass, 0)
        total = cut.sum(axis=1, keepdims=True)
        law: Floats = np.divide(cut, total, out=np.full_like(cut, np.nan), where=total > 0)
        return law
