"""Many people's records in schema terms: three columns, no object per person.

The pairs of person i are the rows ``offsets[i]`` to ``offsets[i + 1]``, sorted by key, each key once: exactly what
``Schema.read`` gives for one record.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Records:
    """A block of cleaned records over keys 0 … d-1, with values z on the grid."""

    offsets: NDArray[np.int64]
    keys: NDArray[np.int32]
    values: NDArray[np.int32]
    d: int

    @property
    def n(self) -> int:
        """How many people there are, those with nothing included."""
        return len(self.offsets) - 1

    @property
    def sizes(self) -> NDArray[np.int64]:
        """How many pairs each person holds."""
        return np.diff(self.offsets)

    def slice(self, start: int, stop: int) -> Records:
        """The people from ``start`` up to ``stop``, without copying their pairs."""
        offsets = self.offsets[start : stop + 1]
        first, last = int(offsets[0]), int(offsets[-1])
        return Records(offsets - first, self.keys[first:last], self.values[first:last], self.d)

    def those(self, chosen: NDArray[np.bool_]) -> Records:
        """The people who are chosen, in order."""
        kept = np.repeat(chosen, self.sizes)
        offsets = np.concatenate(([0], np.cumsum(self.sizes[chosen]))).astype(np.int64)
        return Records(offsets, self.keys[kept], self.values[kept], self.d)

    def pairs(self, i: int) -> list[tuple[int, int]]:
        """The record of person i, in the form of ``Schema.read``."""
        if not 0 <= i < self.n:
            raise IndexError(f"person {i} of {self.n}")
        rows = slice(self.offsets[i], self.offsets[i + 1])
        return list(zip(self.keys[rows].tolist(), self.values[rows].tolist(), strict=True))
