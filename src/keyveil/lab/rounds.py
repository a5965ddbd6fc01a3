"""A protocol over a whole population: ask, count, ask again, until the protocol has heard enough.

Everybody has a public word that never changes; it decides to which part of the people they belong. The coins of a
round are numbered by round and block of people, so a seed fixes everything but the seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.core.coins import Coins
from keyveil.core.epsilon import Number, exact_entries
from keyveil.core.errors import MechanismError, ProtocolError
from keyveil.core.estimates import Estimates
from keyveil.core.records import Records
from keyveil.core.schema import Schema
from keyveil.core.tally import Tally
from keyveil.frames.population import Population
from keyveil.frames.truth import Truth
from keyveil.lab.coins import SeededCoins
from keyveil.lab.metrics import Metrics, averaged, metrics, total_cost
from keyveil.lab.simulate import over_cap, summary, with_cap
from keyveil.mechanisms.base import BLOCK
from keyveil.mechanisms.registry import find
from keyveil.protocols.base import EVERYONE, Finished, History, Protocol, Round, most_spent
from keyveil.protocols.privkvm_plus import PrivKVMPlus
from keyveil.protocols.registry import create

MOST_ROUNDS = 1000  # a protocol that asks on and on is broken

_BLOCKS = 32  # bits of a stream's number that count blocks

Progress = Callable[[Round, int], None]
Announce = Callable[[Round], None]


@dataclass(frozen=True)
class Run:
    """What a protocol learned, round by round, and what the truth was.

    With several runs, history and estimates are those of the first and metrics the averages of all.
    """

    protocol: Protocol
    history: tuple[Finished, ...]
    rounds: tuple[Estimates, ...]  # what was known after each round
    truth: Truth
    metrics: Metrics
    seconds: float
    repeats: int = 1
    seed: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def mechanism(self) -> Protocol:
        """The protocol, under the name that simulations of one round have for it."""
        return self.protocol

    @property
    def estimates(self) -> Estimates:
        return self.rounds[-1]

    @property
    def tally(self) -> Tally:
        """The counts of the last round."""
        return self.history[-1].tally

    @property
    def spent(self) -> Fraction:
        """What the person who pays most has paid, whatever was announced."""
        return self.paid(len(self.history))

    def paid(self, rounds: int) -> Fraction:
        """The same after some of the rounds."""
        return most_spent([one.round for one in self.history[:rounds]])

    def cost(self, rounds: int) -> float | None:
        """F of PrivKVM+ after some of the rounds, from the means that it announces; nothing else prices rounds."""
        return _cost(self.protocol, self.history[:rounds], self.truth)

    @property
    def cheapest(self) -> int | None:
        """The round after which that cost is least; the first of several."""
        costs = {number: self.cost(number) for number in range(1, len(self.history) + 1)}
        known = {number: cost for number, cost in costs.items() if cost is not None}
        return min(known, key=known.__getitem__, default=None)

    @property
    def bits_per_report(self) -> float:
        """Bits that a person sends on average, all rounds together."""
        bits = sum(one.round.mechanism.bits_per_report * one.tally.reports for one in self.history)
        return bits / max(self.truth.n, 1)

    def document(self) -> dict[str, Any]:
        """The object that ``keyveil simulate --json`` prints, with the history of all rounds."""
        return {
            "mechanism": self.protocol.name,
            "epsilon": float(self.protocol.epsilon),
            **exact_entries(self.spent),
            "options": self.protocol.parameters,
            "users": self.truth.n,
            "keys": self.protocol.schema.d,
            "repeats": self.repeats,
            "seed": self.seed,
            "seconds": self.seconds,
            "bits_per_report": self.bits_per_report,
            "metrics": self.metrics,
            "notes": list(self.notes),
            "cheapest_round": self.cheapest,
            "rounds": [self._round(number) for number in range(1, len(self.history) + 1)],
            "estimates": self.estimates.rows(),
        }

    def _round(self, number: int) -> dict[str, Any]:
        one = self.history[number - 1]
        errors = metrics(self.rounds[number - 1], self.truth)
        return {
            "round": number,
            "mechanism": one.round.mechanism.name,
            "options": one.round.mechanism.options,
            "part": [float(one.round.part.start), float(one.round.part.stop)],
            "users": one.tally.reports,
            "epsilon": _upwards(one.round.epsilon),
            "spent": _upwards(self.paid(number)),
            "mse_frequency": errors["mse_frequency"],
            "mse_mean": errors["mse_mean"],
            "cost": self.cost(number),
        }


def simulate_protocol(
    name: str,
    population: Population,
    schema: Schema | None = None,
    epsilon: Number = 1,
    *,
    seed: int | None = None,
    confidence: float = 0.95,
    repeats: int = 1,
    threads: int = 1,
    progress: Callable[[int], None] | None = None,
    **options: Any,
) -> Run:
    """``run`` for a name of the registry; ``progress`` hears how many people have answered."""
    schema = schema or population.schema()
    options, notes = with_public(name, population.keyed(schema).sizes, schema.d, options)
    protocol = create(name, schema, epsilon, **options)
    told: Progress | None = None if progress is None else lambda asked, people: progress(people)
    return run(
        protocol,
        population,
        seed,
        confidence=confidence,
        repeats=repeats,
        threads=threads,
        progress=told,
        notes=notes,
    )


def with_public(
    name: str, sizes: NDArray[np.int64], d: int, options: dict[str, Any]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The options with the cap that a protocol needs and lacks, taken from set sizes, and what to say about it."""
    lacking = getattr(find(name), "needs_cap", False) and options.get("max_pairs") is None
    return with_cap(sizes, d, options) if lacking else (options, ())


