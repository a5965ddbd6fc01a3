"""The people whom cells ask, with what is true of them; they are kept, since drawing them takes longer than asking."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np

from keyveil.core.records import Records
from keyveil.lab.datasets.real import real
from keyveil.lab.datasets.recipes import load
from keyveil.lab.honesty.truths import Facts, resampled
from keyveil.lab.rounds import Blocks
from keyveil.mechanisms.counting import BLOCK

KEPT_PEOPLE = 10**5  # up to which the people of several populations stay in memory


@dataclass(frozen=True, eq=False)
class Crowd:
    """The people of a population, what is true of them, and their records in blocks."""

    facts: Facts
    blocks: Blocks

    @cached_property
    def records(self) -> Records:
        """All records at once, to draw samples from."""
        return self.facts.people.records(self.facts.schema)

    def sample(self, rng: np.random.Generator) -> Blocks:
        """As many people, drawn from these with replacement."""
        some = resampled(self.records, rng)
        starts = range(0, some.n, BLOCK)
        return Blocks([some.slice(start, min(start + BLOCK, some.n)) for start in starts], self.facts.schema)


@lru_cache(maxsize=10)
def _some(population: str, n: int, seed: int, file: Path | None) -> Crowd:
    """People whom the cells of a page share: drawing them takes longer than asking them."""
    data = load(population, n=n, seed=seed) if file is None else real(file)
    people = data.population.keyed(data.schema)
    if file is not None:  # what lies beyond the public range is cut, and the truth is what is left
        low, high = (np.asarray(bound, dtype=np.float64) for bound in (data.schema.low, data.schema.high))
        people = replace(people, values=np.clip(people.values, low, high))
    return Crowd(Facts(people, data.schema), Blocks.of(people, data.schema))


@lru_cache(maxsize=1)
def _many(population: str, n: int, seed: int, file: Path | None) -> Crowd:
    """The same for so many people that one such crowd is enough to hold in memory."""
    return _some.__wrapped__(population, n, seed, file)


def crowd(population: str, n: int, seed: int, file: Path | None = None) -> Crowd:
    """The people of a cell; kept, since the next cell may ask them again. Those of a file are who they are."""
    return (_some if n <= KEPT_PEOPLE else _many)(population, n, seed, file)
