"""One cell: a contender on a population at one epsilon. People are asked until enough intervals have been seen.

Intervals of frequencies and means are those of all keys; of quantiles the medians and quartiles of some keys; of sums
those of the sets of a few random partitions of all keys; of conditionals those of some pairs, drawn anew in every run.
What a contender cannot tell is not counted.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import astuple, dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from keyveil.core.errors import KeyveilError
from keyveil.core.estimates import FLAGS, Estimates, Interval
from keyveil.core.tally import Tally
from keyveil.lab.contenders import Contender
from keyveil.lab.datasets.real import real
from keyveil.lab.datasets.recipes import load
from keyveil.lab.honesty.truths import Facts, resampled
from keyveil.lab.rounds import Blocks, ask
from keyveil.learn.comparisons import subset_sums
from keyveil.learn.conditionals import Conditionals
from keyveil.learn.distributions import distribution
from keyveil.learn.noise import without_undercount
from keyveil.learn.postprocess import estimates as processed
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import Capped, can
from keyveil.mechanisms.overflow.beside import with_usual_group
from keyveil.protocols.registry import as_protocol

Floats = NDArray[np.float64]
Target = Literal["people", "population"]
Part = Literal["raw", "shrunk"]

LEAST, MOST_RUNS = 400, 60  # intervals of a cell, and runs after which those that were seen must do
SEEN = 4  # times as many intervals after which those without a flag must do
HOPELESS = 0.05  # of the intervals, once ``LEAST`` were seen: where fewer have no flag, more runs would tell little
PARTITIONS, SETS, PAIRS, MEDIANS = 3, 14, 40, 40  # most sets of a partition, pairs and keys that one run asks about
KEPT_PEOPLE = 10**5  # up to which the people of several populations stay in memory
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
    strong: int = 0  # of keys whose true frequency is beyond ``STRONG`` standard errors
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
        self.times = round(self.times + float(ratios[longer].sum()), 3)

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
    """The counts of a part of a cell by question, and the seed that drew people and coins; or why there are none."""

    cell: Cell
    seed: int
    runs: int
    counts: dict[str, Count]
    refused: str = ""
    part: Part = "raw"

    def document(self) -> dict[str, Any]:
        """What a line of the results says; what is zero is left out."""
        counts = {question: {**vars(count), "flags": dict(count.flags)} for question, count in self.counts.items()}
        told = {question: {name: value for name, value in one.items() if value} for question, one in counts.items()}
        why = {"refused": self.refused} if self.refused else {}
        head = {"cell": list(astuple(self.cell)), "part": self.part, "seed": self.seed, "runs": self.runs}
        return {**head, "counts": told, **why}

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Measured:
        counts = {
            name: Count(**{**one, "flags": Counter(one.get("flags", {}))}) for name, one in document["counts"].items()
        }
        cell, refused = Cell(*document["cell"]), document.get("refused", "")
        return cls(cell, document["seed"], document["runs"], counts, refused, document["part"])


@dataclass(frozen=True, eq=False)
class Crowd:
    """The people of a population, what is true of them, and their records in blocks."""

    facts: Facts
    blocks: Blocks


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


def coins_of(cell: Cell, seed: int) -> int:
    """The seed of a cell's coins: its own, in whatever order cells are measured."""
    return int.from_bytes(hashlib.sha256(f"{seed} {cell}".encode()).digest()[:7], "big")


def measure(
    cell: Cell,
    seed: int,
    part: Part = "raw",
    file: Path | None = None,
    *,
    least: int = LEAST,
    most_runs: int = MOST_RUNS,
) -> Measured:
    """Ask the people of a cell until every question of a part has ``least`` tested intervals, or ``most_runs`` times.

    A question of which enough was seen is not asked again, nor is one that the reports do not answer. Where many
    intervals have a flag, ``SEEN`` times as many are enough, and ``least`` where nearly all have one. So many people
    that one run takes long are asked until frequencies and means are told; other questions get what comes of it.
    """
    asked_of = crowd(cell.population, cell.n, seed, file)
    facts, own = asked_of.facts, coins_of(cell, seed)
    schema, rng = facts.schema, np.random.default_rng(own)
    try:
        contender = Contender.parse(cell.contender)
        grouped = with_usual_group(contender.name, dict(contender.options))  # as it is collected
        made = contender.at(Fraction(cell.epsilon), schema, facts.people.sizes, grouped)
    except KeyveilError as refused:
        return Measured(cell, seed, 0, {}, str(refused), part)
    protocol, of_sample, run = as_protocol(made), cell.target == "population", 0
    counts, unanswered, asked = dict[str, Count](), set[str](), PARTS[part]
    needed = asked if cell.n <= KEPT_PEOPLE else asked[:2]

    def open_for(*questions: str) -> bool:
        wanted = (one for one in questions if one in asked and one not in unanswered)
        return any(not _enough(counts.get(one, Count()), least) for one in wanted)

    while run < most_runs and open_for(*needed):
        people = Blocks.of(resampled(facts.people, rng), schema) if of_sample else asked_of.blocks
        try:
            history = ask(protocol, people, own, run, shortcut=True)
            estimates = protocol.estimate(history, population=of_sample)
        except KeyveilError as refused:
            return Measured(cell, seed, run, {}, str(refused), part)
        caps = [capped.cap() for one in history if (capped := can(one.round.mechanism, Capped))]
        lost = facts.undercount(min(caps)) if caps else np.zeros(schema.d)
        if part == "shrunk" and not estimates.frequency.absent:
            _columns(counts, processed("bayes", estimates), estimates, facts, lost, ", shrunk")
        elif open_for("frequency", "mean"):
            _columns(counts, estimates, without_undercount(estimates), facts, lost, "")
        last, single = history[-1], len(history) == 1
        source = Source(last.round.mechanism, last.tally, estimates, facts, rng, of_sample)
        for names, answers in FURTHER.items():
            if not (single and open_for(*names)):
                continue
            try:
                found = answers(source)
            except KeyveilError:
                continue  # these reports do not tell it, and the contract says who does
            for name, intervals in zip(names, found, strict=True):
                low, high, truth = (np.array([part(one) for one in intervals]) for part in _PARTS)
                flags = np.array([FLAGS.index(one.flag) for one, _ in intervals], dtype=np.int8)
                counts.setdefault(name, Count()).add(low, high, truth, flags)
        unanswered.update(one for one in asked if one not in counts)
        run += 1
    return Measured(cell, seed, run, counts, part=part)


