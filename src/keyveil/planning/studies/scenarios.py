"""Random collections of which errors are predicted, and then simulated until they are known.

A scenario is a mechanism in a form that a plan considers, a population of *Honest numbers*, a number of people, a
number of keys and an epsilon, all drawn by its number.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from keyveil.core.coins import Coins
from keyveil.core.epsilon import decimal_text, parse_epsilon
from keyveil.core.errors import KeyveilError
from keyveil.core.schema import Schema
from keyveil.frames.population import Population
from keyveil.lab.aggregate import aggregate
from keyveil.lab.coins import SeededCoins
from keyveil.lab.datasets import load
from keyveil.lab.datasets.lifelike import LIFELIKE
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import PredictedVariance, can
from keyveil.planning.candidates import considered, forms
from keyveil.planning.goals import goals
from keyveil.planning.people import People, sampled
from keyveil.planning.predict import predict

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
One = TypeVar("One")

PEOPLE, EPSILONS = (3_000, 10_000, 30_000, 100_000), ("0.5", "1", "2", "4")
KEYS = (1, 2, 4)  # one of so many keys of a population is kept
FEWEST_KEYS = 4
GOALS = ("frequency", "mean", "both")
HELD = 200  # people who must hold a key whose errors are looked at
CLEAR = 0.15  # predicted standard error of a mean up to which one can speak of its error
TOLD = 5  # standard errors that a frequency must have: what is divided by it has no variance otherwise
KNOWN = 0.025  # relative standard error of a simulated error from which on it is known well enough
FIRST, MOST = 32, 480  # repeats after which it is looked at first, and of all
MEDIAN_ERROR = 0.93  # √(π/2) over the distance of the quartiles of a normal law, 1.349
QUANTITIES = ("error of frequencies", "error of means", "half-width of frequencies", "half-width of means")
"""Root mean squares over keys; of half-widths of means the median."""


class Scenario(NamedTuple):
    """What is collected from whom."""

    mechanism: Mechanism
    population: str
    people: People
    crowd: Population
    schema: Schema


def drawn(number: int) -> Scenario | str:
    """The scenario of a number; or why the mechanism and the people that were drawn do not go together."""
    coins = SeededCoins(number)
    goal = goals(_one_of(coins, GOALS))[0]
    name, population = _one_of(coins, considered(goal)), _one_of(coins, tuple(LIFELIKE))
    n, epsilon, part = _one_of(coins, PEOPLE), _one_of(coins, EPSILONS), _one_of(coins, KEYS)
    data = load(population, n=n, seed=number)
    schema, crowd = data.schema, data.population
    if schema.d // part >= FEWEST_KEYS and part > 1:
        kept = sorted(coins.subset(schema.d // part, schema.d))
        schema = Schema(keys=[str(schema.keys[key]) for key in kept], levels=schema.levels)
        crowd = crowd.keyed(schema)
    people = sampled(crowd, schema)
    try:
        made = _one_of(coins, list(forms(name, schema, parse_epsilon(epsilon), people, goal)))
    except KeyveilError as refused:
        return refused.sentence
    if can(made, PredictedVariance) is None:
        return f"{name} predicts no errors in this form."
    if not (people.frequency * n >= HELD).any():
        return f"No key is held by {HELD} people."
    return Scenario(made, population, people, crowd, schema)


def _one_of(coins: Coins, among: Sequence[One]) -> One:
    return among[coins.below(len(among))]


def predicted(number: int) -> dict[str, Any]:
    """What a scenario is, and its predicted numbers in the order of ``QUANTITIES``; or why there is none."""
    found = drawn(number)
    return {"refused": found} if isinstance(found, str) else _told(found)[0]


def measured(number: int, most: int = MOST) -> dict[str, Any]:
    """The same with the simulated numbers, and the relative standard errors of simulated errors.

    Frequencies count for keys that ``HELD`` people hold; means for those of them that are ``CLEAR`` and ``TOLD``, if
    there are any. Collections are repeated until both errors are ``KNOWN``, or cannot be within ``most`` repeats.
    """
    found = drawn(number)
    if isinstance(found, str):
        return {"refused": found}
    line, held, clear = _told(found)
    runs: list[tuple[float, ...]] = []
    for one in _collections(found, held, clear):
        runs.append(one)
        if len(runs) >= most or (len(runs) % FIRST == 0 and _settled(np.array(runs), most)):
            break
    seen, looked_at = np.array(runs), (True, bool(line["means"])) * 2
    simulated = [*np.sqrt(seen[:, :2].mean(axis=0)).tolist(), *np.median(seen[:, 2:], axis=0).tolist()]
    return {
        **line,
        "repeats": len(runs),
        "simulated": _known([one if there else None for one, there in zip(simulated, looked_at, strict=True)]),
        "se": _known([one if there else None for one, there in zip(_errors(seen), looked_at, strict=True)]),
    }


def _told(found: Scenario) -> tuple[dict[str, Any], Mask, Mask]:
    """What a scenario is, with predicted numbers; the keys that are looked at, and those whose means are."""
    made, people = found.mechanism, found.people
    one = predict(made, people)
    held = people.frequency * people.n >= HELD
    with np.errstate(invalid="ignore"):
        clear = held & (one.mean_se < CLEAR) & (people.frequency > TOLD * one.frequency_se)
    means = clear.any()
    frequency_width, mean_width = one.half_widths
    numbers = [
        _root(one.frequency_error[held] ** 2),
        _root(one.mean_error[clear] ** 2) if means else None,
        _root(frequency_width[held] ** 2),
        float(np.median(mean_width[clear])) if means else None,
    ]
    line = {
        "mechanism": made.name,
        "options": {name: value for name, value in made.options.items() if value is not None},
        "population": found.population,
        "n": people.n,
        "d": people.d,
        "epsilon": decimal_text(made.epsilon),
        "keys": int(held.sum()),
        "means": int(clear.sum()),
        "predicted": _known(numbers),
    }
    return line, held, clear


def _collections(scenario: Scenario, held: Mask, clear: Mask) -> Iterator[tuple[float, ...]]:
    """Of run after run: mean squared errors of frequencies and means, the half-width of frequencies as a root mean
    square over keys, and the median half-width of means.

    A mean is the product over the frequency, as estimated.
    """
    made, schema = scenario.mechanism, scenario.schema
    records, truth = scenario.crowd.records(schema), scenario.crowd.truth(schema)
    for run in count():
        found = made.estimate(aggregate(made, records, SeededCoins(31, run)))
        frequency, mean = found.frequency, found.mean
        off, half = (frequency.values - truth.frequency)[held], (frequency.high - frequency.low)[held] / 2
        if not clear.any() or found.product is None:
            yield float(np.mean(off**2)), 0.0, _root(half**2), 0.0
            continue
        with np.errstate(divide="ignore", invalid="ignore"):
            wrong = (found.product / frequency.values - truth.mean)[clear]
        yield (
            float(np.mean(off**2)),
            float(np.mean(wrong**2)),
            _root(half**2),
            float(np.median((mean.high - mean.low)[clear] / 2)),
        )


def _settled(runs: Floats, most: int) -> bool:
    """Whether each error is known, or would not be after ``most`` runs."""
    return all(one <= KNOWN or one * math.sqrt(len(runs) / most) > KNOWN for one in _errors(runs))


def _errors(runs: Floats) -> list[float]:
    """Relative standard errors of two root mean squares and two medians, from [run, what]; 0 where there are none.

    That of a median is 0.93 times the distance of the quartiles, over the root of the number of runs (normal law).
    """
    squares, widths = runs[:, :2], runs[:, 2:]
    low, middle, high = np.quantile(widths, (0.25, 0.5, 0.75), axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        errors = np.concatenate(
            (squares.std(axis=0, ddof=1) / squares.mean(axis=0) / 2, MEDIAN_ERROR * (high - low) / middle)
        )
        relative: list[float] = np.nan_to_num(errors / np.sqrt(len(runs))).tolist()
    return relative


def _root(squares: Floats) -> float:
    return math.sqrt(float(np.mean(squares)))


def _known(numbers: list[float | None]) -> list[float | None]:
    return [None if one is None or not math.isfinite(one) else float(f"{one:.5g}") for one in numbers]
