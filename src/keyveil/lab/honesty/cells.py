"""One cell: a contender on a population at one epsilon. People are asked until enough intervals have been seen.

Intervals of frequencies and means are those of all keys; of quantiles the medians and quartiles of some keys; of sums
those of the sets of a few random partitions of all keys; of conditionals those of some pairs, drawn anew in every run.
What a contender cannot tell is not counted.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from keyveil.core.errors import KeyveilError
from keyveil.core.estimates import FLAGS, Estimates, Interval
from keyveil.lab.contenders import Contender
from keyveil.lab.honesty.people import KEPT_PEOPLE, crowd
from keyveil.lab.honesty.questions import FURTHER, Source
from keyveil.lab.honesty.truths import Facts
from keyveil.lab.public_options import with_typical
from keyveil.lab.rounds import ask
from keyveil.learn.noise import without_undercount
from keyveil.learn.postprocess import estimates as processed
from keyveil.mechanisms.capabilities import Capped, can
from keyveil.mechanisms.overflow.beside import with_usual_group
from keyveil.protocols.registry import as_protocol

Floats = NDArray[np.float64]
Target = Literal["people", "population"]
Part = Literal["raw", "shrunk"]

LEAST, MOST_RUNS = 400, 60  # intervals of a cell, and runs after which those that were seen must do
SEEN = 4  # times as many intervals after which those without a flag must do
HOPELESS = 0.05  # of the intervals, once ``LEAST`` were seen: where fewer have no flag, more runs would tell little
NEVER = 4  # a quarter of ``LEAST`` is enough where all of them have a flag
WIDER = 1.001  # times the length of the plain interval from which on an interval counts as wider
STRONG = 5.0  # standard errors from which on a key is one that a table must not hide
COUNTABLE = 50  # n·f·(1 - f) from which on the normal law fits counts, so that intervals must not be too wide either
LATTICE = 200
"""Reports that could tell of a key, below which few answers are possible: of 20 that say either of two things at ε = 4,
no interval that is even around the estimate holds the truth in 93 to 97 % of cases, whatever its length."""
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
    above: float = 0.0  # how many standard errors the tested values lie above the truth, added up
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
    seconds: float = 0.0  # of the processor, its share of what all parts took together

    def document(self) -> dict[str, Any]:
        """What a line of the results says; what is zero is left out."""
        counts = {question: {**vars(count), "flags": dict(count.flags)} for question, count in self.counts.items()}
        told = {question: {name: value for name, value in one.items() if value} for question, one in counts.items()}
        why = {"refused": self.refused} if self.refused else {}
        head = {"cell": list(astuple(self.cell)), "part": self.part, "seed": self.seed, "runs": self.runs}
        took = {"seconds": self.seconds} if self.seconds else {}
        return {**head, **took, "counts": told, **why}

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Measured:
        counts = {
            name: Count(**{**one, "flags": Counter(one.get("flags", {}))}) for name, one in document["counts"].items()
        }
        cell, refused = Cell(*document["cell"]), document.get("refused", "")
        seconds = document.get("seconds", 0.0)
        return cls(cell, document["seed"], document["runs"], counts, refused, document["part"], seconds)


def coins_of(cell: Cell, seed: int) -> int:
    """The seed of a cell's coins: its own, in whatever order cells are measured."""
    return int.from_bytes(hashlib.sha256(f"{seed} {cell}".encode()).digest()[:7], "big")


