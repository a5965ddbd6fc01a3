"""One cell of the record: one mechanism on some people at one ε, with every decoder, all runs of it.

A cell is plain data, so that another process can run it and its key can name it in the file of finished cells. Its
numbers depend on nothing else, but for what was timed.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from fractions import Fraction
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from keyveil.core.epsilon import exact_entries, realised
from keyveil.core.errors import KeyveilError
from keyveil.core.estimates import Estimates
from keyveil.frames.truth import Truth
from keyveil.lab.caps import truncated
from keyveil.lab.coins import SeededCoins
from keyveil.lab.contenders import Contender
from keyveil.lab.datasets.named import SYNTHETIC
from keyveil.lab.datasets.papers import is_source
from keyveil.lab.decoders import decoded
from keyveil.lab.matching import ratio_of
from keyveil.lab.predicted import with_best_cap
from keyveil.lab.record.limit import distance, least_error
from keyveil.lab.record.measures import OF_VALUES, Floats, Number, averaged, of_run, over_runs
from keyveil.lab.record.people import LIMIT, Crowd, Reading, collected, crowd, source_of
from keyveil.lab.rounds import bits_per_person
from keyveil.lab.seeds import seed_of
from keyveil.lab.simulate import distribution_errors
from keyveil.mechanisms.base import Mechanism
from keyveil.protocols.base import History, Protocol
from keyveil.protocols.registry import as_protocol

VERSION = 1  # of what a cell means; finished cells of another version are run again

_TIMED = 500  # reports, from which the time of one is measured
TOLD_OF_TIME = ("seconds", "us_per_report")
"""What differs from run to run and from machine to machine; all else follows from the cell."""


@dataclass(frozen=True)
class Cell:
    """What is run, on whom, and how often."""

    data: str  # as on the command line
    epsilon: str
    who: str  # a contender's label
    decoders: tuple[str, ...]
    repeats: int
    seed: int
    given: tuple[tuple[str, str], ...] = ()  # options for everybody who has them
    reading: Reading = ()  # how a file is read
    shortcut: bool = True  # whether counts may be drawn from their law
    file: str = ""  # a digest of the file's bytes
    submitted: str = ""  # a digest of the submitted mechanism's code

    @property
    def key(self) -> str:
        """The name of the cell among finished ones; it says all that the numbers depend on."""
        own = asdict(self) | {"data": self.people}
        return blake2b(msgspec.json.encode([VERSION, own], order="deterministic"), digest_size=12).hexdigest()

    @property
    def people(self) -> str:
        """The people in words: for files their name, for the papers' data that of the source."""
        if is_source(self.data):
            return self.data.partition(":")[0]
        return Path(self.data).name if self.file else self.data

    @property
    def title(self) -> str:
        return f"{self.data}: {self.who}, ε = {self.epsilon}"


def measure(cell: Cell) -> dict[str, Any]:
    """Run a cell. ``values`` has for every decoder each number with its standard error.

    What a mechanism or a decoder refuses is kept as a sentence; people that cannot be had are a mistake.
    """
    begin = time.process_time()
    people = crowd(cell.data, cell.reading, cell.seed)
    document: dict[str, Any] = {"key": cell.key, "values": {}, "n": people.n, "keys": people.schema.d}
    try:
        document |= _runs(cell, people)
    except KeyveilError as reason:
        document |= {"refused": f"{reason.sentence} [{reason.code}]"}
    return document | {"seconds": round(time.process_time() - begin, 3)}


def digest(*paths: Path) -> str:
    """What files hold, in a few letters."""
    found = blake2b(digest_size=12)
    for path in paths:
        with path.open("rb") as file:
            while some := file.read(1 << 20):
                found.update(some)
    return found.hexdigest()


def is_file(data: str) -> bool:
    """Whether a text names a file and not synthetic people."""
    return data.partition(":")[0] != SYNTHETIC


def made_for(cell: Cell, people: Crowd) -> Mechanism | Protocol:
    """The mechanism or protocol of a cell, which spends exactly its ε."""
    epsilon, given = Fraction(cell.epsilon), dict(cell.given)
    one = with_best_cap(Contender.parse(cell.who), epsilon, people.schema, people.people, people.truth, given)
    return one.at(epsilon, people.schema, people.people.sizes, given)


