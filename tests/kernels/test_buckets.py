"""Partitions are balanced, the same for device and collector, and mix symbols as a random one would."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from keyveil.kernels import buckets
from keyveil.kernels.buckets import Partition, bucket_many, bucket_one, count_answers, count_buckets

PARTITIONS = [Partition(4, 2), Partition(3, 8), Partition(42, 5), Partition(25, 16), Partition(7, 1)]


def whole(cohort: int, partition: Partition) -> NDArray[np.int64]:
    symbols = np.arange(partition.symbols)
    return bucket_many(np.full(len(symbols), cohort), symbols, partition)


@pytest.mark.parametrize("partition", PARTITIONS)
def test_every_bucket_gets_as_many_symbols(partition: Partition) -> None:
    for cohort in (0, 1, 2**16 - 1, 2**32 - 1):
        assert (np.bincount(whole(cohort, partition)) == partition.each).all()


@pytest.mark.parametrize("partition", PARTITIONS)
def test_devices_and_collectors_agree(partition: Partition) -> None:
    for cohort in (0, 5, 2**32 - 1):
        assert [bucket_one(cohort, symbol, partition) for symbol in range(partition.symbols)] == whole(
            cohort, partition
        ).tolist()


@pytest.mark.parametrize("partition", [Partition(4, 2), Partition(3, 8), Partition(42, 5)])
def test_two_symbols_meet_as_often_as_by_chance(partition: Partition) -> None:
    """z-scores of up to 15 pairs in 40,000 cohorts; beyond 6 is a false alarm below 1e-7."""
    cohorts, step = np.arange(40_000), partition.columns
    chosen = sorted({0, 1, 2, step, step + 1, 2 * step} & set(range(partition.symbols)))
    chance = (partition.each - 1) / (partition.symbols - 1)
    placed = {symbol: bucket_many(cohorts, np.full(len(cohorts), symbol), partition) for symbol in chosen}
    for a, b in combinations(chosen, 2):
        met = (placed[a] == placed[b]).mean()
        assert abs(met - chance) < 6 * math.sqrt(chance * (1 - chance) / len(cohorts))


@pytest.mark.parametrize("partition", PARTITIONS)
def test_counting_supports(partition: Partition) -> None:
    rng = np.random.default_rng(1)
    counts = rng.integers(0, 5, (9, partition.buckets))
    counts[4] = 0
    expected = sum(counts[cohort][whole(cohort, partition)] for cohort in range(9))
    assert (count_buckets(counts, partition.symbols - 1, partition) == expected[:-1]).all()


@pytest.mark.parametrize("run", [buckets._add_supports.compiled, buckets._add_supports.twin])
def test_counting_answers_with_seeds_of_their_own(run: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "_add_supports", run)
    partition = Partition(6, 5)
    cohorts, answers = np.array([3, 2**31, 77, 3]), np.array([0, 5, 2, 2])
    expected = sum(
        (whole(cohort, partition) == answer).astype(int) for cohort, answer in zip(cohorts, answers, strict=True)
    )
    assert (count_answers(cohorts, answers, 30, partition) == expected).all()
