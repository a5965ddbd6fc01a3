"""Partitions are balanced, the same for device and collector, and mix symbols as a random one would."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from keyveil.kernels import buckets
from keyveil.kernels.buckets import Partition

PARTITIONS = [Partition(4, 2), Partition(3, 8), Partition(42, 5), Partition(25, 16), Partition(7, 1)]
SEEDS = [0, 5, 2**32 - 1, 2**64 - 1]


def whole(seed: int, partition: Partition) -> NDArray[np.int64]:
    symbols = np.arange(partition.symbols)
    return partition.bucket_many(np.full(len(symbols), seed, dtype=np.uint64), symbols)


@pytest.mark.parametrize("partition", PARTITIONS)
def test_every_bucket_gets_as_many_symbols(partition: Partition) -> None:
    for seed in SEEDS:
        assert (np.bincount(whole(seed, partition)) == partition.each).all()


@pytest.mark.parametrize("partition", PARTITIONS)
def test_devices_and_collectors_agree(partition: Partition) -> None:
    for seed in SEEDS:
        own = [partition.bucket(seed, symbol) for symbol in range(partition.symbols)]
        assert own == whole(seed, partition).tolist()


def test_what_a_seed_does_never_changes() -> None:
    """Devices in the field and collectors must agree for years."""
    found = [Partition(25, 16).bucket(2**63 + 5, symbol) for symbol in range(12)]
    assert found == [8, 0, 16, 0, 5, 20, 21, 20, 12, 20, 9, 4]


@pytest.mark.parametrize("partition", [Partition(4, 2), Partition(3, 8), Partition(42, 5)])
def test_two_symbols_meet_as_often_as_by_chance(partition: Partition) -> None:
    """z-scores of up to 15 pairs under 40,000 seeds; beyond 6 is a false alarm below 1e-7."""
    seeds, step = np.random.default_rng(3).integers(0, 1 << 64, 40_000, dtype=np.uint64), partition.columns
    chosen = sorted({0, 1, 2, step, step + 1, 2 * step} & set(range(partition.symbols)))
    chance = (partition.each - 1) / (partition.symbols - 1)
    placed = {symbol: partition.bucket_many(seeds, np.full(len(seeds), symbol)) for symbol in chosen}
    for a, b in combinations(chosen, 2):
        met = (placed[a] == placed[b]).mean()
        assert abs(met - chance) < 6 * math.sqrt(chance * (1 - chance) / len(seeds))


@pytest.fixture(params=["compiled", "twin"])
def either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both the machine code and the NumPy twins of what counts."""
    for name in ("_sum_grids", "_add_members"):
        loop: Any = getattr(buckets, name)
        monkeypatch.setattr(buckets, name, getattr(loop, request.param))


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("partition", PARTITIONS)
def test_counting_supports(partition: Partition) -> None:
    rng = np.random.default_rng(1)
    counts, seeds = rng.integers(0, 5, (9, partition.buckets)), rng.integers(0, 1 << 64, 9, dtype=np.uint64)
    counts[4] = 0
    expected = sum(table[whole(int(seed), partition)] for table, seed in zip(counts, seeds, strict=True))
    assert (partition.count_tables(seeds, counts, partition.symbols - 1) == expected[:-1]).all()


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("partition", [*PARTITIONS, Partition(6, 5), Partition(2, 700)])
def test_counting_answers_with_seeds_of_their_own(partition: Partition) -> None:
    """More reports than are tabled at once, and one seed twice."""
    rng = np.random.default_rng(2)
    seeds, answers = rng.integers(0, 1 << 64, 150, dtype=np.uint64), rng.integers(0, partition.buckets, 150)
    seeds[3] = seeds[7]
    expected = sum(
        (whole(int(seed), partition) == answer).astype(int) for seed, answer in zip(seeds, answers, strict=True)
    )
    assert (partition.count_answers(seeds, answers, partition.symbols - 1) == expected[:-1]).all()