def _runs(cell: Cell, people: Crowd) -> dict[str, Any]:
    made = made_for(cell, people)
    protocol = as_protocol(made)
    coins = seed_of(cell.seed, cell.who, cell.epsilon, cell.given)
    source = source_of(protocol, people, cell.shortcut)
    found = {decoder: _Decoded() for decoder in cell.decoders}
    refused: dict[str, str] = {}
    raw: list[Estimates] = []
    laws: list[dict[str, float | None]] = []
    cut, bits, counts = False, 0.0, source
    for run in range(cell.repeats):
        history, truth, counts = collected(protocol, people, coins, run, source)
        estimates = protocol.estimate(history)
        if run == 0:
            bits = bits_per_person(history, people.n)
            cut = any(truncated(one, people.people).any() for one in history)
        raw.append(estimates)
        laws.append(_laws(history, people))
        for decoder, rows in found.items():
            try:
                rows.add(decoded(decoder, estimates), truth)
            except KeyveilError as reason:
                refused[decoder] = f"{reason.sentence} [{reason.code}]"
    values = {decoder: rows.numbers() for decoder, rows in found.items() if decoder not in refused}
    if values:
        next(iter(values.values())).update(averaged(laws))
    if counts == LIMIT:
        for numbers in values.values():
            numbers.pop("coverage_frequency", None)
            numbers.pop("coverage_mean", None)
    exact = exact_entries(realised(ratio_of(made), Fraction(cell.epsilon)))
    return {
        "values": values,
        "decoders_refused": refused,
        "counts": counts,
        **exact,
        "requested": str(protocol.epsilon),
        "options": {name: str(value) for name, value in protocol.parameters.items() if value is not None},
        "bits_per_report": bits,
        "us_per_report": _microseconds(protocol, people),
        "truncated": bool(cut),
        "pairs_per_person": float(people.people.sizes.mean()),
        **_limit(cell, people, raw),
    }


class _Decoded:
    """The runs of one decoder."""

    def __init__(self) -> None:
        self.runs: list[dict[str, float | None]] = []
        self.frequencies: list[Floats] = []
        self.means: list[Floats] = []

    def add(self, estimates: Estimates, truth: Truth) -> None:
        held = np.flatnonzero(truth.count > 0)
        self.runs.append(of_run(estimates, truth))
        if not estimates.frequency.absent:
            self.frequencies.append((np.nan_to_num(estimates.frequency.values) - truth.frequency)[held])
        if not estimates.mean.absent:
            self.means.append((np.nan_to_num(np.clip(estimates.mean.values, -1, 1)) - truth.mean)[held])

    def numbers(self) -> dict[str, Number]:
        found = averaged(self.runs)
        for quantity, errors in (("frequency", self.frequencies), ("mean", self.means)):
            if len(errors) == len(self.runs) and f"mse_{quantity}" in found:
                found |= over_runs(np.array(errors), quantity)
        return found


def _laws(history: History, people: Crowd) -> dict[str, float | None]:
    """Errors of laws of values, where a mechanism estimates them and all people are in memory."""
    if people.dataset.stream is not None:
        return dict.fromkeys(OF_VALUES)
    found = distribution_errors(history, people.people)
    return {name: found[name] for name in OF_VALUES}


def _limit(cell: Cell, people: Crowd, raw: list[Estimates]) -> dict[str, Any]:
    """The distance to the information limit, of plain estimates: a bound for unbiased ones says nothing of others."""
    epsilon, truth = float(Fraction(cell.epsilon)), people.truth
    apart: tuple[float | None, float | None] = None, None
    if not any(one.frequency.absent or np.isnan(one.frequency.se).all() for one in raw):  # without errors: biased
        frequencies = np.array([one.frequency.values for one in raw])
        products = [one.product for one in raw]
        known = None if any(one is None for one in products) else np.array(products)
        apart = distance(frequencies, known, truth, people.squares, epsilon, people.n)
    return {
        "distance": apart[0],
        "distance_se": apart[1],
        "limit_proved": people.independent,
        "least_mse_frequency": least_error(truth, epsilon, people.n),
    }


def _microseconds(protocol: Protocol, people: Crowd) -> float | None:
    """CPU microseconds that a report takes a device on this machine, in the first round; what is first is warm-up."""
    first = protocol.next_round([])
    if first is None:
        return None
    records = people.blocks.records(0) if people.dataset.stream is None else people.people.records(people.schema)
    some = records.slice(0, min(records.n, _TIMED))
    first.mechanism.perturb_many(some, SeededCoins(0, 0))
    begin = time.process_time()
    first.mechanism.perturb_many(some, SeededCoins(0, 1))
    return round((time.process_time() - begin) / max(some.n, 1) * 1e6, 3)
