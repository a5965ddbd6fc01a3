"""The one driver of simulations: a protocol asks people round by round, until it has heard enough.

A mechanism is driven as a protocol of one round (``protocols.registry.as_protocol``). Everybody has a public word that
never changes; it decides to which part of the people they belong. Coins are numbered once, by run, round and block of
people: a seed fixes every count, whatever the number of threads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from keyveil.core.coins import Coins
from keyveil.core.errors import ProtocolError
from keyveil.core.records import Records
from keyveil.core.report import Reports
from keyveil.core.schema import Schema
from keyveil.core.tally import Tally
from keyveil.frames.population import Population
from keyveil.lab.aggregate import aggregate, has_aggregate
from keyveil.lab.coins import SeededCoins
from keyveil.mechanisms.counting import BLOCK
from keyveil.protocols.base import EVERYONE, Finished, History, Protocol, Round

MOST_ROUNDS = 1000  # a protocol that asks on and on is broken
KEPT_PAIRS = 1 << 25  # of blocks whose records stay in memory, 270 MB: making them takes longer than counting them

_BLOCKS = 32  # bits of a stream's number that count blocks

Progress = Callable[[int], None]
"""Hears after every block how many people have answered."""
Announce = Callable[[Round], None]
"""Hears of a round before anybody answers it."""


Replace = Callable[[History, Round, int, Reports], Reports]
"""Gets the rounds so far, a round, the number of a block and its reports, and says which are counted; for attacks."""


class Blocks:
    """People in blocks of bounded size; those of a population become records when they are worked on."""

    def __init__(self, blocks: Sequence[Population | Records], schema: Schema) -> None:
        self.schema, self._blocks = schema, tuple(blocks)
        pairs = np.cumsum([len(block.keys) for block in self._blocks])
        self._few = int(np.count_nonzero(pairs <= KEPT_PAIRS))  # blocks whose records are kept
        self._kept: dict[int, Records] = {}

    @classmethod
    def of(cls, population: Population, schema: Schema) -> Blocks:
        """The blocks of a population whose keys are those of the schema."""
        return cls(list(population.blocks(BLOCK)), schema)

    def __len__(self) -> int:
        return len(self._blocks)

    def records(self, place: int) -> Records:
        """The records of one block."""
        block = self._blocks[place]
        if isinstance(block, Records):
            return block
        found = self._kept.get(place) or block.records(self.schema)
        if place < self._few:
            self._kept[place] = found
        return found


def ask(
    protocol: Protocol,
    people: Blocks | Sequence[Records],
    seed: int | None,
    run: int = 0,
    *,
    finished: Sequence[Finished] = (),
    threads: int = 1,
    shortcut: bool = False,
    progress: Progress | None = None,
    announce: Announce | None = None,
    replace: Replace | None = None,
) -> list[Finished]:
    """All rounds of one run over blocks of people; given finished rounds of it, the remaining ones.

    Without a seed the coins come from the operating system. ``shortcut`` draws the tally of a round from its law where
    the mechanism has one, instead of every report. ``replace`` may count other reports than people sent.
    """
    blocks = people if isinstance(people, Blocks) else Blocks(people, protocol.schema)
    words: dict[int, NDArray[np.uint64]] = {}  # the public words of a block, once somebody needs them
    history = list(finished)
    while (current := protocol.next_round(history)) is not None:
        if current.number > MOST_ROUNDS:
            raise ProtocolError("protocol/endless", f"{protocol.name} still asks after {MOST_ROUNDS} rounds.")
        if announce:
            announce(current)
        total = Tally.empty(current.mechanism.fingerprint, current.mechanism.tally_shape)
        for tally in _tallies(current, blocks, words, seed, run, threads, shortcut, tuple(history), replace):
            total = total + tally
            if progress:
                progress(tally.reports)
        history.append(Finished(current, total))
    return history


def _tallies(
    current: Round,
    blocks: Blocks,
    words: dict[int, NDArray[np.uint64]],
    seed: int | None,
    run: int,
    threads: int,
    shortcut: bool,
    history: History,
    replace: Replace | None,
) -> Iterator[Tally]:
    """The counts of a round, block by block in order; the coins of a block are its own, whoever works on it."""
    mechanism = current.mechanism
    direct = shortcut and replace is None and has_aggregate(mechanism)

    def work(place: int) -> Tally:
        records = blocks.records(place)
        if current.part != EVERYONE:
            if place not in words:
                words[place] = coins_of(seed, run, 0, place).words(records.n)
            records = records.those(current.part.members(words[place]))
        coins = coins_of(seed, run, current.number, place)
        if direct:
            return aggregate(mechanism, records, coins)
        reports = mechanism.perturb_many(records, coins)
        return mechanism.tally(reports if replace is None else replace(history, current, place, reports))

    if threads == 1:
        yield from map(work, range(len(blocks)))
        return
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[Tally]] = deque()
        for place in range(len(blocks)):
            waiting.append(pool.submit(work, place))
            if len(waiting) > threads:  # a tally may have 64 MB, so few of them wait for their turn
                yield waiting.popleft().result()
        for last in waiting:
            yield last.result()


def bits_per_person(history: History, people: int) -> float:
    """Bits that a person sends on average, all rounds together."""
    bits = sum(one.round.mechanism.bits_per_report * one.tally.reports for one in history)
    return bits / max(people, 1)


def coins_of(seed: int | None, run: int, number: int, place: int) -> Coins:
    """The coins of a block in a round of a run; round 0 are the public words."""
    return Coins() if seed is None else SeededCoins(seed, (run * (MOST_ROUNDS + 1) + number << _BLOCKS) + place)
