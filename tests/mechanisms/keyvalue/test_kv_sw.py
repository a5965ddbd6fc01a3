from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

import keyveil as kv
from keyveil.core.coins import Coins
from keyveil.core.epsilon import RESOLUTION
from keyveil.core.errors import KeyveilError
from keyveil.core.report import Payload
from keyveil.core.schema import GRID, Schema
from keyveil.core.tally import Tally
from keyveil.lab.coins import SeededCoins
from keyveil.mechanisms.base import Pairs
from keyveil.mechanisms.keyvalue.kv_sw import KVSW
from keyveil.mechanisms.numeric.square_wave import bandwidth
from keyveil.privacy.certify import enumerate_worst
from keyveil.testing.people import copies
from tests.mechanisms.keyvalue.sampling import expected_counts, make, spent

Floats = NDArray[np.float64]


def key_epsilon(mechanism: KVSW) -> float:
    """What the key bits alone would spend."""
    return math.log(RESOLUTION / mechanism.fake_threshold - 1)


@pytest.mark.parametrize(("split", "expected"), [("paper", 0.7396049490), ("tight", 0.4586751454)])
def test_what_is_left_for_the_key(split: str, expected: float) -> None:
    """The published number is that of infinitely many cells; a thousand come close from below or above."""
    assert key_epsilon(make("kv-sw", 4, 2, cells=4096, split=split)) == pytest.approx(expected, abs=2e-3)
    value = 0.5 if split == "paper" else 1.0
    assert 1 - math.log(math.expm1(value) / value) == pytest.approx(expected, abs=1e-9)


def test_more_cells_come_closer_to_the_continuous_wave() -> None:
    gaps = [abs(key_epsilon(make("kv-sw", 4, 2, cells=cells)) - 0.4586751454) for cells in (16, 4096)]
    assert gaps[1] < gaps[0] / 20


@pytest.mark.parametrize("split", ["tight", "paper"])
@pytest.mark.parametrize("epsilon", ["0.5", "1", "3"])
def test_erratum_D1_epsilon_is_the_larger_of_two_terms(split: str, epsilon: str) -> None:  # noqa: N802
    """ε = max{ε₂, ε₁ + ln(A(D + 2h)/M)}, exactly; the first printed term, 2b ≤ 1, never is the largest."""
    mechanism = make("kv-sw", 2, 1, epsilon, cells=3, split=split)
    channel = mechanism.window.channel
    value = math.log(channel.high / channel.low)
    both = key_epsilon(mechanism) + math.log(float(channel.hit * channel.outputs))
    assert spent(mechanism) == pytest.approx(max(value, both), abs=1e-12)
    assert math.log(mechanism.ratio) == pytest.approx(max(value, both), abs=1e-12)
    assert float(epsilon) - 1e-6 < max(value, both) <= float(epsilon)
    assert 2 * bandwidth(mechanism.epsilon) <= 1 < channel.hit * channel.outputs


def test_erratum_D2_the_condition_is_on_the_exponential() -> None:  # noqa: N802
    """Solving for a term equal to ε instead of e^ε would leave less than nothing for the key."""
    literal = math.log(1.0 * 0.5 / math.expm1(0.5))
    assert literal == pytest.approx(-0.26, abs=0.005)
    assert key_epsilon(make("kv-sw", 2, 1, split="paper")) > 0.7


def test_erratum_D3_the_frequency_needs_every_bracket() -> None:  # noqa: N802
    """f = ℓ(n_k/n - c)/(a - c) on expected counts; printed n_k/(n - c), without brackets, is far off."""
    mechanism, share, n = make("kv-sw", 2, 2), 0.3, 10**9
    fake = float(mechanism.fake)
    speaking = fake + (0.5 - fake) * share / 2
    counts = np.rint(np.full(mechanism.tally_shape, n * speaking / mechanism.window.outputs)).astype(np.int64)
    estimates = mechanism.estimate(Tally(mechanism.fingerprint, n, counts))
    assert estimates.frequency.values == pytest.approx([share, share], abs=1e-6)
    assert abs(2 * n * speaking / (n - fake) / (0.5 - fake) - share) > 1


