"""A whole collection on one machine: everybody reports, the collector counts, the truth is known."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from keyveil.core.coins import Coins
from keyveil.core.epsilon import Number
from keyveil.core.estimates import Estimates
from keyveil.core.population import Population
from keyveil.core.schema import Schema
from keyveil.core.tally import Tally
from keyveil.core.truth import Truth
from keyveil.lab.coins import SeededCoins
from keyveil.lab.metrics import metrics
from keyveil.mechanisms.base import BLOCK, Mechanism
from keyveil.mechanisms.registry import create


@dataclass(frozen=True)
class Simulation:
    """What came out, and what the truth was."""

    mechanism: Mechanism
    tally: Tally
    estimates: Estimates
    truth: Truth
    metrics: dict[str, float | None]
    seconds: float


def simulate(
    mechanism: str | Mechanism,
    population: Population,
    schema: Schema | None = None,
    epsilon: Number = 1,
    *,
    seed: int | None = None,
    confidence: float = 0.95,
    progress: Callable[[int], None] | None = None,
    **options: Any,
) -> Simulation:
    """Run a mechanism over a population; without a seed the coins come from the operating system.

    ``progress`` is called with the number of people after each block.
    """
    schema = schema or population.schema()
    if isinstance(mechanism, str):
        mechanism = create(mechanism, schema, epsilon, **options)
    begin = time.perf_counter()
    tally = Tally.empty(mechanism.fingerprint, mechanism.tally_shape)
    for number, block in enumerate(population.blocks(BLOCK)):
        coins = Coins() if seed is None else SeededCoins(seed, number)
        records = block.records(schema)
        tally = tally + mechanism.tally(mechanism.perturb_many(records, coins))
        if progress:
            progress(records.n)
    truth = population.truth(schema)
    estimates = mechanism.estimate(tally, confidence).with_truth(truth)
    seconds = time.perf_counter() - begin
    return Simulation(mechanism, tally, estimates, truth, metrics(estimates, truth), seconds)
