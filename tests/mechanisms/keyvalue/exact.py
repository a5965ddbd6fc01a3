"""Exact expectations: what a mechanism's estimator gives on average, from the enumerated sampler, as fractions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from keyveil.core.epsilon import log_ceiling
from keyveil.core.schema import GRID, Schema
from keyveil.core.tally import Tally
from keyveil.mechanisms.base import Mechanism, Pairs
from keyveil.mechanisms.families.one_key import OneKey
from keyveil.mechanisms.registry import create
from keyveil.privacy.certify import enumerate_worst
from keyveil.privacy.enumerate import law

THIRD = Fraction(GRID // 3, GRID)
RECORDS: list[Pairs] = [
    [],
    *([(key, value)] for key in (0, 1) for value in (-GRID, GRID // 3, GRID)),
    [(0, GRID), (1, -GRID)],
    [(0, -GRID), (1, GRID // 3)],
    [(0, GRID), (1, GRID)],
]
"""Records over two keys; counts add up over people, so what holds for each of them holds for every mix."""


def two_keys(name: str, epsilon: str = "1", **options: Any) -> Any:
    return create(name, Schema(keys=2), epsilon, **options)


def truth(pairs: Pairs) -> list[tuple[Fraction, Fraction]]:
    """Frequency and f·m of each of two keys in the crowd of one person."""
    values = dict(pairs)
    return [(Fraction(key in values), Fraction(values.get(key, 0), GRID)) for key in (0, 1)]


def expected_counts(mechanism: Mechanism, pairs: Pairs) -> Any:
    """The average tally of one report, over all outcomes of the coins and all public words alike."""
    words = list(mechanism.every_word())
    counts = np.full(mechanism.tally_shape, Fraction(0), dtype=object)
    for word in words:
        for payload, share in law(partial(mechanism.respond, pairs, word)).items():
            folded = mechanism.fold(mechanism.codec.stack([payload]), np.array([word], dtype=np.uint64))
            counts += share / len(words) * folded.astype(object)
    return counts


def expected_estimates(mechanism: OneKey, pairs: Pairs) -> list[tuple[Fraction, Fraction]]:
    """The estimators of f and f·m in fractions, at expected counts: both are linear in them."""
    response, counts = mechanism.response, expected_counts(mechanism, pairs)
    assert mechanism.signs is not None
    estimates = []
    for column in counts.T:
        asked = sum(column)
        support = sum(map(Fraction.__mul__, column, map(Fraction, mechanism.supports))) / asked
        signed = sum(map(Fraction.__mul__, column, map(Fraction, mechanism.signs))) / asked
        frequency = (support - response.stranger.support) / (response.holder.support - response.stranger.support)
        estimates.append((frequency, (signed - (1 - frequency) * response.stranger.signed) / response.holder.signed))
    return estimates


def spent(mechanism: Mechanism) -> float:
    """The exact ε of the sampler."""
    return float(log_ceiling(enumerate_worst(mechanism).ratio))


def tally_of(mechanism: Mechanism, counts: Sequence[Any]) -> Tally:
    """A tally with these counts, about one key unless they say more."""
    table = np.array(counts, dtype=np.int64).reshape(mechanism.tally_shape)
    return Tally(mechanism.fingerprint, int(table.sum()), table)


def large_tally(mechanism: OneKey, frequency: float, mean: float, n: int = 10**12) -> Tally:
    """So many reports about the only key that their counts are what is expected."""
    shares = np.array([1 - frequency, frequency * (1 - mean) / 2, frequency * (1 + mean) / 2])
    return tally_of(mechanism, np.rint(n * (mechanism.channel.matrix() @ shares)).tolist())


def logistic(x: float) -> float:
    """The truth probability P(x) of binary randomised response."""
    return 1 / (1 + math.exp(-x))