def run(
    protocol: Protocol,
    population: Population,
    seed: int | None = None,
    *,
    confidence: float = 0.95,
    repeats: int = 1,
    threads: int = 1,
    progress: Progress | None = None,
    announce: Announce | None = None,
    notes: tuple[str, ...] = (),
) -> Run:
    """A protocol from its first round to its last.

    ``announce`` hears of a round before anybody answers it, ``progress`` after each block how many did. Results do not
    depend on the number of threads.
    """
    if repeats < 1 or threads < 1:
        raise MechanismError("simulate/size", "A simulation needs at least one run and one thread.")
    begin = time.perf_counter()
    people = population.keyed(protocol.schema)
    truth = people.truth(protocol.schema)
    blocks = [block.records(protocol.schema) for block in people.blocks(BLOCK)]
    first: list[Finished] = []
    ends: list[Estimates] = []
    costs: list[Metrics] = []
    for number in range(repeats):
        history = ask(protocol, blocks, seed, number, progress, announce=announce, threads=threads)
        first = first or history
        ends.append(protocol.estimate(history, confidence).with_truth(truth))
        costs.append({"cost": _cost(protocol, history, truth)})
    over = [truncated(one, people) for one in first]
    rounds = [
        protocol.estimate(first[:count], confidence)
        .with_truth(truth)
        .flagged("truncated", np.any(over[:count], axis=0))
        for count in range(1, len(first) + 1)
    ]
    notes += _said(first, over, people, repeats)
    answers = summary(ends, truth) | averaged(costs)
    seconds = time.perf_counter() - begin
    return Run(protocol, tuple(first), tuple(rounds), truth, answers, seconds, repeats, seed, notes)


