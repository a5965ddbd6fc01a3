"""One cell: one mechanism on one population at one point of an axis, a few runs of it.

A cell is plain data, so that another process can run it and its key can name it in the file of finished cells. What
comes out depends on the cell alone: its coins and people have seeds that belong to its description.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from keyveil.core.epsilon import log_ceiling
from keyveil.core.errors import KeyveilError
from keyveil.core.estimates import Estimates
from keyveil.core.schema import Schema
from keyveil.lab.contenders import Contender
from keyveil.lab.decoders import decoded
from keyveil.lab.experiments.choice import CHOSEN, chosen
from keyveil.lab.experiments.formulas import FORMULAS
from keyveil.lab.experiments.measures import MEASURES
from keyveil.lab.experiments.people import Crowd, crowd
from keyveil.lab.experiments.readings import Run
from keyveil.lab.experiments.shape import People
from keyveil.lab.matching import spending, true_ratio_of
from keyveil.lab.public_options import made_for, with_public
from keyveil.lab.rounds import ask
from keyveil.lab.seeds import seed_of
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.registry import build
from keyveil.protocols.base import Protocol
from keyveil.protocols.registry import as_protocol

VERSION = 1  # of what a cell means; a finished cell of another version is run again


@dataclass(frozen=True)
class Cell:
    """What is run: ``matched``, with a request at which a person loses exactly ε; runs ``first`` up to ``last``."""

    people: People
    n: int
    who: str
    matched: bool
    epsilon: str
    readings: tuple[tuple[str, str], ...]  # decoder and measure
    points: tuple[float, ...]
    first: int
    last: int
    seed: int
    formula: str = ""
    x: float = 0.0
    source: str = ""  # which file, where people are read from one

    @property
    def key(self) -> str:
        """The name of the cell among finished ones; it says all that the numbers depend on."""
        numbers = replace(self, people=people_of(self.people))
        described = msgspec.json.encode([VERSION, asdict(numbers)], order="deterministic")
        return blake2b(described, digest_size=12).hexdigest()

    @property
    def title(self) -> str:
        return f"{self.people.title} · {self.who or self.formula or 'truth'} · ε = {self.epsilon}"


def measure(cell: Cell, file: Path | None = None) -> dict[str, Any]:
    """Run a cell: ``values`` has a row of numbers for each run, by decoder and measure.

    What a mechanism refuses is no failure of the experiment: the sentence is kept as ``refused``.
    """
    begin = time.process_time()
    document: dict[str, Any] = {"key": cell.key, "values": {name_of(*one): [] for one in cell.readings}}
    try:
        document |= _formula(cell) if cell.formula else _runs(cell, file)
    except KeyveilError as reason:
        if file is not None and reason.code.startswith("population/"):
            raise
        document |= {"refused": f"{reason.sentence} [{reason.code}]"}
    return document | {"seconds": round(time.process_time() - begin, 3)}


def people_of(people: People) -> People:
    """The people without the words about them: what numbers depend on."""
    return replace(people, label="", stands_for="", file="", cap=0, cap_of_file=0)


def name_of(decoder: str, measure: str) -> str:
    """The name of a reading in a finished cell."""
    return f"{decoder}|{measure}"


def _formula(cell: Cell) -> dict[str, Any]:
    number = FORMULAS[cell.formula](cell.x)
    return {"values": {name_of(*one): [[number]] for one in cell.readings}, "n": 0, "keys": 0}


def _runs(cell: Cell, file: Path | None) -> dict[str, Any]:
    people = crowd(cell.people, cell.n, cell.seed, file, cell.first if cell.people.fresh else 0)
    found: dict[str, list[list[float]]] = {name_of(*one): [] for one in cell.readings}
    about: dict[str, Any] = {"n": people.truth.n, "keys": people.schema.d}
    coins = seed_of(cell.seed, cell.who, cell.matched, cell.epsilon, cell.n, people_of(cell.people))
    made: Mechanism | Protocol | None = None
    for run in range(cell.first, cell.last):
        if cell.people.fresh and run > cell.first:
            people = crowd(cell.people, cell.n, cell.seed, file, run)
        if not cell.who:
            outcomes = {"raw": Run(people)}
        else:
            made = made or _made(cell, people)
            outcomes = _asked(cell, made, people, coins, run)
        for decoder, name in cell.readings:
            numbers = MEASURES[name].read(outcomes[decoder], cell.points)
            found[name_of(decoder, name)].append([float(number) for number in numbers])
    if made is not None:
        about |= {"requested": str(made.epsilon), "exact": _spent(made)}
    return about | {"values": found}


def _asked(cell: Cell, made: Mechanism | Protocol, people: Crowd, coins: int, run: int) -> dict[str, Run]:
    """One run with every decoder that somebody wants to read."""
    protocol = as_protocol(made)
    history = tuple(ask(protocol, people.blocks, coins, run, shortcut=True))
    raw = protocol.estimate(history)
    one = Run(people, protocol, history, raw, raw, seed=seed_of(coins, run))
    decoders = dict.fromkeys(decoder for decoder, _ in cell.readings)
    return {decoder: replace(one, **_decoded(decoder, raw, one.seed)) for decoder in decoders}


def _decoded(decoder: str, raw: Estimates, seed: int) -> dict[str, Any]:
    name = chosen(raw, seed) if decoder == CHOSEN else decoder
    return {"decoder": name, "shown": decoded(name, raw)}


def _made(cell: Cell, people: Crowd) -> Mechanism | Protocol:
    """The mechanism or protocol; where no request spends exactly ε, the one that asks for ε."""
    one, sizes = Contender.parse(cell.who), people.population.sizes
    epsilon, schema, options = Fraction(cell.epsilon), people.schema, dict(one.options)
    if cell.matched:
        try:
            filled, _ = with_public(one.name, sizes, schema.d, options)
            return matched(one.name, schema, epsilon, tuple(filled.items()))
        except KeyveilError as reason:
            if reason.code != "compare/epsilon":
                raise
    return made_for(one.name, schema, epsilon, sizes, options)[0]


@lru_cache(maxsize=512)
def matched(name: str, schema: Schema, epsilon: Fraction, options: tuple[tuple[str, Any], ...]) -> Mechanism | Protocol:
    """The mechanism or protocol for which a person loses exactly ε over all rounds, as far as is known."""
    return spending(lambda requested: build(name, schema, requested, dict(options)), epsilon, true_ratio_of)


def _spent(made: Mechanism | Protocol) -> str | None:
    """The exact ε of the person who loses most, to ten digits and rounded up; None where it is not known."""
    try:
        return f"{log_ceiling(true_ratio_of(made)):.10g}"
    except KeyveilError:
        return None
