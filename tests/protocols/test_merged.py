"""One answer from disjoint groups: the covariance that it states, where it is known and against what happens."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from keyveil.core.records import Records
from keyveil.core.schema import Schema
from keyveil.lab import datasets
from keyveil.lab.coins import SeededCoins
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.registry import create
from keyveil.protocols.base import Finished, Round
from keyveil.protocols.merged import merged
from keyveil.protocols.one_round import one_round
from tests.sweeps import sampled

SCHEMA = Schema(keys=3)
SHARES, MEANS = np.array([0.45, 0.6, 0.5]), np.array([0.9, -0.9, 0.9])  # where f and f·m hang together most
EPSILON = Fraction(4)
KVUE, SSR = create("kvue", SCHEMA, EPSILON), create("ssr", SCHEMA, EPSILON, max_pairs=3)
CELLS = create("kvue", SCHEMA, EPSILON, bins=4, rounding="cell")  # tells frequencies, not means


def answered(mechanism: Mechanism, records: Records, *seed: int) -> Finished:
    tally = mechanism.tally(mechanism.perturb_many(records, SeededCoins(*seed)))
    return Finished(Round(1, mechanism), tally)


@pytest.mark.parametrize("population", [False, True], ids=["fixed people", "sample"])
def test_two_groups_with_the_same_counts_halve_variances_and_covariance(population: bool) -> None:
    group = answered(SSR, datasets.independent(900, SHARES, MEANS, 1).records(SCHEMA), 1)
    alone, both = group.estimates(population=population), merged([group, group], one_round(SSR), population=population)
    assert alone.covariance is not None and both.covariance is not None
    assert np.abs(alone.covariance).min() > 1e-5  # so that its sign and size can be seen
    assert both.covariance == pytest.approx(alone.covariance / 2)
    assert both.frequency.se**2 == pytest.approx(alone.frequency.se**2 / 2)
    assert both.mean.values == pytest.approx(alone.mean.values, rel=1e-3)


def test_who_tells_frequencies_alone_takes_its_share_of_the_covariance_with_it() -> None:
    """f̂ = w·f̂₁ + (1 - w)·f̂₂ and Û = Û₂ of a sample: the covariance is (1 - w) times that of the second group."""
    people = datasets.independent(1800, SHARES, MEANS, 1).records(SCHEMA)
    groups = [answered(CELLS, people.slice(0, 900), 1), answered(SSR, people.slice(900, 1800), 2)]
    first, second = (group.estimates(population=True) for group in groups)
    both = merged(groups, one_round(SSR), population=True)
    w = (both.frequency.values - second.frequency.values) / (first.frequency.values - second.frequency.values)
    assert second.covariance is not None and ((w > 0.05) & (w < 0.95)).all()
    assert both.product == pytest.approx(second.product)
    assert both.covariance == pytest.approx((1 - w) * second.covariance)


@pytest.mark.parametrize(("first", "population"), sampled([(KVUE,), (CELLS,)], [False, True], ["signs", "cells"]))
def test_joint_errors_of_unequal_groups_are_as_stated(first: Mechanism, population: bool) -> None:
    """The errors of f, of U = f·m and of U - m·f; only the last sees the covariance.

    A third of the people answers ``kvue``, the rest ``ssr``, drawn anew each time. Squares are held against the mean of
    what is stated. Three variances within 5.5 standard errors and nine biases within 5.9: alarms below 1e-6 together.
    """
    n, repeats, rng = 900, 300, np.random.default_rng(2)
    everybody = datasets.independent(n * repeats if population else n, SHARES, MEANS, 3)
    truth = everybody.truth(SCHEMA)
    f, m = (SHARES, MEANS) if population else (truth.frequency, truth.mean)
    records = everybody.records(SCHEMA)
    errors, stated = [], []
    for repeat in range(repeats):
        people = records.slice(n * repeat, n * (repeat + 1)) if population else shuffled(records, rng)
        groups = [
            answered(first, people.slice(0, n // 3), 4, repeat),
            answered(SSR, people.slice(n // 3, n), 5, repeat),
        ]
        both = merged(groups, one_round(SSR), population=population)
        assert both.product is not None and both.product_se is not None and both.covariance is not None
        var_f, var_u = both.frequency.se**2, both.product_se**2
        errors.append((both.frequency.values - f, both.product - f * m, both.product - m * both.frequency.values))
        stated.append((var_f, var_u, var_u + m**2 * var_f - 2 * m * both.covariance))
    scores = np.array(errors) / np.sqrt(np.mean(stated, axis=0))
    for what, z in zip(("f", "U", "U - m·f"), np.moveaxis(scores, 1, 0), strict=True):
        assert np.abs(z.mean(axis=0)).max() < 5.9 / math.sqrt(repeats), f"{what} is biased"
        squares = (z**2).mean(axis=1)  # keys of one collection hang together
        off = 5.5 * squares.std() / (squares.mean() * math.sqrt(repeats))
        assert abs(squares.mean() - 1) < off, f"{what}: the variance of z is {squares.mean():.3f}, not 1 ± {off:.3f}"


def shuffled(records: Records, rng: np.random.Generator) -> Records:
    """The same people in another order."""
    order = rng.permutation(records.n)
    sizes = np.diff(records.offsets)[order]
    pairs: NDArray[np.int64] = np.concatenate([np.arange(*records.offsets[at : at + 2]) for at in order])
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    return Records(offsets, records.keys[pairs], records.values[pairs], records.d)
