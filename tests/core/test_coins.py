from __future__ import annotations

import os
import pickle
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from keyveil.core.coins import Coins
from keyveil.core.errors import EntropyError
from keyveil.lab.coins import SeededCoins

ALARM = 1e-7  # false-alarm rate of every test of a distribution here


def fits(observed: list[int], expected: list[float]) -> bool:
    return bool(stats.chisquare(observed, expected).pvalue > ALARM)


@given(st.integers(min_value=1, max_value=10**30))
@settings(max_examples=50)
def test_below_stays_below(bound: int) -> None:
    coins = SeededCoins(1)
    assert all(0 <= coins.below(bound) < bound for _ in range(20))


@pytest.mark.parametrize("bound", [2, 3, 7, 100, 257])
def test_below_is_uniform_single_and_bulk(bound: int) -> None:
    coins, draws = SeededCoins(2), 40_000
    single = Counter(coins.below(bound) for _ in range(draws))
    bulk = np.bincount(coins.below_many(bound, draws), minlength=bound)
    expected = [draws / bound] * bound
    assert fits([single[value] for value in range(bound)], expected)
    assert fits(bulk.tolist(), expected)


def test_bulk_draws_above_32_bits_use_the_whole_range() -> None:
    bound = (1 << 45) + 12345
    drawn = SeededCoins(3).below_many(bound, 50_000)
    assert drawn.min() >= 0 and drawn.max() < bound
    assert fits(np.bincount(drawn * 16 // bound, minlength=16).tolist(), [50_000 / 16] * 16)


@pytest.mark.parametrize("weights", [(3, 1, 4, 0, 2), (1, 2**200), (2**70, 2**71, 2**70), (0, 5, 0), (7,)])
def test_weighted_choices_have_their_weights(weights: tuple[int, ...]) -> None:
    coins, draws, total = SeededCoins(4), 20_000, sum(weights)
    single = Counter(coins.choose(weights) for _ in range(draws))
    bulk = np.bincount(coins.choose_many(weights, draws), minlength=len(weights))
    likely = [index for index, weight in enumerate(weights) if draws * weight / total > 1]
    for counts in (single, bulk):
        assert sum(counts[index] for index in likely) == draws  # nothing of weight zero, or nearly, ever comes
        if len(likely) > 1:
            assert fits([int(counts[index]) for index in likely], [draws * weights[index] / total for index in likely])


def test_undecided_bits_are_decided_by_more_of_them() -> None:
    """A share of 1/3 has no finite binary expansion: bits equal to its prefix must be drawn on, never guessed."""

    class Scripted(SeededCoins):
        def words(self, count: int) -> np.ndarray:
            return np.full(count, ((1 << 64) // 3), dtype=np.uint64)

    assert set(Scripted(5).choose_many((1, 2), 64)) == {0, 1}  # 1/3 = 0.0101…: what follows decides
    assert set(Scripted(5).choose_many((2**64 // 3, 2**64 - 2**64 // 3), 64)) == {
        1
    }  # exactly on the boundary: above it


def test_runs_are_picked_by_weight() -> None:
    coins, draws = SeededCoins(6), 30_000
    seen = Counter(coins.pick((2, 5), (3, 1)) for _ in range(draws))
    outcomes = [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)]
    assert set(seen) == set(outcomes)
    assert fits([seen[o] for o in outcomes], [draws * w / 13 for w in (5, 5, 1, 1, 1)])


def test_subsets_are_uniform() -> None:
    coins, draws = SeededCoins(7), 20_000
    seen = Counter(tuple(coins.subset(2, 5)) for _ in range(draws))
    assert len(seen) == 10
    assert fits(list(seen.values()), [draws / 10] * 10)


def test_chances_single_and_bulk() -> None:
    coins, draws = SeededCoins(8), 30_000
    single = sum(coins.chance(3, 10) for _ in range(draws))
    bulk = int(coins.chance_many(3, 10, draws).sum())
    for heads in (single, bulk):
        assert fits([heads, draws - heads], [0.3 * draws, 0.7 * draws])
    assert not coins.chance(0, 5) and coins.chance(5, 5)
    each = coins.chance_each(np.tile(np.array([0, 3, 8], dtype=np.uint32), draws), 3).reshape(draws, 3).sum(axis=0)
    assert each[0] == 0 and each[2] == draws and fits([each[1], draws - each[1]], [0.375 * draws, 0.625 * draws])


def test_seeded_streams_repeat_and_differ() -> None:
    assert SeededCoins(9, 1).bytes(32) == SeededCoins(9, 1).bytes(32)
    streams = {SeededCoins(9, 1).bytes(32), SeededCoins(9, 2).bytes(32), SeededCoins(10, 1).bytes(32)}
    assert len(streams) == 3


def test_two_coins_of_the_system_differ() -> None:
    assert Coins().bytes(32) != Coins().bytes(32)


def test_long_requests_are_served() -> None:
    assert len(Coins().bytes(100_000)) == 100_000


def test_a_forked_child_has_coins_of_its_own() -> None:
    coins = Coins()
    coins.bytes(1)  # a keystream exists, and bytes lie ready ahead of it
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, coins.bytes(32))
        os._exit(0)
    os.close(writer)
    theirs = os.read(reader, 32)
    os.waitpid(child, 0)
    assert theirs != coins.bytes(32)


def test_no_entropy_is_an_error_and_no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(size: int) -> bytes:
        raise OSError("no source")

    monkeypatch.setattr(os, "urandom", broken)
    with pytest.raises(EntropyError) as refused:
        Coins().below(10)
    assert refused.value.code == "coins/no-entropy"
    monkeypatch.setattr(os, "urandom", lambda size: b"short")
    with pytest.raises(EntropyError):
        Coins().bytes(1)


def test_coins_do_not_travel_between_processes() -> None:
    with pytest.raises(TypeError):
        pickle.dumps(Coins())


class Scripted(Coins):
    """Coins that read given bytes, then zeros."""

    def __init__(self, script: bytes) -> None:
        super().__init__()
        self.script, self.read = script, 0

    def bytes(self, count: int) -> bytes:
        taken = self.script[self.read : self.read + count]
        self.read += count
        return taken.ljust(count, b"\0")


@pytest.mark.parametrize(("numerator", "denominator"), [(1, 2), (1, 3), (0, 5), (5, 5), (3, 2**32), (2**70 + 1, 3**50)])
def test_many_chances_are_exact(numerator: int, denominator: int) -> None:
    """Of all pairs of bytes ⌊65 536 · t / total⌋ are a yes; what follows them decides at the border only."""
    # All first bytes, then every second byte for the one that may be open.
    share = 65536 * numerator // denominator
    digit, second = divmod(share, 256)
    first = Scripted(bytes(range(256)) + b"\xff" * 8).chances(numerator, denominator, 256)
    assert first[: min(digit, 256)].all() and not first[digit:].any()
    if digit < 256 and 256 * numerator % denominator:
        border = [
            bool(Scripted(bytes([digit, low, 255, 255, 255])).chances(numerator, denominator, 1)[0])
            for low in range(256)
        ]
        assert sum(border) == second


def test_many_chances_read_a_byte_for_each_and_one_more_where_open() -> None:
    coins = Scripted(bytes([0, 85, 85, 255]) + bytes([85, 0]) + bytes([86]))  # a third is 0.555555… in base 256
    assert coins.chances(1, 3, 4).tolist() == [True, False, True, False]
    assert coins.read == 7


@pytest.mark.parametrize("bound", [1, 2, 7, 256, 257, 1000, 70_000, 2**33 + 1])
def test_many_numbers_are_the_same_with_and_without_arrays(bound: int) -> None:
    script = SeededCoins(5).bytes(4000)
    many, few = Scripted(script), Scripted(script)
    assert many.below_each(bound, 100).tolist() == few._few_below(bound, 100)
    assert many.read == few.read and max(many.below_each(bound, 100)) < bound


@pytest.mark.parametrize(("size", "bound"), [(0, 4), (4, 4), (3, 70), (67, 70), (40, 80), (41, 80), (50, 3000)])
def test_subsets_of_any_size(size: int, bound: int) -> None:
    drawn = SeededCoins(6).subset(size, bound)
    assert drawn == sorted(set(drawn)) and len(drawn) == size and set(drawn) <= set(range(bound))


@pytest.mark.parametrize(("size", "bound"), [(0, 3), (3, 3), (7, 30), (23, 30), (300, 1000), (700, 1000)])
def test_a_subset_as_a_vector_is_the_same(size: int, bound: int) -> None:
    there = SeededCoins(9).among(size, bound)
    assert there.shape == (bound,) and there.nonzero()[0].tolist() == SeededCoins(9).subset(size, bound)


def test_large_subsets_hold_every_number_as_often() -> None:
    """200 draws of 80 out of 120: each number is in 2/3 of them; six standard deviations are 40."""
    coins, seen = SeededCoins(7), Counter[int]()
    for _ in range(200):
        seen.update(coins.subset(80, 120))
    assert all(abs(seen[number] - 200 * 80 / 120) < 40 for number in range(120))


def test_a_long_draw_replaces_the_key() -> None:
    coins = SeededCoins(8)
    coins.bytes(1)
    before = coins._own.cipher
    coins.bytes(10_000)
    assert coins._own.cipher is not before
