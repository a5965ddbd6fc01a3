"""The studies of the planner, at full size by ``make soak``: are predictions right, and is the best line the best?"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import keyveil as kv
from keyveil.lab.aggregate import aggregate
from keyveil.lab.coins import SeededCoins
from keyveil.lab.datasets import load
from keyveil.mechanisms.base import Mechanism
from tests.planning.study import EPSILONS, KNOWN, POPULATIONS, Compared, scenario

Record = Callable[[str, Any], None]

SCENARIOS, RIGHT = 1_000, (0.9, 1.1)
MOST_REPEATS = 960


def well_known(seed: int) -> Compared | None:
    """A scenario with as many repeats as its errors need to be known to 2.5 %; nothing if even the most do not do."""
    found = scenario(seed, MOST_REPEATS)
    return found if found is not None and max(found.frequency_se, found.mean_se or 0.0) <= KNOWN else None


@pytest.mark.soak
def test_errors_of_a_thousand_scenarios_are_as_predicted(record_property: Record) -> None:
    found: list[Compared] = []
    seed = 0
    while len(found) < SCENARIOS and seed < 10 * SCENARIOS:
        one = well_known(seed)
        found += [] if one is None else [one]
        seed += 1
    ratios = [one.frequency for one in found], [one.mean for one in found if one.mean is not None]
    right = [float(np.mean([RIGHT[0] <= ratio <= RIGHT[1] for ratio in some])) for some in ratios]
    wrong = sorted(
        (one for one in found if not RIGHT[0] <= one.frequency <= RIGHT[1]),
        key=lambda one: abs(math.log(one.frequency)),
    )
    record_property("scenarios", len(found))
    record_property("frequencies within 10 %", f"{right[0]:.1%}")
    record_property("means within 10 %", f"{right[1]:.1%} of {len(ratios[1])}")
    shown = (f"{one.mechanism} {one.population} {one.n} {one.epsilon}: {one.frequency:.2f}" for one in wrong[-5:])
    record_property("worst", "; ".join(shown))
    assert right[0] >= 0.95
    assert right[1] >= 0.95


HALVES, RUNS = 2, 10


@pytest.mark.soak
@pytest.mark.parametrize("goal", ["frequency", "mean"])
def test_auto_is_close_to_the_best_mechanism(goal: str, record_property: Record) -> None:
    """The best is found on one half of the runs and measured, like ``auto``, on the other."""
    regrets: dict[str, float] = {}
    for population in POPULATIONS:
        data = load(population, n=20_000, seed=7)
        for epsilon in EPSILONS:
            found = kv.plan(sample=data.population, schema=data.schema, epsilon=epsilon, goal=goal)
            measured = [_errors(line.mechanism, data, goal) for line in found.lines]
            best = int(np.argmin([one[0] for one in measured]))
            regrets[f"{population} {epsilon}"] = measured[0][1] / measured[best][1]
    close = float(np.mean([one <= 1.1 for one in regrets.values()]))
    worst = sorted(regrets.items(), key=lambda one: -one[1])[:5]
    record_property("cells", len(regrets))
    record_property("within 10 %", f"{close:.1%}")
    record_property("worst", "; ".join(f"{name}: {regret:.2f}" for name, regret in worst))
    assert close >= 0.9
    assert worst[0][1] <= 1.3


def _errors(mechanism: Mechanism, data: Any, goal: str) -> tuple[float, float]:
    """Root mean squared errors over keys on two halves of the runs; means are clipped, and 0 where unknown."""
    records, truth = data.population.records(data.schema), data.population.truth(data.schema)
    held, halves = truth.count > 0, []
    for half in range(HALVES):
        squares = []
        for run in range(RUNS):
            found = mechanism.estimate(aggregate(mechanism, records, SeededCoins(half, run)))
            if goal == "frequency":
                squares.append(np.mean((np.clip(found.frequency.values, 0, 1) - truth.frequency) ** 2))
            else:
                mean = np.nan_to_num(np.clip(found.mean.values, -1, 1))
                squares.append(np.mean((mean - truth.mean)[held] ** 2))
        halves.append(float(np.sqrt(np.mean(squares))))
    return halves[0], halves[1]


def test_a_scenario_compares_a_prediction_with_what_happens() -> None:
    """One case of the large study: within five of its own standard errors and 5 %."""
    found = scenario(16, repeats=8)
    assert found is not None
    assert abs(found.frequency - 1) < 5 * found.frequency_se + 0.05
