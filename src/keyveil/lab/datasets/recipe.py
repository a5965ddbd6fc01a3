"""A recipe: a law of populations, and the profiles of frequencies and means that recipes are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.frames.population import Population
from keyveil.lab.datasets.crowds import Crowd, Floats, Values, around_means, populate, product_sets

Profile = Callable[[np.random.Generator], Floats]


@dataclass(frozen=True)
class Recipe:
    """A law of populations."""

    people: int
    about: str
    frequencies: Profile
    means: Profile
    sets: Crowd = product_sets
    values: Values = around_means
    levels: tuple[float, ...] | None = None
    """The only values that there are, where values are answers of a few levels."""

    def draw(self, n: int, seed: int) -> Population:
        """n people that follow the law."""
        rng = np.random.default_rng(seed)
        frequencies, means = self.frequencies(rng), self.means(rng)
        users, keys = self.sets(n, frequencies, rng)
        return populate(n, users, keys, self.values(means, users, keys, rng), len(frequencies))

    def draw_block(self, n: int, seed: int, place: int) -> Population:
        """n people that follow the law whose profile belongs to the seed: another n for every place."""
        frequencies, means = self.profile(seed)
        rng = np.random.default_rng([seed, place])
        users, keys = self.sets(n, frequencies, rng)
        return populate(n, users, keys, self.values(means, users, keys, rng), len(frequencies))

    def profile(self, seed: int = 0) -> tuple[Floats, Floats]:
        """Frequencies and means of the law alone."""
        rng = np.random.default_rng(seed)
        return self.frequencies(rng), self.means(rng)


# -- frequencies and means ------------------------------------------------------------------------------------------


def fixed(numbers: NDArray[Any]) -> Profile:
    """The same for every seed."""
    return lambda rng: np.asarray(numbers, dtype=np.float64)


def uniform(low: float, high: float, d: int) -> Profile:
    return lambda rng: rng.uniform(low, high, d)


def normal(mean: float, sd: float, low: float, high: float, d: int) -> Profile:
    return lambda rng: np.clip(rng.normal(mean, sd, d), low, high)


def shuffled(numbers: Floats) -> Profile:
    return lambda rng: rng.permutation(numbers)


def fitted(shape: Floats, mean: float, variance: float, low: float, high: float) -> Floats:
    """An affine image of a shape, cut to a range, that has the given mean and variance after the cut."""
    shift, scale, numbers = mean, float(np.sqrt(variance) / shape.std()), shape
    for _ in range(1000):
        numbers = np.clip(shift + scale * (shape - shape.mean()), low, high)
        shift += mean - float(numbers.mean())
        scale *= float(np.sqrt(variance / numbers.var()))
    return numbers


def ranks(d: int) -> Floats:
    return np.arange(1, d + 1, dtype=np.float64)


def bell(height: float, width: float, floor: float = 0.0) -> Floats:
    return height * np.exp(-((ranks(100) - 50.5) ** 2) / (2 * width**2)) + floor


def normal_scores(d: int) -> Floats:
    return np.array([NormalDist().inv_cdf((rank - 0.5) / d) for rank in ranks(d)])
