"""What a collection is after, computed from the data itself: the yardstick of simulations.

Values count as they are after clamping, before the grid. A truth holds sums only, so the truths of several blocks of
people add up to the truth of all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.core.errors import PopulationError
from keyveil.core.schema import Schema


@dataclass(frozen=True, eq=False)
class Truth:
    """Owners per key and the sum of their values on [-1, 1]."""

    schema: Schema
    n: int
    count: NDArray[np.int64]
    total: NDArray[np.float64]

    def __add__(self, other: Truth) -> Truth:
        if self.schema != other.schema:
            raise PopulationError("population/schema", "Truths of different schemas cannot be added.")
        return Truth(self.schema, self.n + other.n, self.count + other.count, self.total + other.total)

    def document(self) -> dict[str, Any]:
        """The sums as JSON, without the schema."""
        return {"n": self.n, "count": self.count.tolist(), "total": self.total.tolist()}

    @classmethod
    def from_document(cls, document: Any, schema: Schema) -> Truth:
        """The truth that ``document`` wrote down."""
        count, total = (np.array(document[name]) for name in ("count", "total"))
        return cls(schema, document["n"], count.astype(np.int64), total.astype(np.float64))

    @property
    def frequency(self) -> NDArray[np.float64]:
        """The share of people who have each key."""
        return self.count / self.n

    @property
    def mean(self) -> NDArray[np.float64]:
        """The mean of each key among its owners, on [-1, 1]; NaN where nobody has it."""
        mean = np.full(len(self.count), np.nan)
        np.divide(self.total, self.count, out=mean, where=self.count > 0)
        return mean

    @property
    def mean_in_units(self) -> NDArray[np.float64]:
        """The mean in the schema's units; the geometric mean for keys on a logarithmic scale."""
        return self.schema.from_unit(self.mean)

    @property
    def mean_size(self) -> float:
        """How many keys a person has on average: the sum of the frequencies."""
        return float(self.count.sum() / self.n)
