"""What the tests of the set responses share: making them, their variance for rare keys, and people of one set size."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from keyveil.core.records import Records
from keyveil.core.schema import GRID, Schema
from keyveil.lab.coins import SeededCoins
from keyveil.mechanisms.base import Mechanism, Pairs
from keyveil.mechanisms.registry import create
from keyveil.privacy.enumerate import law

# d, pairs, ε; n·Var of f and of f·m for SSR and its size; then wheel, and WSR (the planner's table)
PLANNER = [
    (20, 5, "1", 29.8, 31.0, 2, 45.8, 36.3),
    (100, 1, "1", 7.24, 7.31, 54, 7.37, 137),
    (100, 5, "1", 38.8, 39.2, 10, 45.8, 145),
    (1000, 5, "0.5", 186, 186, 146, 216, 9544),
    (1000, 5, "2", 7.51, 7.52, 46, 7.96, 99.8),
    (1000, 20, "1", 165, 165, 26, 189, 1392),
]


def make(name: str, d: int, epsilon: str = "1", **options: Any) -> Any:
    return create(name, Schema(keys=d), epsilon, **options)


def variances(mechanism: Any, frequency: float = 1e-9, mean: float = 0.0) -> tuple[float, float]:
    """n · Var of the estimates of f and f·m, people held fixed."""
    spread = mechanism.response.spread(np.array([frequency]), np.array([mean]), np.ones(1), 1.0)
    return float(spread.frequency[0]), float(spread.product[0])


def support_shares(mechanism: Mechanism, pairs: Pairs) -> Any:
    """The exact share of reports of such a person that support each symbol, [label, key], averaged over words."""
    words = list(mechanism.every_word())
    shares: Any = 0
    for word in words:
        for payload, share in law(partial(mechanism.respond, pairs, word)).items():
            counts = mechanism.fold(mechanism.codec.stack([payload]), np.array([word], dtype=np.uint64))
            shares = shares + counts.astype(object) * (share / len(words))
    return shares


def same_size(n: int, d: int, size: int, seed: int) -> Records:
    """People who all hold ``size`` of d keys, any set alike, with values ±1 of mean 0.5."""
    rng = np.random.default_rng(seed)
    keys = np.sort(np.argsort(rng.random((n, d)), axis=1)[:, :size], axis=1).astype(np.int32)
    values = np.where(rng.random(n * size) < 0.75, GRID, -GRID).astype(np.int32)
    return Records(np.arange(n + 1, dtype=np.int64) * size, keys.reshape(-1), values, d)


def scores(mechanism: Any, people: Records, repeats: int, seed: int) -> tuple[Any, Any]:
    """Standardised errors of f and f·m, [repeat, key], when the same people are asked again and again."""
    n = people.n
    frequency = np.bincount(people.keys, minlength=people.d) / n
    product = np.bincount(people.keys, weights=people.values / GRID, minlength=people.d) / n
    rows = []
    for repeat in range(repeats):
        estimates = mechanism.estimate(mechanism.tally(mechanism.perturb_many(people, SeededCoins(seed, repeat))))
        rows.append(
            (
                (estimates.frequency.values - frequency) / estimates.frequency.se,
                (estimates.product - product) / estimates.product_se,
            )
        )
    of_f, of_u = zip(*rows, strict=True)
    return np.array(of_f), np.array(of_u)
