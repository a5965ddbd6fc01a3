"""Simulations of more people than memory holds.

``StreamBlocks`` makes people block by block while they are asked, and adds up the truth about them on the way. Beyond
``MOST_STREAMED`` people ``crowd_tally`` draws the tally as a whole, where the mechanism has an exact law for people by
type (``mechanisms.tally_laws.CrowdLaw``): the types are people of the recipe, each of whom stands for equally many.
"""

from __future__ import annotations

from threading import Lock

import numpy as np
from numpy.typing import NDArray

from keyveil.core.errors import MechanismError
from keyveil.core.records import Records
from keyveil.core.tally import Tally
from keyveil.frames.population import Population
from keyveil.frames.truth import Truth
from keyveil.lab.datasets.stream import BLOCK, Stream
from keyveil.lab.rounds import Blocks, coins_of
from keyveil.mechanisms.tally_laws import crowd_law
from keyveil.protocols.base import EVERYONE, Finished, Protocol

MOST_STREAMED = 3 * 10**8  # people; more are drawn by type where there is a law, and refused elsewhere
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


def crowd_tally(protocol: Protocol, stream: Stream, seed: int | None) -> tuple[Finished, Truth]:
    """The one round of a mechanism over everybody, drawn by type, and the truth."""
    current = protocol.next_round([])
    law = None if protocol.single is None else crowd_law(protocol.single)
    if current is None or law is None or current.part != EVERYONE:
        raise MechanismError(
            "simulate/size",
            f"{protocol.name} has no exact law of counts for {stream.n:,} people; up to {MOST_STREAMED:,} can be asked "
            "one by one.",
        )
    types = types_of(stream)
    people = shares(stream.n, types.n)
    draws = np.random.default_rng(int.from_bytes(coins_of(seed, 0, current.number, 0).bytes(16), "little"))
    counts = law.draw_crowd(types.records(stream.schema), people, draws)
    return Finished(current, Tally(current.mechanism.fingerprint, stream.n, counts)), weighted(types, people, stream)


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
