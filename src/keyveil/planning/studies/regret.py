"""One cell of the study of ``auto``: a data set and an epsilon, three goals, and whoever might be better.

``auto`` is told the goal and how estimates will be read, and chooses before anybody reports. Against it stand all
mechanisms in the form that a plan has for the goal, protocols of two rounds, and the published mechanisms with both
splits and their best caps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keyveil.core.errors import KeyveilError
from keyveil.core.schema import Schema
from keyveil.frames.population import Population
from keyveil.frames.truth import Truth
from keyveil.lab.coins import SeededCoins
from keyveil.lab.contenders import contenders, of_project
from keyveil.lab.datasets import Dataset, load, named, names, recipe
from keyveil.lab.decoders import BAYES, RAW
from keyveil.lab.equal_decoders.rule import Setting, worth_measuring
from keyveil.lab.metrics import TOP
from keyveil.lab.public_options import made_for
from keyveil.lab.scores import Score, told_apart
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.registry import protocol_names
from keyveil.planning.ask import plan
from keyveil.planning.studies.contest import DECODERS, OWN, Contest
from keyveil.protocols.base import Protocol
from keyveil.protocols.registry import as_protocol

GOALS = {"frequency": "frequency", "mean": "mean", "mean_top": "mean:20"}
"""What is measured (``lab.metrics``), and the goal that ``auto`` is told for it."""
EPSILONS = ("0.5", "1", "2", "4")
PEOPLE, MOST_PAIRS = 10_000, 2_000_000  # of a cell; people are fewer where they hold very much
NEAR = 1.25  # times the predicted error of ``auto`` up to which a mechanism is measured; predictions err by 10 %
HOPELESS = 9.0  # times the least squared error in the first runs, from which on nobody is looked at again
HOPEFUL, FINALISTS = 1.5, 3
"""Times the least squared error in the first runs up to which a contender takes part in the others, and how many at
most for each quantity and decoder, of all and of the published."""
ROUNDS = 2
MOST_KEYS = 5_000  # up to which protocols of two rounds are measured
FIRST_KEYS, FIRST_LEAST, FIRST_MOST = 200, 2, 4
LAST_KEYS, LAST_LEAST, LAST_MOST = 800, 8, 20
"""Runs times keys that are wanted of the first runs and of the others, with the fewest and most runs: the squared error
of 800 normal errors is known to 5 %."""
FIRST_SHRUNK = 1  # of the first runs with empirical Bayes, which takes longer than everything else

Made = Mechanism | Protocol
Chosen = dict[tuple[str, str], str]
"""What ``auto`` takes part with, by quantity and decoder."""


class Cell(NamedTuple):
    """A data set, by the name of a recipe or of a file without its folder, and an epsilon."""

    data: str
    epsilon: str

    def __str__(self) -> str:
        return f"{self.data}, ε = {self.epsilon}"


def cells(data: Sequence[str] | None = None) -> list[Cell]:
    """All cells; first one epsilon for every data set, then the next, so that a part of them is spread over all."""
    sets = list(names()) if data is None else [Path(one).stem for one in data]
    return [
        Cell(one, EPSILONS[(place + turn) % len(EPSILONS)])
        for turn in range(len(EPSILONS))
        for place, one in enumerate(sets)
    ]


def runs_for(keys: int, wanted: int, least: int, most: int) -> int:
    """An even number of runs in which so many keys are seen, within limits."""
    return 2 * math.ceil(min(max(wanted / keys, least), most) / 2)


def measured(
    cell: Cell, seed: int, people: int = PEOPLE, repeats: int | None = None, file: str | None = None
) -> dict[str, Any]:
    """What ``auto`` chose, and what everybody's errors are; a row for every goal and decoder.

    Squared errors with standard errors: ``auto`` over all runs; the ``best`` of all and the best ``published``, each
    found on one half of the runs and measured on the other. Who takes part in these runs was found in others before.
    ``file`` is where the people of a cell are that have no recipe.
    """
    data = _people(file or cell.data, people, seed)
    everybody = data.population.keyed(data.schema)
    epsilon, truth = Fraction(cell.epsilon), everybody.truth(data.schema)
    chosen, ours = _ours(data, epsilon)
    labels = worth_measuring(Setting(data.schema, everybody, truth, epsilon))
    known = contenders([*labels, *ours.values(), *_two_rounds(data, epsilon)])
    contest = Contest(data, epsilon, known, tuple(GOALS), seed)
    auto = {
        what: contest.same[next(label for label, one in known.items() if repr(one.made) == made)]
        for what, made in chosen.items()
    }
    keys = max(int(np.count_nonzero(truth.frequency > 0)), 1)
    first = range(runs_for(keys, FIRST_KEYS, FIRST_LEAST, FIRST_MOST))
    last = range(len(first), len(first) + (repeats or runs_for(keys, LAST_KEYS, LAST_LEAST, LAST_MOST)))
    _qualify(contest, auto, first, last)
    return {
        "data": cell.data,
        "epsilon": cell.epsilon,
        "seed": seed,
        "people": everybody.n,
        "keys": data.schema.d,
        "runs": [len(first), len(last)],
        "measured": len(contest.made),
        "blind": {one: float(f"{error:.5g}") for one, error in blind(truth).items()},
        "rows": _rows(contest, auto, last),
    }


def blind(truth: Truth) -> dict[str, float]:
    """Squared errors of the better of two guesses that hear nobody's report.

    Every frequency is 0, or the mean set size over the number of keys; every mean is 0, or the mean of all values.
    """
    held = truth.frequency > 0
    f, m = truth.frequency[held], truth.mean[held]
    top = np.argsort(-f, kind="stable")[:TOP]
    guesses = {"frequency": (f, float(truth.frequency.mean())), "mean": (m, float(f @ m / f.sum()))}
    guesses["mean_top"] = (m[top], guesses["mean"][1])
    return {
        quantity: min(float(np.mean((true - guess) ** 2)) for guess in (0.0, average))
        for quantity, (true, average) in guesses.items()
    }


def _qualify(contest: Contest, auto: Chosen, first: range, last: range) -> None:
    """Let everybody collect in the first runs, and those who come near in the last ones."""
    for label in contest.made:
        contest.run(label, first)
    hopeful = dict.fromkeys(
        label
        for quantity in GOALS
        for label in contest.near(RAW, quantity, contest.made, first, HOPELESS, len(contest.made))
    )
    for label in hopeful:
        contest.run(label, first[:FIRST_SHRUNK], DECODERS)
    for decoder in DECODERS:
        everybody = contest.labels(decoder)
        finalists = dict.fromkeys(label for (_, read), label in auto.items() if read == decoder)
        for quantity in GOALS:
            for some in (everybody, _published(everybody)):
                finalists |= dict.fromkeys(contest.near(decoder, quantity, some, first, HOPEFUL, FINALISTS))
        for label in finalists:
            contest.run(label.removesuffix(OWN), last, (decoder,))


def _rows(contest: Contest, auto: Chosen, last: range) -> list[dict[str, Any]]:
    rows = []
    for decoder in DECODERS:
        everybody = contest.labels(decoder)
        for quantity in GOALS:
            label = auto[quantity, decoder]
            own = contest.score(label, decoder, quantity, last)
            best = contest.best(everybody, decoder, quantity, last)
            other = contest.best(_published(everybody), decoder, quantity, last)
            if own and best and other:
                rows.append({"quantity": quantity, "decoder": decoder, **_row(own, best, other)})
    return rows


def _published(labels: Sequence[str]) -> list[str]:
    return [label for label in labels if not of_project(label.removesuffix(OWN))]


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
    """The people of a data set, without levels of values: some mechanisms would report these instead.

    Of a file as many as ``most`` are drawn.
    """
    if name in names():
        pairs = max(float(recipe(name).profile(seed)[0].sum()), 1.0)
        data = load(name, n=min(most, int(MOST_PAIRS / pairs)), seed=seed)
    else:
        data = named(name)
        data = replace(data, population=_some(data.population.keyed(data.schema), most, seed))
    schema = data.schema
    return replace(data, schema=Schema(keys=schema.names, low=schema.low, high=schema.high, map=schema.map))


def _some(people: Population, most: int, seed: int) -> Population:
    """At most so many of the people, drawn without repeats."""
    if people.n <= most:
        return people
    drawn = np.sort(np.fromiter(SeededCoins(seed).subset(most, people.n), dtype=np.int64))
    sizes = people.sizes[drawn]
    ends = np.cumsum(sizes)
    rows = np.repeat(people.offsets[:-1][drawn] - (ends - sizes), sizes) + np.arange(int(ends[-1]))
    return replace(people, offsets=np.concatenate(([0], ends)), keys=people.keys[rows], values=people.values[rows])


def _ours(data: Dataset, epsilon: Fraction) -> tuple[Chosen, dict[str, Made]]:
    """What ``auto`` chooses for every quantity and decoder, and it with all that are predicted to come near."""
    chosen: Chosen = {}
    near: dict[str, Made] = {}
    for (quantity, goal), decoder in product(GOALS.items(), DECODERS):
        read = decoder if decoder == BAYES else None
        found = plan(sample=data.population, schema=data.schema, epsilon=epsilon, goal=goal, postprocess=read)
        chosen[quantity, decoder] = repr(found.mechanism)
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
