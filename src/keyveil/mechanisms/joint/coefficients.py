"""The sign moments that a device may be asked about, numbered, and the public law by which one is drawn.

With z = -1 for a key that is held and +1 for one that is not, there are the presence moments θ_B = E[∏ z over B] and
the value moments μ_{k,B} = E[v_k · 1[k held] · ∏ z over B], k not in B. Those of one kind and size form a family whose
members are equally likely. Coefficients are found by arithmetic, so hundreds of keys need no tables.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyveil.core.public import public_indices
from keyveil.mechanisms.joint.ranks import Ints, rank_sets, unrank_sets

NONE = -1  # no key
UNIT = 16  # weight of the rarest coefficients in the public draw: enough to approach the optimum to a few percent


class Family(NamedTuple):
    """All θ_B, or (``valued``) all μ_{k,B}, with so many keys in B."""

    valued: bool
    size: int

    def count(self, d: int) -> int:
        return d * math.comb(d - 1, self.size) if self.valued else math.comb(d, self.size)

    def optimum(self, d: int, order: int) -> int:
        """The best weight for questions about ``order`` keys: √(sum of squared weights in them), in units.

        A presence moment stands in C(d - |B|, order - |B|) of them, a value moment in C(d - 1 - |B|, order - 1 - |B|);
        errors of means are compared with a range that is twice as wide, which makes the weights equal otherwise.
        """
        pairs = math.comb(d - self.valued - self.size, order - self.valued - self.size)
        return math.isqrt(pairs * UNIT * UNIT)


def families(order: int, values: bool) -> tuple[Family, ...]:
    """θ of size 1 … order, then μ of size 0 … order - 1."""
    presence = [Family(False, size) for size in range(1, order + 1)]
    return (*presence, *(Family(True, size) for size in range(order if values else 0)))


@dataclass(frozen=True)
class Coefficients:
    """Families of moments over d keys, each with the integer weight of one of its members in the public draw."""

    d: int
    families: tuple[Family, ...]
    weights: tuple[int, ...]

    @cached_property
    def starts(self) -> Ints:
        """The first id of each family, and the number of coefficients."""
        return np.cumsum([0, *(family.count(self.d) for family in self.families)])

    @cached_property
    def masses(self) -> Ints:
        """The first draw of each family, and the number of draws."""
        counts = np.diff(self.starts) * np.array(self.weights)
        return np.concatenate(([0], np.cumsum(counts)))

    @property
    def count(self) -> int:
        return int(self.starts[-1])

    @cached_property
    def total(self) -> int:
        """How many draws there are: whole, however large the weights are, so that it can be refused."""
        return sum(family.count(self.d) * weight for family, weight in zip(self.families, self.weights, strict=True))

    def share(self, family: Family) -> float:
        """The share of reports about one member of a family."""
        return self.weights[self.families.index(family)] / self.total

    def drawn(self, words: NDArray[np.uint64]) -> Ints:
        """The coefficients that public words stand for."""
        draws = public_indices(words, self.total)
        family = np.searchsorted(self.masses, draws, side="right") - 1
        ids: Ints = self.starts[family] + (draws - self.masses[family]) // np.array(self.weights)[family]
        return ids

    def words(self) -> Iterator[int]:
        """For every coefficient one public word that stands for it."""
        for family, start in enumerate(self.masses[:-1].tolist()):
            for draw in range(start, int(self.masses[family + 1]), self.weights[family]):
                yield -(-(draw << 32) // self.total) << 32

    def keys(self, ids: Ints) -> tuple[Ints, Ints]:
        """For every id the key whose value is in the moment [n], and the keys of B [n, width]; NONE for no key."""
        valued = np.full(len(ids), NONE, dtype=np.int64)
        sets = np.full((len(ids), max(family.size for family in self.families)), NONE, dtype=np.int64)
        for family, start, stop in zip(self.families, self.starts[:-1], self.starts[1:], strict=True):
            rows = np.flatnonzero((ids >= start) & (ids < stop))
            ranks = ids[rows] - start
            if family.valued:
                valued[rows], ranks = np.divmod(ranks, math.comb(self.d - 1, family.size))
            chosen = unrank_sets(ranks, family.size, self.d)
            if family.valued:  # B was numbered among the other keys
                chosen += chosen >= valued[rows, None]
            sets[rows, : family.size] = chosen
        return valued, sets

    def ids(self, sets: Ints, valued: Ints | None = None) -> Ints:
        """The ids of the coefficients with these sets B as rows, in any order, and these keys' values."""
        family = Family(valued is not None, sets.shape[1])
        start, rising = self.starts[self.families.index(family)], np.sort(sets, axis=1)
        if valued is None:
            first: Ints = start + rank_sets(rising)
            return first
        others = rank_sets(rising - (rising > valued[:, None]))
        second: Ints = start + valued * math.comb(self.d - 1, family.size) + others
        return second
