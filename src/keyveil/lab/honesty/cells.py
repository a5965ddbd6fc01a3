"""One cell: a contender on a population at one epsilon. People are asked until enough intervals have been seen.

Intervals of frequencies and means are those of all keys; of quantiles the medians and quartiles of some keys; of sums
and conditionals those of a few sets and pairs of keys, drawn anew in every run. What a contender cannot tell is not
counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from keyveil.core.errors import KeyveilError
from keyveil.core.estimates import FLAGS, Estimates, Interval
from keyveil.core.tally import Tally
from keyveil.lab.contenders import Contender
from keyveil.lab.datasets.recipes import load
from keyveil.lab.honesty.truths import Facts, resampled
from keyveil.lab.rounds import Blocks, ask
from keyveil.learn.comparisons import subset_sum
from keyveil.learn.conditionals import Conditionals
from keyveil.learn.distributions import distribution
from keyveil.learn.postprocess import estimates as processed
from keyveil.learn.shrinkage import without_undercount
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import Capped, can
from keyveil.mechanisms.overflow.beside import with_usual_group
from keyveil.protocols.registry import as_protocol

Floats = NDArray[np.float64]
Target = Literal["people", "population"]

LEAST, MOST_RUNS = 400, 60  # intervals of a cell, and runs after which those that were seen must do
SETS, PAIRS, MEDIANS = 8, 8, 40  # sets, pairs and keys that one run asks about
WIDER = 1.001  # times the length of the plain interval from which on an interval counts as wider
STRONG = 5.0  # standard errors from which on a key is one that a table must not hide
COUNTABLE = 50  # n·f·(1 - f) from which on the normal law fits counts, so that intervals must not be too wide either
UNDERCOUNT = 0.25  # standard errors by which a cap must bias a frequency before it may be called truncated


@dataclass(frozen=True, order=True)
class Cell:
    """Who is measured on whom; ``target`` says whom the intervals are about."""

    contender: str
    population: str
    epsilon: str
    n: int
    target: Target

    def __str__(self) -> str:
        return f"{self.contender} on {self.population}, ε = {self.epsilon}, {self.n:,} {self.target}"


@dataclass
class Count:
    """What was seen of the intervals that answer one kind of question."""

    tested: int = 0  # without a flag, or only shrunk
    covered: int = 0
    plain: int = 0  # those of keys that are common enough, whose intervals must not be too wide either
    plain_covered: int = 0
    strong: int = 0
    strong_flagged: int = 0
    truncated_rightly: int = 0
    wider: int = 0  # intervals that are longer than the plain one of the same estimate
    times: float = 0.0  # how many times as long they are, added up
    flags: Counter[str] = field(default_factory=Counter)

    def compare(self, lengths: Floats, plain: Floats) -> None:
        """Count the intervals that are longer than plain ones."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = lengths / plain
        longer = np.isfinite(ratios) & (ratios > WIDER)
        self.wider += int(longer.sum())
        self.times += float(ratios[longer].sum())

    def add(self, low: Floats, high: Floats, truth: Floats, flags: NDArray[np.int8]) -> NDArray[np.bool_]:
        """Count some intervals; returns which of them are tested."""
        there = np.isfinite(truth)
        tested = there & (flags <= FLAGS.index("shrunk"))
        inside = (low <= truth) & (truth <= high)
        self.tested += int(tested.sum())
        self.covered += int((tested & inside).sum())
        self.flags.update(FLAGS[code] for code in flags[there])
        return tested

    @property
    def seen(self) -> int:
        return self.flags.total()


@dataclass(frozen=True)
class Measured:
    """The counts of a cell by question, and the seed that drew its people and coins; or why there are none."""

    cell: Cell
    seed: int
    runs: int
    counts: dict[str, Count]
    refused: str = ""

    def document(self) -> dict[str, Any]:
        counts = {question: {**vars(count), "flags": dict(count.flags)} for question, count in self.counts.items()}
        return {**vars(self), "cell": asdict(self.cell), "counts": counts}

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Measured:
        counts = {name: Count(**{**one, "flags": Counter(one["flags"])}) for name, one in document["counts"].items()}
        return cls(Cell(**document["cell"]), document["seed"], document["runs"], counts, document["refused"])


def measure(cell: Cell, seed: int, least: int = LEAST, most_runs: int = MOST_RUNS) -> Measured:
    """Ask the people of a cell until every question was answered by ``least`` intervals, or ``most_runs`` times."""
    data = load(cell.population, n=cell.n, seed=seed)
    people, rng = data.population.keyed(data.schema), np.random.default_rng(seed + 1)
    facts, counts = Facts(people, data.schema), dict[str, Count]()
    try:
        contender = Contender.parse(cell.contender)
        grouped = with_usual_group(contender.name, dict(contender.options))  # as it is collected
        made = contender.at(Fraction(cell.epsilon), data.schema, people.sizes, grouped)
    except KeyveilError as refused:
        return Measured(cell, seed, 0, {}, str(refused))
    protocol, of_sample, run = as_protocol(made), cell.target == "population", 0
    blocks = Blocks.of(people, data.schema)
    while run < most_runs and (not counts or min(one.seen for one in counts.values()) < least):
        asked = Blocks.of(resampled(people, rng), data.schema) if of_sample else blocks
        try:
            history = ask(protocol, asked, seed, run, shortcut=True)
            estimates = protocol.estimate(history, population=of_sample)
        except KeyveilError as refused:
            return Measured(cell, seed, run, {}, str(refused))
        last = history[-1]
        caps = [capped.cap() for one in history if (capped := can(one.round.mechanism, Capped))]
        lost = facts.undercount(min(caps)) if caps else np.zeros(data.schema.d)
        _columns(counts, estimates, without_undercount(estimates), facts, lost, "")
        if not estimates.frequency.absent:
            _columns(counts, processed("bayes", estimates), estimates, facts, lost, ", shrunk")
        single = last.round.mechanism if len(history) == 1 else None
        for question, intervals in _asked(single, last.tally, estimates, facts, rng, of_sample).items():
            low, high, truth = (np.array([part(one) for one in intervals]) for part in _PARTS)
            flags = np.array([FLAGS.index(one.flag) for one, _ in intervals], dtype=np.int8)
            counts.setdefault(question, Count()).add(low, high, truth, flags)
        run += 1
    return Measured(cell, seed, run, counts)


