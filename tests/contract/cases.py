"""The mechanisms under contract, at the sizes that each check needs, and people for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from keyveil.core.population import Population
from keyveil.core.records import Records
from keyveil.core.schema import Schema
from keyveil.lab import datasets
from keyveil.mechanisms.base import Mechanism, Pairs
from keyveil.mechanisms.categorical.base import Categorical
from keyveil.mechanisms.numeric.base import Numeric
from keyveil.mechanisms.registry import create, names

NAMES = names()
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in NAMES),
    ("hr", {"form": "bit"}),
    ("kvue", {"bins": 4}),
]
IDS = [name + "".join(f"-{value}" for value in options.values()) for name, options in VARIANTS]

KEYS = {"mean-est": 5}  # one report speaks about all keys, so there are few


def tiny(name: str, epsilon: str = "1", **options: Any) -> Mechanism:
    """A mechanism that can be enumerated."""
    return create(name, Schema(keys=KEYS.get(name, 8)), epsilon, **options).reduced()


def usual(name: str, epsilon: str = "1", **options: Any) -> Mechanism:
    """A mechanism of everyday size for statistics."""
    return create(name, Schema(keys=KEYS.get(name, 8)), epsilon, **options)


def people(mechanism: Mechanism, n: int, seed: int) -> Population:
    """A sample of n people that the mechanism can take."""
    d = mechanism.schema.d
    means = np.linspace(-0.6, 0.7, d)
    if isinstance(mechanism, Categorical):
        return datasets.one_key(n, np.linspace(1, 3, d), means, seed)
    if isinstance(mechanism, Numeric):
        return datasets.everyone(n, means, seed)
    return datasets.independent(n, np.linspace(0.15, 0.7, d), means, seed)


def population_truth(mechanism: Mechanism) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    """Frequencies and means of the population that ``people`` samples from."""
    d = mechanism.schema.d
    means = np.linspace(-0.6, 0.7, d)
    if isinstance(mechanism, Categorical):
        weights = np.linspace(1, 3, d)
        return weights / weights.sum(), means
    if isinstance(mechanism, Numeric):
        return np.ones(d), means
    return np.linspace(0.15, 0.7, d), means


def copies(pairs: Pairs, count: int, d: int) -> Records:
    """``count`` people who all hold the same record."""
    keys, values = _columns(pairs)
    offsets = np.arange(count + 1, dtype=np.int64) * len(keys)
    return Records(offsets, np.tile(keys, count), np.tile(values, count), d)


def _columns(pairs: Sequence[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    keys = np.array([key for key, _ in pairs], dtype=np.int32)
    return keys, np.array([value for _, value in pairs], dtype=np.int32)
