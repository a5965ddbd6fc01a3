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
# One half, simple fractions, and numbers whose lowest bits matter.
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


def test_every_lane_has_the_same_law_and_neighbours_are_independent(fixed: FixedCoins) -> None:
    bits = unpacked(bernoulli_words(OUE, 100_000, fixed(2))[:, None], 64)
    share = OUE / ONE
    assert all(consistent(int(ones), len(bits), share) for ones in bits.sum(axis=0))
    both = bits[:, :-1] & bits[:, 1:]
    assert consistent(int(both.sum()), both.size, share**2)


@pytest.mark.parametrize("threshold", [OUE, 1, ONE - 1, 0x12345678])
def test_tables_and_remainders_add_up_to_the_exact_law(threshold: int) -> None:
    """What the tables hold and what they leave over is each byte's weight out of 2**256, to the last unit."""
    first, second = bernoulli._lookups(threshold)
    draws, whole = 1 << 16, 1 << 256
    for byte in range(256):
        ones = byte.bit_count()
        weight = threshold**ones * (ONE - threshold) ** (8 - ones)
        looked_up = int((first.table[: first.filled] == byte).sum())
        assert looked_up * whole + first.remainders[byte] == weight * draws
        again = int((second.table[: second.filled] == byte).sum())
        left_over = sum(first.remainders)
        assert again * left_over + second.remainders[byte] == first.remainders[byte] * draws
    assert first.filled * whole + sum(first.remainders) == whole * draws


def test_what_the_tables_leave_over_is_drawn_by_its_weight(fixed: FixedCoins) -> None:
    """Where nothing fits the tables, whole numbers of any length decide alone."""
    nothing = bernoulli._Lookup(np.zeros(1 << 16, dtype=np.uint8), 0, (1, 0, 3) + (0,) * 253)
    drawn = bernoulli._settled(nothing, 40_000, fixed(3))
    assert set(drawn.tolist()) == {0, 2}
    assert consistent(int((drawn == 0).sum()), 40_000, 1 / 4)


@pytest.mark.parametrize("threshold", [OUE, 69 << 24, (1 << 27) + 1])
def test_loops_and_twins_turn_the_same_coins_into_the_same_bits(
    threshold: int, fixed: FixedCoins, monkeypatch: pytest.MonkeyPatch
) -> None:
    hot = np.random.default_rng(1).integers(-1, 100, 3000)
    compiled = perturb_unary(hot, 100, 1 << 31, threshold, fixed(4))
    for name in ("_look_up", "_place"):
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
