"""A whole collection on one machine: everybody reports, the collector counts, the truth is known."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from itertools import starmap
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from keyveil.core.coins import Coins
from keyveil.core.epsilon import Number, float_ceiling, log_ceiling
from keyveil.core.errors import MechanismError
from keyveil.core.estimates import Estimates
from keyveil.core.records import Records
from keyveil.core.schema import Schema
from keyveil.core.tally import Tally
from keyveil.frames.population import Population
from keyveil.frames.truth import Truth
from keyveil.lab.aggregate import aggregate, has_aggregate
from keyveil.lab.coins import SeededCoins
from keyveil.lab.metrics import Metrics, averaged, fairness, metrics, wasserstein
from keyveil.mechanisms.base import BLOCK, Mechanism
from keyveil.mechanisms.capabilities import Histograms, can
from keyveil.mechanisms.registry import create, find_mechanism, protocol_names

if TYPE_CHECKING:
    from keyveil.lab.rounds import Run

FAIR_RUNS = 100  # fewer say little about the error of a single key
CAP_QUANTILE = 0.9  # of set sizes, when a cap is needed and none is given

_IN_PUBLIC = "a campaign would fix it in public."

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Simulation:
    """What came out, and what the truth was; with several runs, estimates of the first and metrics of all."""

    mechanism: Mechanism
    tally: Tally
    estimates: Estimates
    truth: Truth
    metrics: Metrics
    seconds: float
    repeats: int = 1
    seed: int | None = None
    notes: tuple[str, ...] = ()  # what was chosen, and what a reader of the numbers must know

    @property
    def bits_per_report(self) -> float:
        return self.mechanism.bits_per_report

    def document(self) -> dict[str, Any]:
        """The object that ``keyveil simulate --json`` prints; all but ``seconds`` is the same for a seed."""
        return {
            "mechanism": self.mechanism.name,
            "epsilon": float(self.mechanism.epsilon),
            "exact_epsilon": spent(self.mechanism),
            "options": self.mechanism.options,
            "users": self.truth.n,
            "keys": self.mechanism.schema.d,
            "repeats": self.repeats,
            "seed": self.seed,
            "seconds": self.seconds,
            "bits_per_report": self.bits_per_report,
            "metrics": self.metrics,
            "notes": list(self.notes),
            "estimates": self.estimates.rows(),
        }


def simulate(
    mechanism: str | Mechanism,
    population: Population,
    schema: Schema | None = None,
    epsilon: Number = 1,
    *,
    seed: int | None = None,
    confidence: float = 0.95,
    repeats: int = 1,
    threads: int = 1,
    shortcut: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> Simulation | Run:
    """Run a mechanism or protocol over a population; without a seed the coins come from the operating system.

    A cap that the mechanism needs and ``options`` lack is the 90 % quantile of the set sizes, a law of set sizes that
    of the data. ``shortcut`` draws the
    tally from its law where there is one, instead of every report. ``progress`` is called with the number of people
    after each block. Results do not depend on the number of threads.
    """
    if repeats < 1 or threads < 1:
        raise MechanismError("simulate/size", "A simulation needs at least one run and one thread.")
    schema = schema or population.schema()
    if isinstance(mechanism, str) and mechanism in protocol_names():
        from keyveil.lab.rounds import simulate_protocol  # which needs this module

        return simulate_protocol(
            mechanism,
            population,
            schema,
            epsilon,
            seed=seed,
            confidence=confidence,
            repeats=repeats,
            threads=threads,
            progress=progress,
            **options,
        )
    notes: tuple[str, ...] = ()
    begin = time.perf_counter()
    people = population.keyed(schema)
    if isinstance(mechanism, str):
        options, notes = with_public(mechanism, people.sizes, schema.d, options)
        mechanism = create(mechanism, schema, epsilon, **options)
    truth, over = people.truth(schema), over_cap(mechanism, people)
    if over.any():
        share = float(np.mean(people.sizes > getattr(mechanism, "max_pairs", 0)))
        notes += (f"{share:.1%} of the people hold more pairs than the cap; keys of theirs are flagged truncated.",)
    blocks = list(people.blocks(BLOCK))
    first: Tally | None = None  # a tally may have 64 MB, so only one is kept
    runs: list[Estimates] = []
    distances: list[Metrics] = []
    for run in range(repeats):
        tally = collect(mechanism, blocks, seed, run, threads, shortcut, progress)
        first = first or tally
        runs.append(mechanism.estimate(tally, confidence).with_truth(truth).flagged("truncated", over))
        distances.append({"wasserstein": _distribution_error(mechanism, tally, people)})
    assert first is not None
    answers = summary(runs, truth) | averaged(distances)
    seconds = time.perf_counter() - begin
    return Simulation(mechanism, first, runs[0], truth, answers, seconds, repeats, seed, notes)


def collect(
    mechanism: Mechanism,
    blocks: Sequence[Population | Records],
    seed: int | None,
    run: int = 0,
    threads: int = 1,
    shortcut: bool = False,
    progress: Progress | None = None,
) -> Tally:
    """The tally of one run; the coins of a block are numbered by run and block, whoever works on it."""
    direct = shortcut and has_aggregate(mechanism)

    def work(number: int, block: Population | Records) -> Tally:
        stream = run * len(blocks) + number
        coins = Coins() if seed is None else SeededCoins(seed, stream)
        records = block if isinstance(block, Records) else block.records(mechanism.schema)
        tally = aggregate(mechanism, records, coins) if direct else _reported(mechanism, records, coins)
        if progress:
            progress(records.n)
        return tally

    total = Tally.empty(mechanism.fingerprint, mechanism.tally_shape)
    for tally in _shared(work, enumerate(blocks), threads):
        total = total + tally
    return total


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


def with_public(
    name: str, sizes: NDArray[np.int64], d: int, options: dict[str, Any]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The options with the cap or the law of set sizes that the mechanism needs and lacks, and what to say about it."""
    lacking = {field.name for field in fields(find_mechanism(name)) if options.get(field.name) is None}
    if "max_pairs" in lacking:
        return with_cap(sizes, d, options)
    if "set_sizes" in lacking and options.get("mode") != "direct" and not int(options.get("padding", 0)):
        shares = np.round(np.bincount(sizes) / max(len(sizes), 1), 4)
        law = ",".join(f"{size}:{shares[size]:g}" for size in np.flatnonzero(shares))
        return {**options, "set_sizes": law}, (f"set_sizes is the law of the data, to four decimals; {_IN_PUBLIC}",)
    return options, ()


