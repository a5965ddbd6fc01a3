"""The same people report again and again, on seeded coins: what the checks of capabilities look at."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.core.records import Records
from keyveil.core.schema import GRID
from keyveil.core.tally import Tally
from keyveil.frames.population import Population
from keyveil.lab import datasets
from keyveil.lab.coins import SeededCoins
from keyveil.mechanisms.base import Mechanism
from keyveil.testing.people import people

PEOPLE, REPEATS = 2000, 400


@dataclass(frozen=True, eq=False)
class Collected:
    """The tallies of the same people, again and again."""

    crowd: Population
    records: Records
    tallies: tuple[Tally, ...]

    @property
    def n(self) -> int:
        return self.records.n

    @property
    def holdings(self) -> NDArray[np.bool_]:
        """Who holds what, [people, keys]."""
        held = np.zeros((self.n, self.records.d), dtype=np.bool_)
        held[np.repeat(np.arange(self.n), self.records.sizes), self.records.keys] = True
        return held

    @property
    def values(self) -> NDArray[Any]:
        """Everybody's values on [-1, 1], [people, keys]; 0 where nothing is held."""
        values, records = np.zeros((self.n, self.records.d)), self.records
        values[np.repeat(np.arange(self.n), records.sizes), records.keys] = records.values / GRID
        return values


@lru_cache(maxsize=4)
def collect(mechanism: Mechanism, alone: bool = False, constant: bool = False) -> Collected:
    """Fixed people; ``alone`` with at most one key each, ``constant`` with the same value for all holders of a key."""
    d, crowd = mechanism.schema.d, people(mechanism, PEOPLE, 25)
    if alone and mechanism.takes == "every set":
        crowd = datasets.one_of_each_group(PEOPLE, np.linspace(0.6, 1.4, d) / (2 * d), np.linspace(-0.6, 0.7, d), 1, 25)
    if constant:
        means = np.round(np.linspace(-0.6, 0.7, d) * GRID) / GRID
        crowd = replace(crowd, values=means[crowd.keys])
    records = crowd.records(mechanism.schema)
    runs = (mechanism.perturb_many(records, SeededCoins(27, run)) for run in range(REPEATS))
    return Collected(crowd, records, tuple(mechanism.tally(reports) for reports in runs))
