from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

from keyveil.core.epsilon import levels
from keyveil.core.errors import MechanismError
from keyveil.core.schema import GRID
from keyveil.core.tally import Tally
from keyveil.lab.coins import SeededCoins
from keyveil.mechanisms.keyvalue.wsr import MOST_WEIGHT
from keyveil.privacy.enumerate import law
from keyveil.testing.people import copies
from tests.mechanisms.keyvalue.sets import PLANNER, make, support_shares, variances

FIVE = [(key, GRID) for key in range(5)]


def test_constants_of_twenty_keys() -> None:
    mechanism = make("wsr", 20, max_pairs=5)
    assert mechanism.total / levels(Fraction(1))[1] == pytest.approx(53.5914091423, abs=1e-8)
    assert float(mechanism.odds[0][1].other) == pytest.approx(0.0186597071, abs=1e-9)


@pytest.mark.parametrize(("pairs", "share"), [([], 0.2536117143), (FIVE, 0.0932985357)])
def test_the_null_symbol_takes_what_is_left(pairs: Any, share: float) -> None:
    mechanism = make("wsr", 20, max_pairs=5)
    answers = law(partial(mechanism.respond, pairs, 0))
    assert float(answers[mechanism.null]) == pytest.approx(share, abs=1e-9)


@pytest.mark.parametrize("row", PLANNER)
def test_variance_of_rare_keys(row: Any) -> None:
    d, pairs, epsilon, *_, expected = row
    frequency, product = variances(make("wsr", d, epsilon, max_pairs=pairs))
    assert product == pytest.approx(expected, rel=0.005)
    assert 0.95 * product < frequency < product


@pytest.mark.parametrize("pairs", [[], [(0, GRID)], [(0, -GRID)], [(0, GRID // 3)]])
def test_one_key_is_kvue(pairs: Any) -> None:
    mine = law(partial(make("wsr", 1, max_pairs=1).respond, pairs, 0))
    kvue = law(partial(make("kvue", 1).respond, pairs, 0))
    assert [mine[symbol] for symbol in (2, 0, 1)] == [kvue[state] for state in (0, 1, 2)]  # absent, minus, plus


@pytest.mark.parametrize("weights", [(1, 1, 1), (1, 7, 1000), (30, 2, 5), (MOST_WEIGHT, MOST_WEIGHT, 1049)])
@pytest.mark.parametrize("max_pairs", [1, 2, 3])
def test_weights_spend_epsilon_exactly(weights: tuple[int, ...], max_pairs: int) -> None:
    certificate = make("wsr", 3, max_pairs=max_pairs, weights=weights).certificate()
    assert certificate.certified and certificate.exact_epsilon > 1 - 1e-6


def test_weighted_keys_are_unbiased_exactly() -> None:
    mechanism = make("wsr", 3, max_pairs=2, weights=(1, 4, 9))
    shares = mechanism.by_label(support_shares(mechanism, [(1, GRID // 2), (2, -GRID)]))
    for keys, odds in mechanism.odds:
        for key in keys:
            response, (minus, plus) = odds.of_key(2), shares[:, key]
            holds = key > 0
            value = {0: Fraction(0), 1: Fraction(1, 2), 2: Fraction(-1)}[int(key)]
            assert minus + plus == (response.holder if holds else response.stranger).support
            assert plus - minus == response.holder.signed * value


def test_a_heavier_key_is_measured_more_precisely() -> None:
    mechanism = make("wsr", 4, max_pairs=2, weights=(1, 1, 1, 10))
    counts = np.full(9, 10_000)
    estimates = mechanism.estimate(Tally(mechanism.fingerprint, 90_000, counts))
    assert estimates.frequency.se[3] < 0.5 * estimates.frequency.se[0]


def test_the_null_count_tells_the_mean_number_of_pairs() -> None:
    mechanism = make("wsr", 20, max_pairs=5)
    n, silent = 10**12, law(partial(mechanism.respond, FIVE[:3], 0))[mechanism.null]
    counts = np.zeros(41, dtype=np.int64)
    counts[mechanism.null] = round(silent * n)
    assert mechanism.weight_held(Tally(mechanism.fingerprint, n, counts)) == pytest.approx(3, abs=1e-9)


def test_cells_instead_of_signs() -> None:
    mechanism = make("wsr", 2, "3", max_pairs=2, bins=4, rounding="cell")
    people = copies([(0, -GRID), (1, GRID // 4)], 40_000, 2)
    tally = mechanism.tally(mechanism.perturb_many(people, SeededCoins(3)))
    histogram = mechanism.histogram(tally)
    expected = np.array([[1, 0, 0, 0], [0, 0, 1, 0]])
    assert np.abs((histogram.mass - expected) / histogram.se).max() < 6  # 8 cells: false alarm below 1e-7
    with pytest.raises(MechanismError, match="does not tell means"):
        mechanism.estimate(tally).mean["0"]


@pytest.mark.parametrize(
    "options",
    [
        {"max_pairs": 0},
        {"max_pairs": 4},
        {"max_pairs": 1, "bins": 1},
        {"max_pairs": 1, "weights": "1,2"},
        {"max_pairs": 1, "weights": "1,2,x"},
        {"max_pairs": 1, "weights": (1, 1, 0)},
        {"max_pairs": 1, "weights": (1, 1, 1001)},
        {"max_pairs": 1, "weights": (MOST_WEIGHT + 1,) * 3},
        {"max_pairs": 1, "weights": f"{1 << 62},{1 << 62},{1 << 62}"},
    ],
)
def test_options_are_refused(options: Any) -> None:
    with pytest.raises(MechanismError):
        make("wsr", 3, **options)


def test_weights_may_come_as_text() -> None:
    assert make("wsr", 3, max_pairs=1, weights="1, 2,3") == make("wsr", 3, max_pairs=1, weights=(1, 2, 3))
