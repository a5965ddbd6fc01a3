"""Do intervals of ``apart`` hold the truth on people who were not made for it, also if values were declared wrongly?

Every run asks the people of a population of ``lab.datasets.lifelike`` as a campaign would: a cap at the 90 % quantile
of set sizes with its overflow group, or no cap where sets are dense. The declared energy of values (the square of
``typical``) is right, or wrong by a factor of 0.4 or 2.5.

``heavy`` is asked without a cap, too. With one, a tail of people far above three times the cap is more than the
overflow group can tell: at ε = 4 the intervals of its keys that have no flag miss under ``apart`` as under ``ssr``
(docs/decisions/0048-overflow-group.md), which says nothing about values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from keyveil.core.columns import FLAGS
from keyveil.core.schema import GRID, Schema
from keyveil.frames.population import Population
from keyveil.lab.coins import SeededCoins
from keyveil.lab.datasets.lifelike import LIFELIKE
from keyveil.lab.datasets.recipes import load
from keyveil.lab.honesty.truths import resampled
from keyveil.lab.public_options import collected_for

ENERGIES = (0.4, 1.0, 2.5)
DENSE: dict[str, dict[str, Any]] = {"survey": {"mode": "dense"}, "heavy": {"mode": "dense"}}
LEAST, MOST = 0.93, 0.99  # coverage of 95 % intervals
TRUNCATED, Z, TOP = FLAGS.index("truncated"), 1.959964, 20


@dataclass
class Seen:
    """Per run, the shares of intervals that hold the truth: of all keys, and of the means of the 20 most frequent."""

    frequency: list[float] = field(default_factory=list)
    product: list[float] = field(default_factory=list)
    mean: list[float] = field(default_factory=list)

    def told(self) -> dict[str, float]:
        return {name: round(float(np.mean(values)), 3) for name, values in vars(self).items() if values}


def made_for(name: str, n: int, epsilon: str, energy: float, **options: Any) -> tuple[Any, Schema, Population]:
    """``apart`` as it would be collected from the people of a population, and these people."""
    data = load(name, n=n, seed=11)
    people = data.population.keyed(data.schema)
    square = float(np.mean((people.records(data.schema).values / GRID) ** 2))
    typical = f"{min(max((energy * square) ** 0.5, 0.01), 1):.2f}"
    given = {"typical": typical, "expected": n, **DENSE.get(name, {}), **options}
    return collected_for("apart", data.schema, epsilon, people.sizes, given)[0], data.schema, people


def watch(seen: Seen, name: str, n: int, epsilon: str, energy: float, runs: int, sample: bool) -> None:
    """Ask the people of a population several times, themselves or samples of them."""
    made, schema, people = made_for(name, n, epsilon, energy)
    truth, rng, records = people.truth(schema), np.random.default_rng(12), people.records(schema)
    total = np.nan_to_num(truth.frequency * truth.mean)
    top = np.argsort(-truth.frequency, kind="stable")[:TOP]
    for run in range(runs):
        asked = resampled(records, rng) if sample else records
        estimates = made.estimate(made.tally(made.perturb_many(asked, SeededCoins(13, run))), population=sample)
        f, m, plain = estimates.frequency, estimates.mean, estimates.frequency.flag < TRUNCATED
        errors = estimates.product - total
        held = plain & (truth.count > 0)
        seen.frequency.append(float(((f.low <= truth.frequency) & (truth.frequency <= f.high))[plain].mean()))
        seen.product.append(float((np.abs(errors) <= Z * estimates.product_se)[plain].mean()))
        some = top[held[top] & (m.flag[top] < TRUNCATED)]
        if len(some):
            seen.mean.append(float(((m.low <= truth.mean) & (truth.mean <= m.high))[some].mean()))


@pytest.mark.soak
@pytest.mark.parametrize("name", list(LIFELIKE))
def test_intervals_hold_the_truth(name: str, record_property: Callable[[str, object], None]) -> None:
    """40,000 people at ε = 1 and 4, themselves and samples of them, five runs each."""
    for energy in ENERGIES:
        seen = Seen()
        for sample in (False, True):
            for epsilon in ("1", "4"):
                watch(seen, name, 40_000, epsilon, energy, 5, sample)
        record_property(f"energy × {energy:g}", seen.told())
        covers(seen)


@pytest.mark.soak
@pytest.mark.parametrize("name", list(LIFELIKE))
def test_variances_are_as_stated(name: str, record_property: Callable[[str, object], None]) -> None:
    """The same 20,000 people asked 40 times: how f and f·m vary, over what is stated; f·m of the rarer half of keys.

    Of frequent keys the stated variance of f·m also allows for what cutting does to some holders more than to others.
    """
    for epsilon in ("1", "4"):
        made, schema, people = made_for(name, 20_000, epsilon, 1.0, overflow="off")
        records, truth = people.records(schema), people.truth(schema)
        rare = truth.frequency <= np.median(truth.frequency)
        found, stated = [], []
        for run in range(40):
            told = made.estimate(made.tally(made.perturb_many(records, SeededCoins(14, run))))
            found.append((told.frequency.values, told.product))
            stated.append((told.frequency.se**2, told.product_noise_se**2))
        of_f, of_u = np.var(found, axis=0, ddof=1) / np.mean(stated, axis=0)
        ratios = [of_f, of_u[rare]]
        record_property(f"epsilon {epsilon}", [round(float(one.mean()), 3) for one in ratios])
        for one in ratios:  # keys are nearly independent of each other: variances of 40 runs are known to a fifth each
            assert one.mean() == pytest.approx(1, abs=0.1 + 4 * (2 / 39 / len(one)) ** 0.5)


@pytest.mark.soak
@pytest.mark.parametrize(("name", "runs"), [("survey", 6), ("skewed", 1), ("constant", 1)])
def test_a_million_people(name: str, runs: int, record_property: Callable[[str, object], None]) -> None:
    """People at ε = 1, and samples at ε = 4; the three declarations together must cover."""
    both = Seen()
    for energy in ENERGIES:
        seen = Seen()
        watch(seen, name, 1_000_000, "1", energy, runs, False)
        watch(seen, name, 1_000_000, "4", energy, runs, True)
        record_property(f"energy × {energy:g}", seen.told())
        both.frequency += seen.frequency
        both.product += seen.product
        both.mean += seen.mean
    covers(both)


def covers(seen: Seen) -> None:
    """Three standard errors, from the runs, are allowed."""
    for shares in (seen.frequency, seen.product, seen.mean):
        if shares:
            assert np.mean(shares) >= LEAST - 3 * np.std(shares) / len(shares) ** 0.5
    assert np.mean(seen.frequency) <= MOST