@dataclass(frozen=True)
class PointMass(KVSW):
    """The dummy is sent, and the value of a sampled one is exactly the middle."""

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        sampled = self.encoder.draw(pairs, coins)
        real = super().respond([] if sampled is None else [sampled] * self.max_pairs, word, coins)
        assert isinstance(real, tuple)
        spoken = coins.chance(RESOLUTION // 2 if sampled is None else self.fake_threshold, RESOLUTION)
        cell = self.window.outputs // 2 if sampled is None else coins.below(self.window.outputs)
        return (*real, self.schema.d * self.window.outputs + cell) if spoken else real


def test_erratum_D9_a_dummy_with_an_exact_value_leaks_everything() -> None:  # noqa: N802
    mutant = PointMass(Schema(keys=1), Fraction(1), max_pairs=1, cells=3)
    assert enumerate_worst(mutant).ratio == math.inf
    assert spent(make("kv-sw", 1, 1, cells=3)) <= 1


@pytest.mark.parametrize("cells", [2, 3, 4])
@pytest.mark.parametrize("value", [-GRID, 0, GRID // 3, GRID])
def test_the_linear_mean_is_unbiased_in_rationals(cells: int, value: int) -> None:
    """Whatever the value, on a cell or between two: f = 1 and f·m = v, and a stranger to the key has neither."""
    mechanism = make("kv-sw", 2, 2, cells=cells)
    counts = expected_counts(mechanism, [(1, value)])
    response, window = mechanism.response, mechanism.window
    for key in range(2):
        column = [row[key] for row in counts]
        speaking = sum(column)
        signed = sum((2 * place - window.outputs + 1) * share for place, share in enumerate(column))
        gain = response.holder.support - response.stranger.support
        assert (speaking - response.stranger.support) / gain == (key == 1)
        assert signed / response.holder.signed == (Fraction(value, GRID) if key == 1 else 0)


@pytest.mark.parametrize("pairs", [[], [(0, GRID)], [(0, -GRID), (1, 0)]])
def test_every_key_goes_through_the_factor(pairs: Sequence[tuple[int, int]]) -> None:
    mechanism = make("kv-sw", 2, 2, cells=3)
    states = {key: 1 + (value + GRID) // GRID for key, value in pairs}
    factor = mechanism.factor
    for place, row in enumerate(expected_counts(mechanism, pairs)):
        for key in range(2):
            rows = (states.get(key, 0), 0)
            assert row[key] == sum(factor.probability(state, 1 + place) for state in rows) / 2
    counts = mechanism.hot_counts(copies(pairs, 500, 2), SeededCoins(1))
    assert counts.shape == (4, 2) and counts.sum(axis=0).tolist() == [500, 500]
    assert all(counts[state, key] in (0, 500) or state in (0, states.get(key)) for state in range(4) for key in (0, 1))


def two_peaks(cells: int) -> Floats:
    at = np.linspace(0, 1, cells)
    shape: Floats = np.exp(-(((at - 0.25) / 0.06) ** 2)) + 0.6 * np.exp(-(((at - 0.75) / 0.08) ** 2))
    return shape / shape.sum()


def noiseless(mechanism: KVSW, frequency: float, shares: Floats, n: float = 1e9) -> Tally:
    """The tally that n people are expected to give when every key has this frequency and these values."""
    sampled, fake = frequency / mechanism.max_pairs, float(mechanism.fake)
    seen = sampled / 2 * (mechanism.window.matrix() @ shares) + (1 - sampled) * fake / mechanism.window.outputs
    counts = np.rint(n * np.tile(seen[:, None], mechanism.schema.d)).astype(np.int64)
    return Tally(mechanism.fingerprint, int(n), counts)


def distance(shares: Floats, others: Floats) -> float:
    """Wasserstein distance of two distributions on [0, 1]."""
    return float(np.abs(np.cumsum(shares - others)).sum() / (len(shares) - 1))


def test_fakes_are_a_known_component_of_the_distribution() -> None:
    """On expected counts EM finds the values behind a tenth of true ones; taken as all true they look flat."""
    mechanism, truth = make("kv-sw", 2, 2), two_peaks(64)
    tally = noiseless(mechanism, 0.4, truth)
    found = mechanism.distribution(tally)
    assert found.shape == (2, 64)
    assert distance(found[0], truth) < 0.003
    assert distance(np.full(64, 1 / 64), truth) > 0.08
    assert np.array_equal(mechanism.distribution(tally, "1"), found[1])
    histogram = mechanism.histogram(tally)
    assert histogram.mass.sum(axis=1) == pytest.approx([0.4, 0.4], abs=1e-6)
    assert histogram.law[0] @ (histogram.edges[1:] + histogram.edges[:-1]) / 2 == pytest.approx(
        float(truth @ np.linspace(-1, 1, 64)), abs=0.01
    )


def test_errors_of_means_follow_the_values_that_people_have() -> None:
    """Everybody holds the key at an end of the range, or in the middle: standard errors are the true ones.

    At ε = 5 and one pair a person what is known of the values matters; 400 repeats put the ratio of variances
    within 0.36 of one except with probability below 1e-6.
    """
    for value in (GRID, 0):
        mechanism, records = make("kv-sw", 1, 1, "5"), copies([(0, value)], 2000, 1)
        estimates = [
            mechanism.estimate(mechanism.tally(mechanism.perturb_many(records, SeededCoins(9, repeat))))
            for repeat in range(400)
        ]
        errors = np.array([one.product[0] - value / GRID for one in estimates])
        stated = np.array([one.product_se[0] for one in estimates])
        assert 0.64 < np.mean(errors**2) / np.mean(stated**2) < 1.36


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"cells": 1}, "mechanism/cells"),
        ({"cells": 5000}, "mechanism/cells"),
        ({"split": "half"}, "mechanism/option"),
        ({"max_pairs": 9}, "mechanism/option"),
    ],
)
def test_senseless_options_are_refused(options: dict[str, object], code: str) -> None:
    with pytest.raises(KeyveilError) as refused:
        kv.mechanism("kv-sw", Schema(keys=4), 1, **{"max_pairs": 2, **options})
    assert refused.value.code == code


@pytest.mark.parametrize(("key", "method", "code"), [("x", "em", "schema/unknown-key"), (0, "m", "estimate/method")])
def test_senseless_questions_are_refused(key: str | int, method: str, code: str) -> None:
    mechanism = make("kv-sw", 2, 2, cells=8)
    with pytest.raises(KeyveilError) as refused:
        mechanism.distribution(Tally.empty(mechanism.fingerprint, mechanism.tally_shape), key, method)
    assert refused.value.code == code


def test_the_length_is_close_to_the_entropy() -> None:
    mechanism = make("kv-sw", 1000, 5)
    fake, cells = float(mechanism.fake), mechanism.window.outputs
    entropy = 1000 * (fake * math.log2(cells / fake) - (1 - fake) * math.log2(1 - fake))
    assert entropy < mechanism.bits_per_report < 1.05 * entropy