def ask(
    protocol: Protocol,
    blocks: Sequence[Records],
    seed: int | None,
    number: int = 0,
    progress: Progress | None = None,
    finished: Sequence[Finished] = (),
    *,
    announce: Announce | None = None,
    threads: int = 1,
) -> list[Finished]:
    """All rounds of one run over blocks of people; given finished rounds of it, the remaining ones."""
    words = [_coins(seed, number, 0, place).words(block.n) for place, block in enumerate(blocks)]
    history = list(finished)
    while (asked := protocol.next_round(history)) is not None:
        if asked.number > MOST_ROUNDS:
            raise ProtocolError("protocol/endless", f"{protocol.name} still asks after {MOST_ROUNDS} rounds.")
        if announce:
            announce(asked)
        total = Tally.empty(asked.mechanism.fingerprint, asked.mechanism.tally_shape)
        for tally in _tallies(asked, blocks, words, seed, number, threads):
            total = total + tally
            if progress:
                progress(asked, tally.reports)
        history.append(Finished(asked, total))
    return history


def _tallies(
    asked: Round,
    blocks: Sequence[Records],
    words: Sequence[NDArray[np.uint64]],
    seed: int | None,
    number: int,
    threads: int,
) -> Iterator[Tally]:
    """The counts of a round, block by block in order; the coins of a block are its own, whoever works on it."""
    mechanism = asked.mechanism

    def work(place: int) -> Tally:
        block = blocks[place]
        answering = block if asked.part == EVERYONE else those(block, asked.part.members(words[place]))
        return mechanism.tally(mechanism.perturb_many(answering, _coins(seed, number, asked.number, place)))

    places = range(len(blocks))
    if threads == 1:
        yield from map(work, places)
        return
    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(work, places)


def truncated(one: Finished, people: Population) -> NDArray[np.bool_]:
    """The keys that a round tells something about, and of which its cap may have dropped pairs.

    The pairs of all people count, not only of those who answered: parts are drawn at random, and everybody is the
    target.
    """
    over = over_cap(one.round.mechanism, people)
    if not over.any() or not one.tally.reports:
        return np.zeros_like(over)
    own = one.estimates()
    return over & (np.isfinite(own.frequency.values) | np.isfinite(own.mean.values))


def _said(history: History, over: Sequence[NDArray[np.bool_]], people: Population, repeats: int) -> tuple[str, ...]:
    """What a reader of the numbers must know: caps that dropped pairs, and which run is shown."""
    caps: dict[int, list[int]] = {}
    for one, cut in zip(history, over, strict=True):
        if cut.any():
            caps.setdefault(getattr(one.round.mechanism, "max_pairs", 0), []).append(one.round.number)
    notes = [
        f"{float(np.mean(people.sizes > cap)):.1%} of the people hold more pairs than the cap of {cap} in "
        f"{'round' if len(numbers) == 1 else 'rounds'} {', '.join(map(str, numbers))}; "
        "keys of theirs are flagged truncated."
        for cap, numbers in caps.items()
    ]
    if repeats > 1:
        notes.append(f"Rounds and estimates are those of the first of {repeats} runs; metrics are averages over all.")
    return tuple(notes)


def _cost(protocol: Protocol, history: History, truth: Truth) -> float | None:
    if not isinstance(protocol, PrivKVMPlus):
        return None
    return total_cost(protocol.means(history), truth, float(protocol.price), len(history))


def those(records: Records, chosen: NDArray[np.bool_]) -> Records:
    """The records of some of the people, in order."""
    sizes = records.sizes
    kept = np.repeat(chosen, sizes)
    offsets = np.concatenate(([0], np.cumsum(sizes[chosen]))).astype(np.int64)
    return Records(offsets, records.keys[kept], records.values[kept], records.d)


def _coins(seed: int | None, number: int, asked: int, place: int) -> Coins:
    """The coins of a block in a round of a run; round 0 are the public words."""
    return Coins() if seed is None else SeededCoins(seed, (number * (MOST_ROUNDS + 1) + asked << _BLOCKS) + place)


def _upwards(epsilon: Fraction) -> float:
    nearest = float(epsilon)
    return nearest if Fraction(nearest) >= epsilon else float(np.nextafter(nearest, np.inf))