def measure(
    cell: Cell,
    seed: int,
    parts: Sequence[Part] = ("raw",),
    file: Path | None = None,
    *,
    least: int = LEAST,
    most_runs: int = MOST_RUNS,
) -> list[Measured]:
    """Ask the people of a cell until each question of the parts has ``least`` tested intervals, or ``most_runs`` times.

    One asking serves all parts; each counts the runs that it needs, the same ones as if it were measured alone. A
    question of which enough was seen is not asked again, nor is one that the reports do not answer. Where many
    intervals have a flag, ``SEEN`` times as many are enough, and fewer where nearly all have one. So many people that
    one run takes long are asked until frequencies and means are told; other questions get what comes of it.
    """
    begun, asked_of = time.process_time(), crowd(cell.population, cell.n, seed, file)
    run, going = 0, {part: _Going(PARTS[part], least, short=cell.n > KEPT_PEOPLE) for part in parts}

    def measured(refused: str = "") -> list[Measured]:
        seconds = round((time.process_time() - begun) / len(going), 2)
        told = {part: (0, {}) if refused else (one.runs, one.counts) for part, one in going.items()}
        return [Measured(cell, seed, *found, refused, part, seconds) for part, found in told.items()]

    facts, own = asked_of.facts, coins_of(cell, seed)
    people_drawn, asked_about = (np.random.default_rng([own, use]) for use in range(2))
    try:
        contender = Contender.parse(cell.contender)
        declared, _ = with_typical(contender.name, facts.people, facts.schema, dict(contender.options))
        grouped = with_usual_group(contender.name, declared)  # as it is collected
        made = contender.at(Fraction(cell.epsilon), facts.schema, facts.people.sizes, grouped)
    except KeyveilError as refused:
        return measured(str(refused))
    protocol, of_sample = as_protocol(made), cell.target == "population"
    while run < most_runs and any(one.open for one in going.values()):
        try:
            history = ask(
                protocol, asked_of.sample(people_drawn) if of_sample else asked_of.blocks, own, run, shortcut=True
            )
            estimates = protocol.estimate(history, population=of_sample)
        except KeyveilError as refused:
            return measured(str(refused))
        run += 1
        caps = [capped.cap() for one in history if (capped := can(one.round.mechanism, Capped))]
        lost = facts.undercount(min(caps)) if caps else np.zeros(facts.schema.d)
        for part, one in going.items():
            if not one.open:
                continue
            # where reports are so few that no key has an estimate, nothing can be shrunk
            if part == "shrunk" and not np.isnan(estimates.frequency.se).all():
                _columns(one.counts, processed("bayes", estimates), estimates, facts, lost, ", shrunk")
            elif part == "raw":
                if one.open_for("frequency", "mean"):
                    _columns(one.counts, estimates, without_undercount(estimates), facts, lost, "")
                last = history[-1]
                if len(history) == 1:
                    _further(one, Source(last.round.mechanism, last.tally, estimates, facts, asked_about, of_sample))
            one.end(run)
    return measured()


@dataclass
class _Going:
    """A part of a cell while it is measured."""

    asked: tuple[str, ...]
    least: int
    short: bool  # only the first two questions decide how long it takes
    runs: int = 0
    counts: dict[str, Count] = field(default_factory=dict)
    unanswered: set[str] = field(default_factory=set)

    def end(self, run: int) -> None:
        """A run is over; what it did not answer no run will."""
        self.runs = run
        self.unanswered.update(one for one in self.asked if one not in self.counts)

    def open_for(self, *questions: str) -> bool:
        """Whether more intervals of one of these questions are needed."""
        wanted = (one for one in questions if one in self.asked and one not in self.unanswered)
        return any(not enough(self.counts.get(one, Count()), self.least) for one in wanted)

    @property
    def open(self) -> bool:
        return self.open_for(*(self.asked[:2] if self.short else self.asked))


def enough(count: Count, least: int) -> bool:
    """Whether more intervals of a question would tell little; how many hold the truth plays no part in it."""
    hopeless = count.seen >= least and count.tested < HOPELESS * count.seen
    never = count.seen >= least / NEVER and not count.tested
    return count.tested >= least or count.seen >= SEEN * least or hopeless or never


def _further(going: _Going, source: Source) -> None:
    """What one run tells of questions that are not about single keys' frequencies and means."""
    for names, answers in FURTHER.items():
        if not going.open_for(*names):
            continue
        try:
            found = answers(source)
        except KeyveilError:
            continue  # these reports do not tell it, and the contract says who does
        for name, intervals in zip(names, found, strict=True):
            low, high, truth = (np.array([part(one) for one in intervals]) for part in _PARTS)
            flags = np.array([FLAGS.index(one.flag) for one, _ in intervals], dtype=np.int8)
            going.counts.setdefault(name, Count()).add(low, high, truth, flags)


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
    enough &= estimates.respondents >= LATTICE
    hidden = estimates.header.undercount
    if hidden is not None and hidden.widens:
        enough = np.zeros_like(enough)  # none of these intervals is a plain one
    columns = (known, plain.frequency, truth.frequency), (estimates.mean, plain.mean, truth.mean)
    for question, (column, before, target) in zip(("frequency", "mean"), columns, strict=True):
        if column.absent or np.isnan(column.low).all():
            continue
        count = counts.setdefault(question + form, Count())
        tested = count.add(column.low, column.high, target, column.flag)
        if not form:
            with np.errstate(invalid="ignore", divide="ignore"):
                errors = (column.values - target) / column.se
            count.above = round(count.above + float(np.nansum(errors[tested & np.isfinite(errors)])), 3)
        inside = (column.low <= target) & (target <= column.high)
        # an unshrunk interval is as long as its error says; with noise alone it would be shorter
        with np.errstate(invalid="ignore"):
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


# What changes with the estimator alone and what changes with shrinkage are parts of a cell: each can be measured again.
PARTS: dict[Part, tuple[str, ...]] = {
    "raw": ("frequency", "mean", *(name for names in FURTHER for name in names)),
    "shrunk": ("frequency, shrunk", "mean, shrunk"),
}
COLUMNS = (*PARTS["raw"][:2], *PARTS["shrunk"])
QUESTIONS = (*COLUMNS, *PARTS["raw"][2:])
