"""What Keyveil takes for the work of the peers: d = 1024 values, epsilon 1, one core, cryptographic randomness."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from keyveil.bench.rows import REGISTRY, Benchmark, Race
from keyveil.core.coins import Coins
from keyveil.core.schema import Schema
from keyveil.lab.datasets import one_key
from keyveil.mechanisms.registry import create

D = 1024
PEOPLE = {"olh": 100_000, "oue": 50_000, "grr": 1_000_000, "hr": 400_000, "ss": 50_000}
GOALS: dict[str, float] = {
    "olh-tally": 2000,
    "oue-perturbation": 100,
    "grr-perturbation": 25,
    "grr-tally": 35,
    "hr-perturbation": 50,
    "hr-tally": 50,
    "ss-perturbation": 20,
    "ss-tally": 20,
    "oue-single": 1,
    "ss-single": 1 / 3,
}
LIMITS = {"grr-single": 10e-6, "olh-single": 10e-6, "hr-single": 10e-6}  # seconds for one report of one device


def register(times: Mapping[str, Mapping[str, float]]) -> None:
    """A race for everything that peers can do, against the faster one, and for one report at a time."""
    for operation, peers in sorted(times.items()):
        fastest = min(peers, key=lambda peer: peers[peer])
        name, verb = operation.rsplit("-", 1)
        prepare = partial(_bulk, name, verb, peers[fastest])
        REGISTRY.append(Benchmark(f"peers-{operation}", fastest, GOALS.get(operation), prepare))
        if verb == "perturbation" and f"{name}-single" not in LIMITS:
            single = partial(_single, name, peers[fastest])
            told = f"{fastest}, one report at a time"
            REGISTRY.append(Benchmark(f"peers-{name}-single", told, GOALS.get(f"{name}-single"), single))
    for operation, limit in LIMITS.items():
        single = partial(_single, operation.rsplit("-", 1)[0], limit)
        REGISTRY.append(Benchmark(f"peers-{operation}", f"{limit * 1e6:g} µs", 1, single))


def _bulk(name: str, verb: str, rival: float, quick: bool) -> Race:
    """Many people at once through ``perturb_many`` or ``tally``."""
    n = PEOPLE[name] // (5 if quick else 1)
    mechanism: Any = create(name, Schema(keys=D), 1)
    records = one_key(n, np.ones(D), np.zeros(D), seed=1).records(mechanism.schema)
    coins = Coins()
    if verb == "perturbation":
        return Race(lambda: mechanism.perturb_many(records, coins), rival * n, n)
    reports = mechanism.perturb_many(records, coins)
    return Race(lambda: mechanism.tally(reports), rival * n, n)


def _single(name: str, rival: float, quick: bool) -> Race:
    """One report at a time, as a device makes it."""
    n = 100 if quick else 1000
    mechanism: Any = create(name, Schema(keys=D), 1)
    coins, pairs = Coins(), [mechanism.read({str(value): 0}) for value in range(n)]

    def contestant() -> None:
        for one in pairs:
            mechanism.perturb_pairs(one, coins)

    return Race(contestant, rival * n, n)
