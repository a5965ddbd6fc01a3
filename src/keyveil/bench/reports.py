"""Reports of SSR that are counted: d = 1000 keys, five pairs a person, epsilon 1, and d = 100."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.bench.rows import Race, benchmark
from keyveil.core.coins import Coins
from keyveil.core.schema import Schema
from keyveil.lab.datasets import independent
from keyveil.mechanisms.registry import create

EPSILON, PAIRS = 1, 5


def _reports(keys: int, n: int) -> tuple[Any, NDArray[Any]]:
    mechanism: Any = create("ssr", Schema(keys=keys), EPSILON, max_pairs=PAIRS)
    people = independent(n, np.full(keys, PAIRS / keys), np.zeros(keys), seed=1)
    return mechanism, mechanism.perturb_many(people.records(mechanism.schema), Coins()).payloads


def _folding(keys: int, quick: bool) -> Race:
    n = 20_000 if quick else 100_000
    mechanism, rows = _reports(keys, n)
    words, symbols = np.zeros(n, dtype=np.uint64), mechanism.channel.symbols
    return Race(lambda: mechanism.fold(rows, words), lambda: np.bincount(rows.reshape(-1), minlength=symbols), n)


@benchmark("ssr-folding-100", against="np.bincount of the same rows")
def folding_100(quick: bool) -> Race:
    return _folding(100, quick)


@benchmark("ssr-folding-1000", against="np.bincount of the same rows")
def folding_1000(quick: bool) -> Race:
    return _folding(1000, quick)
