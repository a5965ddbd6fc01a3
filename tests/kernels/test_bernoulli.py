"""Biased bits have the law that their threshold says. Bounds are 5.5 standard errors: a false alarm in 3e-8."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt

import numpy as np
import pytest
from numpy.typing import NDArray

from keyveil.core.coins import Coins
from keyveil.kernels import bernoulli
from keyveil.kernels.bernoulli import bernoulli_words, perturb_bits, perturb_unary

FixedCoins = Callable[[int], Coins]
ONE = 1 << 32
OUE = 1155094610  # the probability 1 / (e + 1)
# A whole number of 256ths, of 32nds, one half, and numbers whose lowest bits matter.
THRESHOLDS = [1 << 31, 3 << 29, 5 << 27, 69 << 24, OUE, 1, ONE - 1, (1 << 27) + 1, 0x12345678]


def consistent(ones: int, trials: int, probability: float) -> bool:
    return abs(ones - trials * probability) <= 5.5 * sqrt(trials * probability * (1 - probability)) + 1


def unpacked(words: NDArray[np.uint64], d: int) -> NDArray[np.uint8]:
    return np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")[:, :d]


@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_the_share_of_ones_is_the_threshold_and_not_a_third_more_or_less(threshold: int, fixed: FixedCoins) -> None:
    words = bernoulli_words(threshold, 40_000, fixed(1))
    ones, trials = int(np.bitwise_count(words).sum()), 64 * len(words)
    assert consistent(ones, trials, threshold / ONE)
    if 1 << 20 < threshold < ONE - (1 << 20):
        assert not consistent(ones, trials, min(1.3 * threshold / ONE, 0.999))
        assert not consistent(ones, trials, 0.7 * threshold / ONE)


def test_certain_bits_need_no_coins(fixed: FixedCoins) -> None:
    assert not bernoulli_words(0, 100, fixed(1)).any()
    assert (bernoulli_words(ONE, 100, fixed(1)) == (1 << 64) - 1).all()


def test_every_lane_and_every_word_of_a_unit_has_the_same_law(fixed: FixedCoins) -> None:
    words = bernoulli_words(OUE, 200 * bernoulli._UNIT, fixed(2))
    by_lane = unpacked(words[:, None], 64).sum(axis=0)
    by_place = np.bitwise_count(words).reshape(200, -1).sum(axis=0)
    assert all(consistent(int(ones), len(words), OUE / ONE) for ones in by_lane)
    assert all(consistent(int(ones), 200 * 64, OUE / ONE) for ones in by_place)


def test_words_that_share_planes_are_independent(fixed: FixedCoins) -> None:
    # Words a group apart compete for the same random bits.
    groups = bernoulli_words(OUE, 400 * bernoulli._UNIT, fixed(3)).reshape(400, 4, -1)
    both, trials = (OUE / ONE) ** 2, 64 * groups[:, 0].size
    for first in range(4):
        for second in range(first):
            assert consistent(int(np.bitwise_count(groups[:, first] & groups[:, second]).sum()), trials, both)


@pytest.mark.parametrize("decide", [bernoulli._decide.compiled, bernoulli._decide.twin])
def test_lanes_that_tie_with_all_planes_are_settled_by_their_low_bits(decide: Callable[..., tuple[int, int]]) -> None:
    threshold = 1 << 23  # its leading eight bits are zero, like all planes below, so that the draws alone decide
    planes, block = np.zeros(bernoulli._DRAWN, dtype=np.uint64), np.empty(bernoulli._UNIT, dtype=np.uint64)
    draws = np.full(64 * bernoulli._UNIT, threshold - 1, dtype=np.uint32)
    draws[: 64 * bernoulli._GROUP] <<= np.uint32(8)  # the first group claims and needs 24 bits, the others wait for 27
    draws[64 * bernoulli._GROUP :] <<= np.uint32(5)
    assert decide(planes, threshold, block, draws, 0, 0) == (1, len(draws))
    assert (block == (1 << 64) - 1).all()
    draws[5] += 1 << 8  # now equal to the threshold, hence not below
    draws[-1] += 1 << 5
    decide(planes, threshold, block, draws, 0, 0)
    assert block[0] == (1 << 64) - 1 - (1 << 5) and block[-1] == (1 << 63) - 1
    assert decide(planes, threshold, block, draws[:-1], 0, 0) == (0, 0)


def test_running_out_of_draws_changes_nothing_but_the_coins_spent(
    fixed: FixedCoins, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bernoulli, "_SPARE", 1)
    words = bernoulli_words(OUE, 20 * bernoulli._UNIT, fixed(8))
    assert consistent(int(np.bitwise_count(words).sum()), 64 * len(words), OUE / ONE)
    monkeypatch.setattr(bernoulli, "_decide", bernoulli._decide.twin)
    assert consistent(
        int(np.bitwise_count(bernoulli_words(OUE, len(words), fixed(8))).sum()), 64 * len(words), OUE / ONE
    )


@pytest.mark.parametrize("threshold", [OUE, 69 << 24, (1 << 27) + 1])
def test_loops_and_twins_turn_the_same_coins_into_the_same_bits(
    threshold: int, fixed: FixedCoins, monkeypatch: pytest.MonkeyPatch
) -> None:
    hot = np.random.default_rng(1).integers(-1, 100, 3000)
    compiled = perturb_unary(hot, 100, 1 << 31, threshold, fixed(4))
    for name in ("_decide", "_place"):
        monkeypatch.setattr(bernoulli, name, getattr(bernoulli, name).twin)
    assert np.array_equal(perturb_unary(hot, 100, 1 << 31, threshold, fixed(4)), compiled)


@pytest.mark.parametrize("d", [1, 63, 64, 65, 200])
def test_hot_bits_have_their_own_law_and_bits_beyond_d_are_zero(d: int, fixed: FixedCoins) -> None:
    n, hot_threshold, cold_threshold = 20_000, 3 << 30, OUE
    hot = np.arange(n) % (d + 1) - 1
    words = perturb_unary(hot, d, hot_threshold, cold_threshold, fixed(5))
    bits = unpacked(words, 64 * words.shape[1])
    assert words.shape == (n, -(-d // 64)) and not bits[:, d:].any()
    is_hot = hot[:, None] == np.arange(d)
    for where, threshold in ((is_hot, hot_threshold), (~is_hot, cold_threshold)):
        assert consistent(int(bits[:, :d][where].sum()), int(where.sum()), threshold / ONE)


def test_each_bit_is_perturbed_by_what_it_was(fixed: FixedCoins) -> None:
    n, d = 5_000, 70
    given_bits = np.random.default_rng(2).integers(0, 1 << 64, (n, 2), dtype=np.uint64)
    given_bits[:, 1] &= np.uint64((1 << 6) - 1)
    words = perturb_bits(given_bits, d, ONE - OUE, OUE, fixed(6))
    before, after = unpacked(given_bits, d).astype(bool), unpacked(words, 128)
    assert not after[:, d:].any()
    assert consistent(int(after[:, :d][before].sum()), int(before.sum()), 1 - OUE / ONE)
    assert consistent(int(after[:, :d][~before].sum()), int((~before).sum()), OUE / ONE)


def test_nobody_and_few_people_are_fine(fixed: FixedCoins) -> None:
    assert perturb_unary(np.empty(0, dtype=np.int64), 10, 1 << 31, OUE, fixed(7)).shape == (0, 1)
    assert perturb_unary(np.zeros(1, dtype=np.int64), 10, ONE, 0, fixed(7)).tolist() == [[1]]
