"""Simulations of more people than memory holds.

``StreamBlocks`` makes people block by block while they are asked, and adds up the truth about them on the way. Beyond
``MOST_STREAMED`` people ``crowd_tally`` draws the tally as a whole, where the mechanism has an exact law for people by
type (``mechanisms.tally_laws.CrowdLaw``) or a normal limit (``NormalLimit``, an approximation that is marked wherever
it is shown): the types are people of the recipe, each of whom stands for equally many.
"""

from __future__ import annotations

from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyveil.core.errors import MechanismError
from keyveil.core.records import Records
from keyveil.core.tally import Tally
from keyveil.frames.population import Population
from keyveil.frames.truth import Truth
from keyveil.lab.datasets.stream import BLOCK, Stream
from keyveil.lab.rounds import Blocks, coins_of
from keyveil.mechanisms.tally_laws import crowd_law, normal_limit
from keyveil.protocols.base import EVERYONE, Finished, Protocol

MOST_STREAMED = 3 * 10**8  # people; more are drawn by type where there is a law or a limit, and refused elsewhere
_TYPES = 1 << 23  # types times keys, about
_SHARP = 1 << 32  # sums of values are kept in whole numbers, so that they do not depend on the order of blocks


class StreamBlocks(Blocks):
    """The blocks of a stream; a block is made anew in every round, and its truth is added the first time."""

    def __init__(self, stream: Stream) -> None:
        self.schema, self._stream, self._lock = stream.schema, stream, Lock()
        self._seen: set[int] = set()
        self.count = np.zeros(stream.schema.d, dtype=np.int64)
        self.total = np.zeros(stream.schema.d, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._stream)

    def records(self, place: int) -> Records:
        people = self._stream.block(place)
        if place not in self._seen:
            own = people.truth(self.schema)
            with self._lock:
                self._seen.add(place)
                self.count += own.count
                self.total += np.rint(own.total * _SHARP).astype(np.int64)
        return people.records(self.schema)

    def truth(self) -> Truth:
        """The truth about everybody who was asked."""
        return self.truth_of(self._stream, self.count, self.total)

    @staticmethod
    def truth_of(stream: Stream, count: NDArray[np.int64], total: NDArray[np.int64]) -> Truth:
        """The truth from the sums ``count`` and ``total`` of all blocks, wherever they were made."""
        return Truth(stream.schema, stream.n, count, total / _SHARP)


class Crowd(NamedTuple):
    """The one round of a mechanism over everybody, the truth, and whether the tally is an approximation."""

    finished: Finished
    truth: Truth
    approximate: bool


def crowd_tally(protocol: Protocol, stream: Stream, seed: int | None) -> Crowd:
    """The one round of a mechanism over everybody, drawn by type: exactly, or from a normal limit."""
    current, single = protocol.next_round([]), protocol.single
    exact, limit = (None, None) if single is None else (crowd_law(single), normal_limit(single))
    if current is None or (exact is None and limit is None) or current.part != EVERYONE:
        raise MechanismError(
            "simulate/size",
            f"{protocol.name} has neither an exact law of counts for {stream.n:,} people nor a normal limit; up to "
            f"{MOST_STREAMED:,} can be asked one by one.",
        )
    types = types_of(stream)
    people, records = shares(stream.n, types.n), types.records(stream.schema)
    draws = np.random.default_rng(int.from_bytes(coins_of(seed, 0, current.number, 0).bytes(16), "little"))
    if exact is not None:
        counts = exact.draw_crowd(records, people, draws)
    else:
        assert limit is not None
        counts = limit.draw_limit(records, people, draws)
    finished = Finished(current, Tally(current.mechanism.fingerprint, stream.n, counts))
    return Crowd(finished, weighted(types, people, stream), exact is None)


def types_of(stream: Stream) -> Population:
    """The people who stand for all: those of the first block, fewer where there are very many keys."""
    return next(stream.sample.blocks(min(max(_TYPES // stream.schema.d, 1), BLOCK)))


def shares(n: int, types: int) -> NDArray[np.int64]:
    """How many people each type stands for: equally many, and the first ones one more."""
    each, more = divmod(n, types)
    return np.full(types, each, dtype=np.int64) + (np.arange(types) < more)


def weighted(types: Population, people: NDArray[np.int64], stream: Stream) -> Truth:
    """The truth about so many people of every type."""
    known = types.keyed(stream.schema)
    each, d = np.repeat(people, known.sizes), stream.schema.d
    count, total = np.zeros(d, dtype=np.int64), np.zeros(d)
    np.add.at(count, known.keys, each)
    np.add.at(total, known.keys, each * stream.schema.to_unit(known.keys, known.values))
    return Truth(stream.schema, int(people.sum()), count, total)