_PARTS: tuple[Callable[[tuple[Interval, float]], float], ...] = (
    lambda one: one[0].low,
    lambda one: one[0].high,
    lambda one: one[1],
)


def _columns(
    counts: dict[str, Count], estimates: Estimates, plain: Estimates, facts: Facts, lost: Floats, form: str
) -> None:
    """Count the intervals of all keys' frequencies and means, and how much longer they are than plain ones."""
    truth, known = facts.truth, estimates.frequency
    strong = known.values > STRONG * known.se
    enough = truth.frequency * (1 - truth.frequency) * truth.n >= COUNTABLE
    hidden = estimates.header.undercount
    if hidden is not None and hidden.widens:
        enough = np.zeros_like(enough)  # none of these intervals is a plain one
    columns = (known, plain.frequency, truth.frequency), (estimates.mean, plain.mean, truth.mean)
    for question, (column, before, target) in zip(("frequency", "mean"), columns, strict=True):
        if column.absent or np.isnan(column.low).all():
            continue
        count = counts.setdefault(question + form, Count())
        tested = count.add(column.low, column.high, target, column.flag)
        inside = (column.low <= target) & (target <= column.high)
        # an unshrunk interval is as long as its error says; without the errors of a cap it would be shorter
        once = before.se * (column.high - column.low) / column.se if not form else before.high - before.low
        count.compare(column.high - column.low, once)
        _plain(count, tested & enough & (column.flag == 0), inside)
        count.strong += int(strong.sum())
        count.strong_flagged += int((strong & (column.flag > FLAGS.index("shrunk"))).sum())
        cut = column.flag == FLAGS.index("truncated")
        count.truncated_rightly += int((cut & (lost > UNDERCOUNT * known.se)).sum())


def _plain(count: Count, plain: NDArray[np.bool_], inside: NDArray[np.bool_]) -> None:
    count.plain += int(plain.sum())
    count.plain_covered += int((plain & inside).sum())


def _asked(
    mechanism: Mechanism | None,
    tally: Tally,
    estimates: Estimates,
    facts: Facts,
    rng: np.random.Generator,
    population: bool,
) -> dict[str, list[tuple[Interval, float]]]:
    """The intervals that answer further questions, each with the truth; without those that are not answered."""
    if mechanism is None:
        return {}
    questions = {"median": _medians, "quartile": _quartiles, "sum": _sums, "conditional": _conditionals}
    found: dict[str, list[tuple[Interval, float]]] = {}
    for name, intervals in questions.items():
        try:
            found[name] = list(intervals(mechanism, tally, estimates, facts, rng, population))
        except KeyveilError:
            continue  # these reports do not tell it, and the contract says who does
    return found


Answers = Iterator[tuple[Interval, float]]


def _medians(
    mechanism: Mechanism, tally: Tally, estimates: Estimates, facts: Facts, rng: np.random.Generator, population: bool
) -> Answers:
    laws = distribution(mechanism, tally, population=population)
    for key in rng.permutation(facts.schema.d)[:MEDIANS]:
        yield laws.quantile(0.5, int(key)), facts.quantile(0.5, int(key))


def _quartiles(
    mechanism: Mechanism, tally: Tally, estimates: Estimates, facts: Facts, rng: np.random.Generator, population: bool
) -> Answers:
    laws = distribution(mechanism, tally, population=population)
    for place, key in enumerate(rng.permutation(facts.schema.d)[:MEDIANS]):
        level = (0.25, 0.75)[place % 2]
        yield laws.quantile(level, int(key)), facts.quantile(level, int(key))


def _sums(
    mechanism: Mechanism, tally: Tally, estimates: Estimates, facts: Facts, rng: np.random.Generator, population: bool
) -> Answers:
    d = facts.schema.d
    for _ in range(SETS):
        keys = [int(key) for key in rng.permutation(d)[: rng.integers(2, max(3, d // 2))]]
        yield subset_sum(estimates, keys, mechanism=mechanism, tally=tally), facts.total(keys)


def _conditionals(
    mechanism: Mechanism, tally: Tally, estimates: Estimates, facts: Facts, rng: np.random.Generator, population: bool
) -> Answers:
    asked = Conditionals(mechanism, tally, population=population)
    for _ in range(PAIRS):
        key, given = (int(one) for one in rng.permutation(facts.schema.d)[:2])
        names = facts.schema.keys
        yield asked.frequency(names[key], {names[given]: True}), facts.share_given(key, given)
