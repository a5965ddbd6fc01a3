"""The people of a cell, and the counts that a collection of them gives: drawn as cheaply as is exact.

Where people fit into memory they are drawn once and their tally from its law, or report by report where it has none.
Beyond that a tally is drawn by type where there is a law for it; else from a normal limit, which is marked; else people
are made in blocks and asked, up to ``MOST_ASKED`` of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from keyveil.core.errors import MechanismError
from keyveil.core.schema import Schema
from keyveil.frames.population import Population
from keyveil.frames.truth import Truth
from keyveil.lab import datasets
from keyveil.lab.aggregate import has_aggregate
from keyveil.lab.datasets import Dataset
from keyveil.lab.datasets.crowds import product_sets
from keyveil.lab.datasets.recipes import recipe_of
from keyveil.lab.rounds import Blocks, ask
from keyveil.lab.seeds import seed_of
from keyveil.lab.streams import StreamBlocks, crowd_tally, types_of
from keyveil.mechanisms.tally_laws import crowd_law, normal_limit
from keyveil.protocols.base import History, Protocol

Reading = tuple[tuple[str, str], ...]
"""How a file is read: its columns and the range of its values, by the names of ``datasets.named``."""

MOST_PAIRS = 2 * 10**7  # of people who are drawn at once, some 800 MB while they are; more are made in blocks
MOST_ASKED = 10**7  # people in blocks who are asked one by one: each run makes all of them anew

LAW, REPORTS, TYPES, LIMIT, STREAMED = "law", "reports", "types", "limit", "streamed"
COUNTS = {
    LAW: "the exact law of the counts, for these very people",
    REPORTS: "every report drawn",
    TYPES: "the exact law of the counts, for people of some ten thousand types, equally many of each",
    LIMIT: "a normal limit with the exact covariance: approximate, so that coverage is not told",
    STREAMED: "people made in blocks, every report drawn",
}
"""Where the counts of a cell come from."""


@dataclass(frozen=True, eq=False)
class Crowd:
    """Everybody of a data set, with what is true of them."""

    dataset: Dataset
    people: Population  # those of the first block, where there are more than memory holds

    @property
    def schema(self) -> Schema:
        return self.dataset.schema

    @property
    def n(self) -> int:
        return self.dataset.n

    @cached_property
    def truth(self) -> Truth:
        """Of those who are in memory."""
        return self.people.truth(self.schema)

    @cached_property
    def squares(self) -> NDArray[np.float64]:
        """The mean square of the values of each key, on [-1, 1]; 0 where nobody has it."""
        return np.nan_to_num(self.people.variance(self.schema) + self.truth.mean**2)

    @cached_property
    def blocks(self) -> Blocks:
        return Blocks.of(self.people, self.schema)

    @property
    def independent(self) -> bool:
        """Whether the recipe says that keys are held independently of each other."""
        law = recipe_of(self.dataset.source)
        return law is not None and law.sets is product_sets


@lru_cache(maxsize=2)
def crowd(data: str, reading: Reading, seed: int) -> Crowd:
    """The people that a text names; the same for a seed."""
    told = dict(reading)
    levels = told.pop("levels", None)
    hierarchy = bool(told.pop("hierarchy", ""))
    dataset = datasets.named(
        data,
        **told,
        levels=levels.split(",") if levels else None,
        hierarchy=hierarchy,
        seed=seed,
        stream=True,
        stream_beyond=MOST_PAIRS,
    )
    if dataset.stream is not None:
        return Crowd(dataset, types_of(dataset.stream).keyed(dataset.schema))
    return Crowd(dataset, dataset.population.keyed(dataset.schema))


def source_of(protocol: Protocol, people: Crowd, shortcut: bool = True) -> str:
    """Where the counts of a collection come from; for those in memory it may turn out to be every report."""
    if people.dataset.stream is None:
        return LAW if shortcut else REPORTS
    single = protocol.single if shortcut else None
    if single is not None and crowd_law(single) is not None:
        return TYPES
    if single is not None and normal_limit(single) is not None:
        return LIMIT
    if people.n > MOST_ASKED:
        raise MechanismError(
            "compare/size",
            f"{protocol.name} has neither an exact law of counts for {people.n:,} people nor a normal limit; up to "
            f"{MOST_ASKED:,} can be asked one by one.",
        )
    return STREAMED


def collected(protocol: Protocol, people: Crowd, seed: int, run: int, source: str) -> tuple[History, Truth, str]:
    """One collection: its rounds, what is true of those who took part, and where the counts come from."""
    stream = people.dataset.stream
    if stream is None:
        history = tuple(ask(protocol, people.blocks, seed, run, shortcut=source == LAW))
        whole = source == LAW and all(has_aggregate(one.round.mechanism) for one in history)
        return history, people.truth, LAW if whole else REPORTS
    if source in (TYPES, LIMIT):
        finished, truth, _ = crowd_tally(protocol, stream, seed_of(seed, run))
        return (finished,), truth, source
    blocks = StreamBlocks(stream)
    history = tuple(ask(protocol, blocks, seed, run))
    return history, blocks.truth(), source
