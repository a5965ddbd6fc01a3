"""What shrinkage does to keys that are certain, to the most frequent ones and to the whole vector, cell by cell.

The unbiased estimates, empirical Bayes and empirical Bayes without limits see the same tallies. Caps cut people before
anything is drawn, so that nothing but shrinkage biases an estimate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from keyveil.core.estimates import Column, Estimates
from keyveil.core.records import Records
from keyveil.core.schema import GRID
from keyveil.lab.aggregate import aggregate
from keyveil.lab.coins import SeededCoins
from keyveil.lab.datasets import Dataset
from keyveil.learn import shrinkage
from keyveil.mechanisms.registry import create

Floats = NDArray[np.float64]
CAP = 0.9  # quantile of set sizes at which people are cut for mechanisms with a cap
CERTAIN = 5.0  # standard errors


@contextmanager
def without_limits() -> Iterator[None]:
    """Plain empirical Bayes: all errors count the same, every estimate may be moved anywhere, and intervals are those
    of the posterior.
    """
    column = shrinkage._column

    def free(raw: Column, centre: Floats, sd: Floats, moves: Floats, z: float) -> Column:
        low, high = np.clip(centre - z * sd, -1, 1), np.clip(centre + z * sd, -1, 1)
        return column(Column(raw.schema, centre, sd, low, high, raw.flag, raw.scaled), centre, sd, moves + np.inf, z)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shrinkage, "_column", free)
        patch.setattr(shrinkage, "certain_first", lambda beliefs, *_: beliefs.mean)
        patch.setattr(shrinkage, "STRETCHED", ())
        patch.setattr(shrinkage, "smooth_tail", lambda laws, *_: laws)
        patch.setattr(shrinkage, "MANY_ROUNDS", 40)
        yield


def unlimited(estimates: Estimates) -> Estimates:
    """The mutant that every check here must reject."""
    with without_limits():
        return shrinkage.bayes(estimates)


@dataclass(frozen=True)
class Cell:
    """Sums of squared errors over runs and shares of covered truths, by kind of keys; NaN where there are none."""

    certain: float  # frequencies of keys above CERTAIN standard errors, as a multiple of the unbiased error
    top: float  # frequencies of the 20 most frequent keys, as a multiple of the unbiased error
    top_mean: float  # their means, the same
    whole: float  # all frequencies, as a multiple of the error without limits
    whole_mean: float  # all means, the same
    covered: tuple[float, float, float, float]  # frequencies: all, top 20; means: all, top 20
    missing: int  # numbers that are not there

    def __str__(self) -> str:
        ratios = " ".join(f"{x:.2f}" for x in (self.certain, self.top, self.top_mean, self.whole, self.whole_mean))
        return f"{ratios}; " + " ".join(f"{share:.3f}" for share in self.covered)


def cut(records: Records, cap: int, seed: int) -> Records:
    """Everybody keeps at most ``cap`` pairs, drawn at random."""
    people = np.repeat(np.arange(records.n), records.sizes)
    order = np.lexsort((np.random.default_rng(seed).random(len(people)), people))
    place = np.arange(len(people)) - np.repeat(records.offsets[:-1], records.sizes)
    kept = np.zeros(len(people), dtype=bool)
    kept[order] = place < cap
    offsets = np.concatenate(([0], np.cumsum(np.minimum(records.sizes, cap)))).astype(np.int64)
    return Records(offsets, records.keys[kept], records.values[kept], records.d)


def measured(
    dataset: Dataset,
    name: str,
    epsilon: float,
    runs: int,
    seed: int,
    shrunk: Callable[[Estimates], Estimates] = shrinkage.bayes,
) -> Cell:
    """One population under one mechanism, all runs with the same people."""
    records, options = dataset.population.records(dataset.schema), {}
    if name != "kvue":
        options = {"max_pairs": max(int(np.quantile(records.sizes, CAP, method="inverted_cdf")), 1)}
        records = cut(records, options["max_pairs"], seed)
    mechanism = create(name, dataset.schema, epsilon, **options)
    held = np.bincount(records.keys, minlength=records.d)
    sums = np.bincount(records.keys, records.values, minlength=records.d) / GRID
    f, m, there = held / records.n, sums / np.maximum(held, 1), held > 0
    raw = [mechanism.estimate(aggregate(mechanism, records, SeededCoins(seed, run))) for run in range(runs)]
    certain = f > CERTAIN * np.mean([np.nan_to_num(one.frequency.se, nan=np.inf) for one in raw], axis=0)
    top = np.argsort(-f, kind="stable")[:20]
    ways: tuple[Callable[[Estimates], Estimates], ...] = (lambda one: one, shrunk, unlimited)
    squares, covered, missing = np.zeros((3, 5)), [], 0
    for one in raw:
        for way, turned in enumerate(ways):
            now = turned(one)
            of_f = (np.nan_to_num(now.frequency.values) - f) ** 2
            of_m = np.where(there, (np.nan_to_num(np.clip(now.mean.values, -1, 1)) - m) ** 2, 0)
            parts = (of_f[certain], of_f[top], of_m[top], of_f, of_m)
            squares[way] += [part.sum() for part in parts]
            if way == 1:
                in_f, in_m = (
                    (column.low <= truth + 1e-9) & (truth <= column.high + 1e-9)
                    for column, truth in ((now.frequency, f), (now.mean, m))
                )
                covered.append([in_f.mean(), in_f[top].mean(), in_m[there].mean(), in_m[top][there[top]].mean()])
                missing += int(np.isnan(now.frequency.values).sum() + np.isnan(now.mean.values).sum())
    with np.errstate(invalid="ignore"):
        unbiased, before = squares[1] / squares[0], squares[1] / squares[2]
    certain_ratio, top_ratio, mean_ratio = unbiased[:3].tolist()
    whole, whole_mean = before[3:].tolist()
    first, second, third, fourth = np.mean(covered, axis=0).tolist()
    return Cell(certain_ratio, top_ratio, mean_ratio, whole, whole_mean, (first, second, third, fourth), missing)
