"""People that a mechanism can take, with the truth about them.

Its ``takes`` and its cap decide who they are: people with sets of pairs of any size up to the cap, with exactly one
key, or with a value for every key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.core.records import Records
from keyveil.core.schema import GRID
from keyveil.frames.population import Population
from keyveil.lab import datasets
from keyveil.mechanisms.base import Mechanism, Pairs
from keyveil.mechanisms.capabilities import Capped, can

Floats = NDArray[np.float64]

EXTREME = np.array([0.45, 0.6, 0.5]), np.array([0.9, -0.9, 0.9])
"""Frequencies and means of three keys for which the errors of f and f·m are correlated most; at most two are held."""


def cap(mechanism: Mechanism) -> int:
    """How many pairs of a person count."""
    capped = can(mechanism, Capped)
    return mechanism.schema.d if capped is None else capped.cap()


def population_truth(mechanism: Mechanism) -> tuple[Floats, Floats]:
    """Frequencies and means of the population that ``people`` samples from, per key."""
    d = mechanism.schema.d
    means = np.linspace(-0.6, 0.7, d)
    if mechanism.takes == "one key":
        weights = np.linspace(1, 3, d)
        return weights / weights.sum(), means
    if mechanism.takes == "every key":
        return np.ones(d), means
    if cap(mechanism) < d:
        shares = np.linspace(0.3, 0.6, d)
        return shares / max(1.0, *(shares[group].sum() for group in datasets.groups(d, cap(mechanism)))), means
    return np.linspace(0.15, 0.7, d), means


def people(mechanism: Mechanism, n: int, seed: int) -> Population:
    """A sample of n people that the mechanism can take."""
    frequencies, means = population_truth(mechanism)
    if mechanism.takes == "one key":
        return datasets.one_key(n, frequencies, means, seed)
    if mechanism.takes == "every key":
        return datasets.everyone(n, means, seed)
    if cap(mechanism) < mechanism.schema.d:
        return datasets.one_of_each_group(n, frequencies, means, cap(mechanism), seed)
    return datasets.independent(n, frequencies, means, seed)


def extreme_people(mechanism: Mechanism, n: int, seed: int) -> Population:
    """A sample of n people who hold the keys of ``EXTREME``, at most two of them where the mechanism has a cap."""
    if cap(mechanism) < mechanism.schema.d:
        return datasets.one_of_each_group(n, *EXTREME, 2, seed)
    return datasets.independent(n, *EXTREME, seed)


def full_record(mechanism: Mechanism) -> Pairs:
    """A record as large as the mechanism is meant for: one key, all keys, or six spread over the domain."""
    d = mechanism.schema.d
    if mechanism.takes == "one key":
        return [(2 * d // 3, 0)]
    keys = range(d) if mechanism.takes == "every key" else sorted({key * (d - 1) // 5 for key in range(6)})
    return [(key, GRID * (key % 5 - 2) // 3) for key in keys]


def raw_record(mechanism: Mechanism, pairs: Pairs) -> dict[str, float]:
    """A cleaned record as a person would write it: names of keys, and values in the units of the schema."""
    schema, keys = mechanism.schema, mechanism.schema.keys
    held, values = (np.array(column, dtype=np.int64) for column in ([key for key, _ in pairs], [z for _, z in pairs]))
    units = schema.from_unit(values / GRID, held)
    return {keys[key]: float(unit) for (key, _), unit in zip(pairs, units, strict=True)} if len(pairs) else {}


def copies(pairs: Pairs, count: int, d: int) -> Records:
    """``count`` people who all hold the same record."""
    keys, values = _columns(pairs)
    offsets = np.arange(count + 1, dtype=np.int64) * len(keys)
    return Records(offsets, np.tile(keys, count), np.tile(values, count), d)


def _columns(pairs: Sequence[tuple[int, int]]) -> tuple[NDArray[Any], NDArray[Any]]:
    keys = np.array([key for key, _ in pairs], dtype=np.int32)
    return keys, np.array([value for _, value in pairs], dtype=np.int32)
