"""What is true of people, in the questions that intervals answer; and samples of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from keyveil.core.records import Records
from keyveil.core.schema import Schema
from keyveil.frames.population import Population
from keyveil.frames.truth import Truth

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Facts:
    """The truth about people whose keys are those of the schema."""

    people: Population
    schema: Schema
    _undercounts: dict[int, Floats] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def truth(self) -> Truth:
        return self.people.truth(self.schema)

    def undercount(self, cap: int) -> Floats:
        """Per key, by how much its frequency is too low if people with more pairs than a cap keep that many at random.

        Who holds s > l pairs reports each of them with probability l/s.
        """
        if cap not in self._undercounts:
            sizes = np.repeat(self.people.sizes, self.people.sizes)
            lost = np.maximum(1 - cap / np.maximum(sizes, 1), 0)
            of_key = np.bincount(self.people.keys, weights=lost, minlength=self.schema.d)
            self._undercounts[cap] = of_key / max(self.people.n, 1)
        return self._undercounts[cap]

    def total(self, keys: Sequence[int]) -> float:
        """How many of some keys a person holds on average."""
        return float(self.truth.frequency[list(keys)].sum())

    def quantile(self, level: float, key: int) -> float:
        """The smallest value that at least a share ``level`` of the key's holders do not exceed."""
        values = self._sorted[key]
        return float(np.quantile(values, level, method="inverted_cdf")) if len(values) else float("nan")

    def share_given(self, key: int, given: int) -> float:
        """How many of those who hold one key hold the other."""
        both, condition = (self._holders[one] for one in (key, given))
        return float(np.isin(condition, both, assume_unique=True).mean()) if len(condition) else float("nan")

    @cached_property
    def _sorted(self) -> list[Floats]:
        """The values of each key, in order."""
        order = np.lexsort((self.people.values, self.people.keys))
        ends = np.cumsum(np.bincount(self.people.keys, minlength=self.schema.d))
        return [np.asarray(part) for part in np.split(self.people.values[order], ends[:-1])]

    @cached_property
    def _holders(self) -> list[NDArray[np.int64]]:
        """Who holds each key."""
        users = np.repeat(np.arange(self.people.n), self.people.sizes)
        order = np.argsort(self.people.keys, kind="stable")
        ends = np.cumsum(np.bincount(self.people.keys, minlength=self.schema.d))
        return [np.asarray(part) for part in np.split(users[order], ends[:-1])]


def resampled(people: Records, rng: np.random.Generator) -> Records:
    """As many people, drawn from these with replacement: a sample of a population that is known.

    They come in the order of those they are drawn from, which says nothing of them and is quicker to gather.
    """
    chosen = np.sort(rng.integers(people.n, size=people.n))
    sizes = people.sizes[chosen]
    offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    rows = np.repeat(people.offsets[chosen] - offsets[:-1], sizes) + np.arange(offsets[-1])
    return Records(offsets, people.keys[rows], people.values[rows], people.d)
