"""Synthetic populations, deterministic from a seed; recipes of mechanisms.md part 8."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from keyveil.core.population import Population

_BLOCK = 1 << 16


def independent(
    n: int, frequencies: ArrayLike, means: ArrayLike, seed: int, names: Sequence[str] | None = None
) -> Population:
    """Everybody holds each key on their own, with its frequency; values on [-1, 1] have exactly its mean."""
    rng = np.random.default_rng(seed)
    shares = np.asarray(frequencies, dtype=np.float64)
    users, keys = [], []
    for start in range(0, n, _BLOCK):
        people, held = np.nonzero(rng.random((min(_BLOCK, n - start), len(shares))) < shares)
        users.append(people + start)
        keys.append(held)
    columns = np.concatenate(users), np.concatenate(keys)
    return _population(n, *columns, around(means, columns[1], rng), names)


def one_key(n: int, weights: ArrayLike, means: ArrayLike, seed: int, names: Sequence[str] | None = None) -> Population:
    """Everybody holds exactly one key, drawn by weight."""
    rng = np.random.default_rng(seed)
    shares = np.asarray(weights, dtype=np.float64)
    keys = rng.choice(len(shares), size=n, p=shares / shares.sum())
    return _population(n, np.arange(n), keys, around(means, keys, rng), names)


def everyone(n: int, means: ArrayLike, seed: int, names: Sequence[str] | None = None) -> Population:
    """Everybody holds every key."""
    d = len(np.asarray(means))
    rng = np.random.default_rng(seed)
    keys = np.tile(np.arange(d), n)
    return _population(n, np.repeat(np.arange(n), d), keys, around(means, keys, rng), names)


def around(means: ArrayLike, keys: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Values m + U(-w, w) with w = min(0.3, 1 - |m|), which keeps the mean of a key exactly m."""
    centres = np.asarray(means, dtype=np.float64)
    widths = np.minimum(0.3, 1 - np.abs(centres))
    values: NDArray[np.float64] = centres[keys] + widths[keys] * rng.uniform(-1, 1, len(keys))
    return values


def _population(
    n: int, users: NDArray[np.int64], keys: NDArray[np.int64], values: NDArray[np.float64], names: Sequence[str] | None
) -> Population:
    named = keys if names is None else np.asarray(names)[keys]
    return Population.from_columns(users, named, values, people=n)
