"""The populations of the papers, and those on which the set responses were measured (docs/theory.md, synthetic people).

Names that end in ``-beta`` are the variants with Beta values.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import NormalDist

import numpy as np

from keyveil.core.errors import PopulationError
from keyveil.core.schema import MOST_KEYS
from keyveil.lab.datasets.crowds import (
    Floats,
    beta_values,
    constant_values,
    fixed_size_sets,
    partner_values,
    single_keys,
)
from keyveil.lab.datasets.recipe import Recipe, bell, fitted, fixed, normal, normal_scores, ranks, shuffled, uniform

# -- recipes with options -------------------------------------------------------------------------------------------


def _grid(frequency: float = 0.2, mean: float = 0.0) -> Recipe:
    if not (0 <= frequency <= 1 and -1 <= mean <= 1):
        raise PopulationError("population/option", "A grid takes a frequency in [0, 1] and a mean in [-1, 1].")
    level = f"100 keys, all of frequency {frequency:g} and mean {mean:g}"
    return Recipe(10**5, level, fixed(np.full(100, frequency)), fixed(np.full(100, mean)))


def _linear(slope: float = 1.0, size: float = 5, keys: float = 20) -> Recipe:
    if not (slope >= 0 and 1 <= size <= keys <= MOST_KEYS and keys == int(keys) and size == int(size)):
        raise PopulationError(
            "population/option", "linear-s takes a slope of at least 0, and whole numbers size ≤ keys."
        )
    weights = 1 + slope * (ranks(int(keys)) - 1)
    frequencies = int(size) * weights / weights.sum()
    if frequencies.max() > 1:
        raise PopulationError("population/option", "Sets of this size cannot have these frequencies: one exceeds 1.")
    about = f"exactly {int(size)} of {int(keys)} keys each, frequencies linear in rank (slope {slope:g})"
    return Recipe(20_000, about, fixed(frequencies), uniform(-0.8, 0.8, int(keys)), fixed_size_sets)


def _zipf(exponent: float = 1.5, keys: float = 1024) -> Recipe:
    if not (exponent >= 0 and 1 <= keys <= MOST_KEYS and keys == int(keys)):
        raise PopulationError("population/option", "zipf takes an exponent of at least 0 and a whole number of keys.")
    weights, d = ranks(int(keys)) ** -exponent, int(keys)
    about = f"one of {d} keys each, by Zipf's law with exponent {exponent:g}"
    return Recipe(10**6, about, fixed(weights / weights.sum()), uniform(-0.9, 0.9, d), single_keys)


def _sparse(keys: float = 20_000, pairs: float = 5) -> Recipe:
    if not (1 <= keys <= MOST_KEYS and keys == int(keys) and 0 < pairs <= keys):
        raise PopulationError("population/option", "sparse takes a whole number of keys, and fewer pairs than keys.")
    tail, d = (ranks(int(keys)) + 9) ** -1.1, int(keys)
    frequencies = pairs * tail / tail.sum()
    if frequencies.max() > 1:
        raise PopulationError("population/option", "Sets of this size cannot have these frequencies: one exceeds 1.")
    about = f"{d} keys with a long tail, {'five' if pairs == 5 else f'{pairs:g}'} a person on average"
    return Recipe(10**6, about, fixed(frequencies), normal(0, 0.35, -0.98, 0.98, d), values=beta_values)


def _half_normal() -> Floats:
    """The law of ⌈|N(0, 50²)|⌉ given that it is at most 100."""
    law = NormalDist(0, 50)
    return np.diff([law.cdf(edge) for edge in range(101)])


def _truncated_normal(rng: np.random.Generator) -> Floats:
    drawn = rng.normal(size=1000)
    return drawn[np.abs(drawn) <= 1][:100]


# -- the table ------------------------------------------------------------------------------------------------------

_RISING = 5 * ranks(20) / ranks(20).sum()

PUBLISHED: dict[str, Callable[..., Recipe]] = {
    "gauss": lambda: Recipe(
        10**6,
        "100 keys, frequencies and means as bells over the keys",
        fixed(bell(0.6059, 20)),
        fixed(bell(1.8172, 23.11, -1)),
    ),
    "plaw": lambda: Recipe(
        10**6,
        "100 keys, frequencies and means as power laws of the rank",
        fixed(ranks(100) ** -0.6),
        fixed(np.clip(2.2905 * ranks(100) ** -0.2563 - 1, -1, 1)),
    ),
    "lnr": lambda: Recipe(
        10**5,  # the papers ask a million, who would hold 4·10⁸ pairs
        "1000 keys, frequencies and means linear over the keys",
        fixed(np.linspace(0.3616, 0.4390, 1000)),
        fixed(np.linspace(-1, 1, 1000)),
    ),
    "uniform": lambda: Recipe(
        10**5,
        "100 keys, frequencies and means uniform at random",
        uniform(0.05, 0.95, 100),
        uniform(-0.9, 0.9, 100),
    ),
    "gaussian": lambda: Recipe(
        10**5,
        "100 keys, frequencies and means normal at random",
        normal(0.5, 0.15, 0.05, 0.95, 100),
        normal(0, 0.4, -0.95, 0.95, 100),
    ),
    "grid": _grid,
    "linear-s": _linear,
    "pckv-uu": lambda: Recipe(
        10**6,
        "one of 100 keys each, uniform; everybody has the mean of the key",
        fixed(np.full(100, 0.01)),
        uniform(-1, 1, 100),
        single_keys,
        constant_values,
    ),
    "pckv-gg": lambda: Recipe(
        10**6,
        "one of 100 keys each, half-normal; everybody has the mean of the key",
        fixed(_half_normal() / _half_normal().sum()),
        _truncated_normal,
        single_keys,
        constant_values,
    ),
    "zipf": _zipf,
    "dependent": lambda: Recipe(
        10**5,
        "exactly 5 of 20 keys each; a value depends on whether the partner key is held",
        fixed(_RISING),
        uniform(-0.8, 0.8, 20),
        fixed_size_sets,
        partner_values,
    ),
    "gauss-beta": lambda: Recipe(
        10**6,
        "100 keys, frequencies as normal scores, means as shuffled ones",
        fixed(fitted(normal_scores(100), 0.3000, 0.0401, 0.005, 0.99)),
        shuffled(fitted(normal_scores(100), 0.0207, 0.3080, -0.98, 0.98)),
        values=beta_values,
    ),
    "plaw-beta": lambda: Recipe(
        10**6,
        "100 keys, frequencies as a power law, means as a shuffled one",
        fixed(fitted(ranks(100) ** -0.6, 0.1384, 0.0167, 0.0, 0.99)),
        shuffled(fitted(ranks(100) ** -0.6, -0.0723, 0.0656, -0.98, 0.98)),
        values=beta_values,
    ),
    "lnr-beta": lambda: Recipe(
        10**5,
        "1000 keys, frequencies linear, means linear and shuffled",
        fixed(fitted(ranks(1000), 0.4003, 0.0005, 0, 1)),
        shuffled(fitted(ranks(1000), 0.0010, 0.3330, -0.98, 0.98)),
        values=beta_values,
    ),
    "uniform-beta": lambda: Recipe(
        10**5,
        "100 keys, frequencies and means uniform at random",
        uniform(0.01, 0.99, 100),
        uniform(-0.95, 0.95, 100),
        values=beta_values,
    ),
    "normal-beta": lambda: Recipe(
        10**5,
        "100 keys, frequencies and means normal at random",
        normal(0.5, 0.15, 0.02, 0.98, 100),
        normal(0, 0.3, -0.98, 0.98, 100),
        values=beta_values,
    ),
    "linear-beta": lambda: Recipe(
        20_000,
        "exactly 5 of 20 keys each, frequencies proportional to rank",
        fixed(_RISING),
        uniform(-0.9, 0.9, 20),
        fixed_size_sets,
        beta_values,
    ),
    "zipf-beta": lambda: Recipe(
        10**6,
        "one of 1024 keys each, by Zipf's law with exponent 1.5",
        fixed(ranks(1024) ** -1.5 / (ranks(1024) ** -1.5).sum()),
        normal(0, 0.35, -0.98, 0.98, 1024),
        single_keys,
        beta_values,
    ),
    "sparse": _sparse,
}
