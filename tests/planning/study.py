"""Random collections of which errors are predicted and simulated: what the studies of predictions are made of."""

from __future__ import annotations

import random
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
from keyveil.planning.candidates import considered, forms
from keyveil.planning.goals import goals
from keyveil.planning.people import sampled
from keyveil.planning.predict import predict

POPULATIONS = ("activity", "survey", "baskets", "ratings", "heavy", "tail", "skewed", "peaks", "constant", "lone")
PEOPLE, EPSILONS = (3_000, 10_000, 30_000), ("0.5", "1", "2", "4")
HELD = 200  # people who must hold a key whose errors are looked at
CLEAR = 0.15  # standard error of a mean up to which one can speak of its error


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
    """A random mechanism for random people; nothing where these cannot be combined."""
    draw = random.Random(seed)
    name = draw.choice(considered(goals("both")[0]))
    population, n, epsilon = draw.choice(POPULATIONS), draw.choice(PEOPLE), draw.choice(EPSILONS)
    data = load(population, n=n, seed=seed)
    people = sampled(data.population, data.schema)
    try:
        made = draw.choice(list(forms(name, data.schema, parse_epsilon(epsilon), people, goals("both")[0])))
    except KeyveilError:
        return None
    prediction = predict(made, people)
    frequency, mean = simulated(made, data.population, data.schema, repeats)
    held = people.frequency * n >= HELD
    told, seen = prediction.frequency_error[held] ** 2, frequency[:, held] ** 2
    clear = held & (prediction.mean_se < CLEAR) & np.isfinite(prediction.mean_se)
    of_means = _ratio(prediction.mean_error[clear] ** 2, mean[:, clear] ** 2) if clear.any() else (None, None)
    return Compared(name, population, n, epsilon, *_ratio(told, seen), *of_means)


def simulated(
    mechanism: Mechanism, population: Population, schema: Schema, repeats: int
) -> tuple[np.ndarray, np.ndarray]:
    """Errors of frequencies and means [repeat, key]; a mean is the product over the frequency, as estimated."""
    records, truth = population.records(schema), population.truth(schema)
    found = [mechanism.estimate(aggregate(mechanism, records, SeededCoins(31, run))) for run in range(repeats)]
    frequency = np.array([one.frequency.values for one in found])
    product = np.array([np.full(schema.d, np.nan) if one.product is None else one.product for one in found])
    with np.errstate(divide="ignore", invalid="ignore"):
        return frequency - truth.frequency, product / frequency - truth.mean


def _ratio(told: np.ndarray, seen: np.ndarray) -> tuple[float, float]:
    """Predicted over simulated error, and the relative standard error of the simulated one over its repeats."""
    runs = seen.mean(axis=1)
    ratio = float(np.sqrt(told.mean() / runs.mean()))
    return ratio, float(runs.std(ddof=1) / np.sqrt(len(runs)) / runs.mean() / 2)
