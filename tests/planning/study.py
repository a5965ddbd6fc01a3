"""Random collections of which errors are predicted and simulated: what the studies of predictions are made of."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from keyveil.core.epsilon import parse_epsilon
from keyveil.core.errors import KeyveilError
from keyveil.core.schema import Schema
from keyveil.frames.population import Population
from keyveil.lab.aggregate import aggregate
from keyveil.lab.coins import SeededCoins
from keyveil.lab.datasets import load
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import PredictedVariance, can
from keyveil.planning.candidates import considered, forms
from keyveil.planning.goals import goals
from keyveil.planning.people import sampled
from keyveil.planning.predict import predict

POPULATIONS = ("activity", "survey", "baskets", "ratings", "heavy", "tail", "skewed", "peaks", "constant", "lone")
PEOPLE, EPSILONS = (3_000, 10_000, 30_000), ("0.5", "1", "2", "4")
HELD = 200  # people who must hold a key whose errors are looked at
CLEAR = 0.15  # standard error of a mean up to which one can speak of its error
TOLD = 5  # standard errors that a frequency must have, so that what is divided by it has a variance
KNOWN = 0.025  # relative standard error of a simulated error from which on it is known well enough
ROUND = 16  # repeats after which it is looked at again


@dataclass(frozen=True)
class Compared:
    """Predicted over simulated root mean squared errors of one scenario, and how well the simulated one is known."""

    mechanism: str
    population: str
    n: int
    epsilon: str
    frequency: float
    frequency_se: float
    mean: float | None
    mean_se: float | None


def scenario(seed: int, repeats: int = 60) -> Compared | None:
    """A random mechanism for random people, repeated until its errors are known, at most so often.

    Nothing where mechanism and people cannot be combined, or where no key is held by enough people.
    """
    draw = random.Random(seed)
    name = draw.choice(considered(goals("both")[0]))
    population, n, epsilon = draw.choice(POPULATIONS), draw.choice(PEOPLE), draw.choice(EPSILONS)
    data = load(population, n=n, seed=seed)
    people = sampled(data.population, data.schema)
    try:
        made = draw.choice(list(forms(name, data.schema, parse_epsilon(epsilon), people, goals("both")[0])))
    except KeyveilError:
        return None
    if can(made, PredictedVariance) is None:
        return None
    prediction = predict(made, people)
    held = people.frequency * n >= HELD
    if not held.any():
        return None
    clear = held & (prediction.mean_se < CLEAR) & np.isfinite(prediction.mean_se)
    clear &= people.frequency > TOLD * prediction.frequency_se
    squares: list[tuple[float, float]] = []
    for frequency, mean in simulated(made, data.population, data.schema, repeats):
        squares.append((np.mean(frequency[held] ** 2), np.mean(mean[clear] ** 2) if clear.any() else np.nan))
        if len(squares) % ROUND == 0 and max(_error(np.array(squares)).tolist()) <= KNOWN:
            break
    seen = np.array(squares)
    errors_of_means = prediction.mean_error[clear] if clear.any() else np.full(1, np.nan)
    told = np.mean(prediction.frequency_error[held] ** 2), np.mean(errors_of_means**2)
    ratios, errors = np.sqrt(np.array(told) / seen.mean(axis=0)), _error(seen)
    means = (float(ratios[1]), float(errors[1])) if clear.any() else (None, None)
    return Compared(name, population, n, epsilon, float(ratios[0]), float(errors[0]), *means)


def simulated(
    mechanism: Mechanism, population: Population, schema: Schema, repeats: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Errors of frequencies and means by key, run by run; a mean is the product over the frequency, as estimated."""
    records, truth = population.records(schema), population.truth(schema)
    for run in range(repeats):
        found = mechanism.estimate(aggregate(mechanism, records, SeededCoins(31, run)))
        product = np.full(schema.d, np.nan) if found.product is None else found.product
        with np.errstate(divide="ignore", invalid="ignore"):
            yield found.frequency.values - truth.frequency, product / found.frequency.values - truth.mean


def _error(squares: np.ndarray) -> np.ndarray:
    """Relative standard errors of simulated root mean squared errors, from squares [run, what]; 0 where none are."""
    mean, spread = squares.mean(axis=0), squares.std(axis=0, ddof=1)
    return np.nan_to_num(spread / np.sqrt(len(squares)) / mean / 2)