def _enough(count: Count, least: int) -> bool:
    hopeless = count.seen >= least and count.tested < HOPELESS * count.seen
    return count.tested >= least or count.seen >= SEEN * least or hopeless


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
    strong = (
        truth.frequency > STRONG * (plain if form else estimates).frequency.se
    )  # after shrinkage errors are smaller
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
        # an unshrunk interval is as long as its error says; with noise alone it would be shorter
        once = before.se * (column.high - column.low) / column.se if not form else before.high - before.low
        ordinary = enough
        if (
            question == "mean"
            and not form
            and estimates.product_noise_se is not None
            and estimates.product_se is not None
        ):
            noise = estimates.product_noise_se / estimates.product_se
            once, ordinary = once * noise, enough & (noise * WIDER >= 1)
        count.compare(column.high - column.low, once)
        _plain(count, tested & ordinary & (column.flag == 0), inside)
        # a key may be certain and what it is not: the interval shows it
        hiding = (column.flag > FLAGS.index("shrunk")) & (column.flag != FLAGS.index("wide"))
        count.strong += int(strong.sum())
        count.strong_flagged += int((strong & hiding).sum())
        cut = column.flag == FLAGS.index("truncated")
        count.truncated_rightly += int((cut & (lost > UNDERCOUNT * known.se)).sum())


def _plain(count: Count, plain: NDArray[np.bool_], inside: NDArray[np.bool_]) -> None:
    count.plain += int(plain.sum())
    count.plain_covered += int((plain & inside).sum())


@dataclass(frozen=True, eq=False)
class Source:
    """What further questions are asked of: the reports of one run, and the truth about the people."""

    mechanism: Mechanism
    tally: Tally
    estimates: Estimates
    facts: Facts
    rng: np.random.Generator
    population: bool


Answers = list[tuple[Interval, float]]


def _quantiles(source: Source) -> tuple[Answers, Answers]:
    """Medians, and lower and upper quartiles by turns, of some keys."""
    laws, facts = distribution(source.mechanism, source.tally, population=source.population), source.facts
    medians, quartiles = Answers(), Answers()
    for place, key in enumerate(source.rng.permutation(facts.schema.d)[:MEDIANS].tolist()):
        level = (0.25, 0.75)[place % 2]
        medians.append((laws.quantile(0.5, key), facts.quantile(0.5, key)))
        quartiles.append((laws.quantile(level, key), facts.quantile(level, key)))
    return medians, quartiles


def _sums(source: Source) -> tuple[Answers]:
    d, rng = source.facts.schema.d, source.rng
    sets = list[list[int]]()
    for _ in range(PARTITIONS):  # sets of one are apart, so that their errors have little in common
        cuts = np.sort(rng.permutation(d - 1)[: min(SETS, max(d // 3, 1)) - 1] + 1)
        sets += [part.tolist() for part in np.split(rng.permutation(d), cuts)]
    sums = subset_sums(source.estimates, sets, mechanism=source.mechanism, tally=source.tally)
    return ([(total, source.facts.total(keys)) for total, keys in zip(sums, sets, strict=True)],)


def _conditionals(source: Source) -> tuple[Answers]:
    asked = Conditionals(source.mechanism, source.tally, population=source.population)
    names, found = source.facts.schema.keys, Answers()
    for _ in range(min(PAIRS, len(names))):
        key, given = source.rng.permutation(len(names))[:2].tolist()
        share = asked.frequency(names[key], {names[given]: True})
        found.append((share, source.facts.share_given(key, given)))
    return (found,)


FURTHER: dict[tuple[str, ...], Callable[[Source], tuple[Answers, ...]]] = {
    ("median", "quartile"): _quantiles,
    ("sum",): _sums,
    ("conditional",): _conditionals,
}
# What changes with the estimator alone and what changes with shrinkage are parts of a cell: each can be measured again.
PARTS: dict[Part, tuple[str, ...]] = {
    "raw": ("frequency", "mean", *(name for names in FURTHER for name in names)),
    "shrunk": ("frequency, shrunk", "mean, shrunk"),
}
COLUMNS = (*PARTS["raw"][:2], *PARTS["shrunk"])
QUESTIONS = (*COLUMNS, *PARTS["raw"][2:])
