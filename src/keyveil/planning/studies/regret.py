"""One cell of the study of ``auto``: a data set and an epsilon, three goals, and whoever might be better.

``auto`` is told the goal and chooses before anybody reports. Against it stand all mechanisms in the form that a plan
has for the goal, protocols of two rounds, and the published mechanisms with both splits and their best caps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

from keyveil.core.errors import KeyveilError
from keyveil.core.schema import Schema
from keyveil.lab.compare import compare
from keyveil.lab.comparison import Comparison
from keyveil.lab.contenders import contenders, of_project
from keyveil.lab.datasets import Dataset, load, named, names, recipe
from keyveil.lab.decoders import BAYES, RAW
from keyveil.lab.equal_decoders.rule import Setting, worth_measuring
from keyveil.lab.public_options import made_for
from keyveil.lab.scores import Score, told_apart
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.registry import protocol_names
from keyveil.planning.ask import plan
from keyveil.protocols.base import Protocol
from keyveil.protocols.registry import as_protocol

GOALS = {"frequency": "frequency", "mean": "mean", "mean_top": "mean:20"}
"""What is measured (``lab.metrics``), and the goal that ``auto`` is told for it."""
EPSILONS = ("0.5", "1", "2", "4")
PEOPLE, MOST_PAIRS = 10_000, 2_000_000  # of a cell; people are fewer where they hold very much
REPEATS = 10
NEAR = 1.25  # times the predicted error of ``auto`` up to which a mechanism is measured; predictions err by 10 %
SHRUNK = 3
"""Published forms of least error, as estimated, of every quantity that are also measured with empirical Bayes, which
takes longer than everything else."""
ROUNDS = 2
MOST_KEYS = 5_000  # up to which protocols of two rounds are measured

Made = Mechanism | Protocol


class Cell(NamedTuple):
    """A data set, as the command line names it or by the name of a recipe, and an epsilon."""

    data: str
    epsilon: str

    def __str__(self) -> str:
        return f"{self.data}, ε = {self.epsilon}"


def cells(data: list[str] | None = None) -> list[Cell]:
    """All cells; first one epsilon for every data set, then the next, so that a part of them is spread over all."""
    sets = list(names()) if data is None else data
    return [
        Cell(one, EPSILONS[(place + turn) % len(EPSILONS)])
        for turn in range(len(EPSILONS))
        for place, one in enumerate(sets)
    ]


def measured(cell: Cell, seed: int, people: int = PEOPLE, repeats: int = REPEATS) -> dict[str, Any]:
    """What ``auto`` chose, and what everybody's errors are; a row for every goal.

    Squared errors with standard errors: ``auto`` over all runs; the ``best`` of all and the best ``published``, each
    found on one half of the runs and measured on the other. With empirical Bayes only those take part who are chosen
    or, of the published, among the first as estimated.
    """
    data = _people(cell.data, people, seed)
    everybody = data.population.keyed(data.schema)
    epsilon = Fraction(cell.epsilon)
    chosen, ours = _ours(data, epsilon)
    setting = Setting(data.schema, everybody, everybody.truth(data.schema), epsilon)
    labels = worth_measuring(setting)
    asked: dict[str, Made | str] = {label: label for label in labels}
    asked |= ours | {repr(one): one for one in _two_rounds(data, epsilon)}
    raw = _measure(data, epsilon, asked, RAW, repeats, seed)
    published = [key for key, one in asked.items() if not of_project(one if isinstance(one, str) else one.name)]
    near = raw.first(published)
    kept = {key: one for key, one in asked.items() if key in {*near, *chosen.values()}}
    shrunk = _measure(data, epsilon, kept, BAYES, repeats, seed)
    rows = []
    for found, others in ((raw, published), (shrunk, near)):
        for quantity, made in chosen.items():
            auto, best, other = (found.best_of(some, quantity) for some in ([made], list(found.labels), others))
            if auto and best and other:
                rows.append({"quantity": quantity, "decoder": found.decoder, **_row(auto, best, other)})
    return {
        "data": cell.data,
        "epsilon": cell.epsilon,
        "seed": seed,
        "people": everybody.n,
        "keys": data.schema.d,
        "repeats": repeats,
        "measured": len(asked),
        "rows": rows,
    }


class _Measured(NamedTuple):
    """A comparison with one decoder, and the labels in it of whom we ask for."""

    found: Comparison
    labels: dict[str, str]
    epsilon: Fraction
    decoder: str

    def best_of(self, some: Sequence[str], quantity: str) -> Score | None:
        return self.found.best_of([self.labels[key] for key in some], self.epsilon, quantity)

    def first(self, some: Sequence[str]) -> list[str]:
        """The ``SHRUNK`` of least error of every quantity."""
        found: dict[str, None] = {}
        for quantity in GOALS:
            scores = {key: one.error for key in some if (one := self.best_of([key], quantity)) is not None}
            found |= dict.fromkeys(sorted(scores, key=scores.__getitem__)[:SHRUNK])
        return list(found)


def _measure(
    data: Dataset, epsilon: Fraction, asked: dict[str, Made | str], decoder: str, repeats: int, seed: int
) -> _Measured:
    known = contenders(list(asked.values()))
    made = {repr(one.made): label for label, one in known.items() if one.made is not None}
    labels = {key: made.get(key, key) for key in asked}
    found = compare(data, epsilon, list(asked.values()), repeats=repeats, seed=seed, decoders=(decoder,))
    return _Measured(found, labels, epsilon, decoder)


def _row(auto: Score, best: Score, published: Score) -> dict[str, Any]:
    """Errors, who stands behind them, and whether the published one is told from ``auto``."""
    named = {"auto": auto, "best": best, "published": published}
    errors = {name: [float(f"{one.error:.5g}"), float(f"{one.spread or 0:.3g}")] for name, one in named.items()}
    return {**errors, "who": {name: list(one.forms) for name, one in named.items()}, "won": told_apart(auto, published)}


def regret(row: dict[str, Any]) -> float:
    """How many times the root mean squared error of the best that of ``auto`` is."""
    return math.sqrt(row["auto"][0] / row["best"][0])


def gain(row: dict[str, Any]) -> float:
    """How many times the squared error of ``auto`` that of the best published is."""
    return float(row["published"][0] / row["auto"][0])


def _people(name: str, most: int, seed: int) -> Dataset:
    """The people of a data set, without levels of values: some mechanisms would report these instead."""
    if name in names():
        pairs = max(float(recipe(name).profile(seed)[0].sum()), 1.0)
        data = load(name, n=min(most, int(MOST_PAIRS / pairs)), seed=seed)
    else:
        data = named(name)
    schema = data.schema
    return replace(data, schema=Schema(keys=schema.names, low=schema.low, high=schema.high, map=schema.map))


def _ours(data: Dataset, epsilon: Fraction) -> tuple[dict[str, str], dict[str, Made]]:
    """What ``auto`` chooses for every quantity, and it with all others that are predicted to come near, as written."""
    chosen: dict[str, str] = {}
    near: dict[str, Made] = {}
    for quantity, goal in GOALS.items():
        found = plan(sample=data.population, schema=data.schema, epsilon=epsilon, goal=goal)
        chosen[quantity] = repr(found.mechanism)
        near |= {repr(line.made): line.made for line in found.lines if line.error <= NEAR * found.best.error}
    return chosen, near


def _two_rounds(data: Dataset, epsilon: Fraction) -> list[Made]:
    """Protocols of two rounds, with the options that simulations choose for these people."""
    found: list[Made] = []
    for name in protocol_names() if data.schema.d <= MOST_KEYS else ():
        try:
            made = made_for(name, data.schema, epsilon, data.population.sizes, {})[0]
            if 1 < len(as_protocol(made).longest()) <= ROUNDS:
                found.append(made)
        except KeyveilError:
            continue  # not for these people
    return found
