"""A whole collection on one machine: everybody reports, the collector counts, the truth is known.

``simulate`` takes a mechanism or a protocol, by name or as an object; ``lab.rounds`` drives both in the same way.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from keyveil.core.epsilon import Number, decimal_text, exact_entries, parse_epsilon, realised
from keyveil.core.errors import MechanismError, ProtocolError
from keyveil.core.estimates import Estimates
from keyveil.core.rendering import Shown
from keyveil.core.schema import Schema
from keyveil.core.tally import Tally
from keyveil.frames.population import Population
from keyveil.frames.truth import Truth
from keyveil.lab.caps import cap_notes, tells_undercount, truncated
from keyveil.lab.datasets.stream import Stream
from keyveil.lab.metrics import (
    Metrics,
    averaged,
    fairness,
    kolmogorov,
    metrics,
    total_cost,
    variance_error,
    wasserstein,
)
from keyveil.lab.public_options import collected_for, with_typical
from keyveil.lab.rounds import Announce, Blocks, Progress, ask, bits_per_person
from keyveil.lab.streams import MOST_STREAMED, StreamBlocks, crowd_tally, types_of
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import Histograms, can
from keyveil.protocols.base import Finished, History, Protocol
from keyveil.protocols.certificate import course_ratio
from keyveil.protocols.prices import PricedRounds
from keyveil.protocols.registry import as_protocol

FAIR_RUNS = 100  # fewer say little about the error of a single key
LAW = "its exact law"


@dataclass(frozen=True, repr=False)
class Simulation(Shown):
    """What came out, round by round, and what the truth was.

    With several runs, history and estimates are those of the first and metrics the averages of all.
    """

    shown_as: ClassVar[str] = "simulation"

    mechanism: Mechanism | Protocol
    history: tuple[Finished, ...]
    rounds: tuple[Estimates, ...]  # what was known after each round
    truth: Truth
    metrics: Metrics
    seconds: float
    repeats: int = 1
    seed: int | None = None
    notes: tuple[str, ...] = ()  # what was chosen, and what a reader of the numbers must know

    def __repr__(self) -> str:
        runs = "" if self.repeats == 1 else f", {self.repeats} runs"
        rounds = "" if len(self.history) == 1 else f", {len(self.history)} rounds"
        return (
            f"Simulation({self.protocol.name}, ε={decimal_text(self.protocol.epsilon)}, n={self.truth.n:,}, "
            f"d={self.protocol.schema.d}{rounds}{runs})"
        )

    @property
    def protocol(self) -> Protocol:
        """The mechanism or protocol in the form that was driven; a mechanism is its one round."""
        return as_protocol(self.mechanism)

    @property
    def estimates(self) -> Estimates:
        """What all rounds together say."""
        return self.rounds[-1]

    @property
    def approximate(self) -> bool:
        """Whether the tally was drawn from a normal limit: nothing about coverage follows from it."""
        return self.estimates.header.approximate

    @property
    def tally(self) -> Tally:
        """The counts of the last round."""
        return self.history[-1].tally

    @property
    def spent(self) -> Decimal:
        """The epsilon of the person who pays most, whatever was announced: exact, rounded up in the 30th digit."""
        return self.paid(len(self.history))

    def paid(self, rounds: int) -> Decimal:
        """The same after some of the rounds.

        Infinite if a report can give somebody away, or if a mechanism does not declare what may be announced to it.
        """
        try:
            ratio = course_ratio([one.round for one in self.history[:rounds]], self.protocol.announces)
        except ProtocolError:
            return Decimal("Infinity")
        return realised(ratio, self.protocol.epsilon)

    def cost(self, rounds: int) -> float | None:
        """F of PrivKVM+ after some of the rounds (``lab.metrics.total_cost``); ``None`` where rounds have no price."""
        return _cost(self.protocol, self.history[:rounds], self.truth)

    @property
    def price(self) -> Fraction | None:
        """What a round adds to that cost."""
        return self.protocol.round_price() if isinstance(self.protocol, PricedRounds) else None

    @property
    def cheapest(self) -> int | None:
        """The round after which that cost is least; the first of several."""
        costs = {number: self.cost(number) for number in range(1, len(self.history) + 1)}
        known = {number: cost for number, cost in costs.items() if cost is not None}
        return min(known, key=known.__getitem__, default=None)

    @cached_property
    def errors(self) -> tuple[Metrics, ...]:
        """The metrics of what was known after each round of the first run."""
        return tuple(metrics(known, self.truth) for known in self.rounds)

    @property
    def bits_per_report(self) -> float:
        """Bits that a person sends on average, all rounds together."""
        return bits_per_person(self.history, self.truth.n)

    def document(self) -> dict[str, Any]:
        """The object that ``keyveil simulate --json`` prints; all but ``seconds`` is the same for a seed."""
        return {
            **self.estimates.document(schema=True),
            "mechanism": self.protocol.name,  # also where the estimates are those of one of its rounds
            "options": self.protocol.parameters,
            "epsilon": float(self.protocol.epsilon),
            **exact_entries(self.spent),
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
        }

    def _round(self, number: int) -> dict[str, Any]:
        one, errors = self.history[number - 1], self.errors[number - 1]
        return {
            "round": number,
            "mechanism": one.round.mechanism.name,
            "options": one.round.mechanism.options,
            "part": [float(one.round.part.start), float(one.round.part.stop)],
            "n": one.tally.reports,
            "users": one.tally.reports,
            "epsilon": _upwards(one.round.epsilon),
            "spent": exact_entries(self.paid(number))["exact_epsilon"],
            "mse_frequency": errors["mse_frequency"],
            "mse_mean": errors["mse_mean"],
            "cost": self.cost(number),
        }


def simulate(
    mechanism: str | Mechanism | Protocol,
    population: Population | Stream,
    schema: Schema | None = None,
    epsilon: Number | None = None,
    *,
    seed: int | None = None,
    confidence: float = 0.95,
    repeats: int = 1,
    threads: int = 1,
    shortcut: bool = False,
    progress: Progress | None = None,
    announce: Announce | None = None,
    **options: Any,
) -> Simulation:
    """Run a mechanism or protocol over a population; without a seed the coins come from the operating system.

    A name is made for ``schema`` (otherwise that of the data), ``epsilon`` (otherwise 1) and ``options``; an object has
    them already. A cap that is needed and not given is the 90 % quantile of the set sizes, a law of set sizes that of
    the data; beside a cap 3 % of the people form the overflow group, unless ``overflow`` says otherwise. ``shortcut``
    draws tallies from their law where there is one, instead of every report. ``progress`` hears after each block how
    many people answered, ``announce`` of each round before anybody answers it. Results do not depend on the number of
    threads. People of a ``Stream`` are made in blocks while they are asked (``lab.streams``).
    """
    if repeats < 1 or threads < 1:
        raise MechanismError("simulate/size", "A simulation needs at least one run and one thread.")
    begin = time.perf_counter()
    stream = population if isinstance(population, Stream) else None
    sample = population.sample if isinstance(population, Stream) else population
    made, people, notes = _made(mechanism, sample, schema, epsilon, options)
    protocol = as_protocol(made)
    if stream is not None:
        return _streamed(made, stream, people, notes, begin, seed, confidence, repeats, threads, progress, announce)
    truth, blocks = people.truth(protocol.schema), Blocks.of(people, protocol.schema)
    first: list[Finished] = []  # a tally may have 64 MB, so those of one run are kept
    ends: list[Estimates] = []
    others: list[Metrics] = []
    for run in range(repeats):
        history = ask(
            protocol,
            blocks,
            seed,
            run,
            threads=threads,
            shortcut=shortcut,
            progress=progress,
            announce=announce,
        )
        first = first or history
        ends.append(protocol.estimate(history, confidence).with_truth(truth))
        others.append({"cost": _cost(protocol, history, truth), **distribution_errors(history, people)})
    known = [protocol.estimate(first[:count], confidence).with_truth(truth) for count in range(1, len(first) + 1)]
    rounds, more = _flagged(known, first, people)
    notes += more
    if repeats > 1:
        notes += (f"Rounds and estimates are those of the first of {repeats} runs; metrics are averages over all.",)
    answers = summary(ends, truth) | averaged(others)
    seconds = time.perf_counter() - begin
    return Simulation(made, tuple(first), rounds, truth, answers, seconds, repeats, seed, notes)


def _streamed(
    made: Mechanism | Protocol,
    stream: Stream,
    sample: Population,
    notes: tuple[str, ...],
    begin: float,
    seed: int | None,
    confidence: float,
    repeats: int,
    threads: int,
    progress: Progress | None,
    announce: Announce | None,
) -> Simulation:
    """One run over people who are never all in memory; what a cap cuts is judged by the first block of them."""
    if repeats > 1:
        raise MechanismError("simulate/size", "So many people are asked once: repeats are for fewer.")
    protocol, approximate = as_protocol(made), False
    if stream.n > MOST_STREAMED:
        one, truth, approximate = crowd_tally(protocol, stream, seed)
        history = [one]
        whence = "a normal limit with its exact covariance, so all of this is approximate" if approximate else LAW
        told = f"The tally was drawn from {whence}: {types_of(stream).n:,} people of the recipe stand for {stream.n:,}"
        notes += (f"{told}, each for equally many.",)
    else:
        blocks = StreamBlocks(stream)
        history = ask(protocol, blocks, seed, threads=threads, progress=progress, announce=announce)
        truth = blocks.truth()
        notes += (f"People were made in blocks; options follow from the first {sample.n:,} of them.",)
    known = [protocol.estimate(history[:count], confidence).with_truth(truth) for count in range(1, len(history) + 1)]
    rounds, more = _flagged(known, history, sample)
    answers = summary([known[-1]], truth)
    if approximate:
        rounds = tuple(one.under(replace(one.header, approximate=True)) for one in rounds)
        answers |= {"coverage_frequency": None, "coverage_mean": None}  # it would be that of the approximation
    answers |= {"cost": _cost(protocol, history, truth), "wasserstein": None, "ks": None, "mse_variance": None}
    seconds = time.perf_counter() - begin
    return Simulation(made, tuple(history), rounds, truth, answers, seconds, 1, seed, notes + more)


def _flagged(
    known: Sequence[Estimates], history: History, people: Population
) -> tuple[tuple[Estimates, ...], tuple[str, ...]]:
    """Estimates after each round with the keys flagged that a cap moves, and a sentence about it."""
    over = [truncated(one, people) for one in history]
    rounds = tuple(
        one if tells_undercount(one) else one.flagged("truncated", np.any(over[:count], axis=0))
        for count, one in enumerate(known, start=1)
    )
    return rounds, () if tells_undercount(rounds[-1]) else cap_notes(history, over, people)


def summary(runs: Sequence[Estimates], truth: Truth) -> Metrics:
    """The metrics of all runs, averaged, and the fairness over them if they are enough to tell."""
    answers = averaged([metrics(one, truth) for one in runs])
    answers |= {"fairness_frequency": None, "fairness_mean": None}
    if len(runs) >= FAIR_RUNS:
        held = np.where(truth.count > 0, truth.frequency, np.nan)
        if not runs[0].frequency.absent:
            answers["fairness_frequency"] = fairness([np.nan_to_num(one.frequency.values) for one in runs], held)
        if not runs[0].mean.absent:
            shown = [np.nan_to_num(np.clip(one.mean.values, -1, 1)) for one in runs]
            answers["fairness_mean"] = fairness(shown, truth.mean)
    return answers


def distribution_errors(history: History, people: Population) -> Metrics:
    """How far estimated distributions of values and their variances are off, from the last round that reports cells."""
    for one in reversed(history):
        mechanism = can(one.round.mechanism, Histograms)
        if mechanism is not None:
            histogram, schema = mechanism.histogram(one.tally), one.round.mechanism.schema
            points = histogram.points
            if points is None:
                true = people.distribution(schema, histogram.cells)
                distance = wasserstein(histogram.law, true)
                at = np.tile((histogram.edges[:-1] + histogram.edges[1:]) / 2, (schema.d, 1))
            else:
                true = people.distribution_at(schema, points)
                distance = wasserstein(histogram.law, true, points.at)
                at = points.at
            variance = variance_error(histogram.law, people.variance(schema), at)
            return {
                "wasserstein": None if np.isnan(distance) else distance,
                "ks": None if np.isnan(farthest := kolmogorov(histogram.law, true)) else farthest,
                "mse_variance": variance,
            }
    return {"wasserstein": None, "ks": None, "mse_variance": None}


def _made(
    mechanism: str | Mechanism | Protocol,
    population: Population,
    schema: Schema | None,
    epsilon: Number | None,
    options: dict[str, Any],
) -> tuple[Mechanism | Protocol, Population, tuple[str, ...]]:
    """The mechanism or protocol, the people with its keys, and what was chosen for it."""
    if isinstance(mechanism, str):
        schema = schema or population.schema()
        people = population.keyed(schema)
        told, typical = with_typical(mechanism, people, schema, options)
        made, notes = collected_for(mechanism, schema, 1 if epsilon is None else epsilon, people.sizes, told)
        return made, people, (*typical, *notes)
    if options:
        raise MechanismError(
            "simulate/object", f"{mechanism.name} is made already, so it takes no option {min(options)!r} here."
        )
    if schema not in (None, mechanism.schema):
        raise MechanismError("simulate/object", f"{mechanism.name} is made already, and for another schema.")
    if epsilon is not None and parse_epsilon(epsilon) != mechanism.epsilon:
        raise MechanismError("simulate/object", f"{mechanism.name} is made already, and for another epsilon.")
    return mechanism, population.keyed(mechanism.schema), ()


def _cost(protocol: Protocol, history: History, truth: Truth) -> float | None:
    if not isinstance(protocol, PricedRounds):
        return None
    return total_cost(protocol.announced_means(history), truth, float(protocol.round_price()), len(history))


def _upwards(epsilon: Fraction) -> float:
    nearest = float(epsilon)
    return nearest if Fraction(nearest) >= epsilon else float(np.nextafter(nearest, np.inf))