def with_cap(sizes: NDArray[np.int64], d: int, options: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The options with the cap that set sizes suggest, and what to say about it."""
    cap = min(max(int(np.quantile(sizes, CAP_QUANTILE, method="inverted_cdf")), 1), d)
    note = f"max_pairs is {cap}, the {CAP_QUANTILE:.0%} quantile of the set sizes; {_IN_PUBLIC}"
    return {**options, "max_pairs": cap}, (note,)


def over_cap(mechanism: Mechanism, people: Population) -> NDArray[np.bool_]:
    """The keys of people who hold more pairs than the mechanism's cap: their estimates are off target."""
    touched = np.zeros(mechanism.schema.d, dtype=np.bool_)
    cap = getattr(mechanism, "max_pairs", None)
    if cap is not None and len(people.sizes):
        touched[people.keys[np.repeat(people.sizes > cap, people.sizes)]] = True
    return touched


def spent(mechanism: Mechanism) -> float | None:
    """The exact epsilon of the closed form, rounded up."""
    exact = log_ceiling(mechanism.ratio)
    return float_ceiling(exact) if exact.is_finite() else None


def _distribution_error(mechanism: Mechanism, tally: Tally, people: Population) -> float | None:
    """The distance between estimated and true distributions of values, where the mechanism reports cells."""
    told = can(mechanism, Histograms)
    if told is None:
        return None
    law = told.histogram(tally).law
    distance = wasserstein(law, people.distribution(mechanism.schema, law.shape[1]))
    return None if np.isnan(distance) else distance


def _reported(mechanism: Mechanism, records: Records, coins: Coins) -> Tally:
    return mechanism.tally(mechanism.perturb_many(records, coins))


def _shared(
    work: Callable[[int, Population | Records], Tally],
    blocks: Iterable[tuple[int, Population | Records]],
    threads: int,
) -> Iterator[Tally]:
    if threads == 1:
        yield from starmap(work, blocks)
        return
    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(lambda item: work(*item), blocks)
