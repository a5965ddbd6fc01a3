from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyveil.core.errors import MechanismError
from keyveil.core.records import Records
from keyveil.core.schema import GRID, Schema
from keyveil.core.tally import Tally
from keyveil.lab import datasets
from keyveil.lab.coins import SeededCoins
from keyveil.mechanisms.joint.coefficients import NONE, Coefficients, Family, families
from keyveil.mechanisms.joint.statistics import share, total
from keyveil.mechanisms.keyvalue.moments import Moments
from keyveil.mechanisms.registry import create
from keyveil.privacy.enumerate import law
from tests.mechanisms.keyvalue.exact import spent

NOISE = ((math.e + 1) / (math.e - 1)) ** 2  # variance of one report about a moment that is 0, at ε = 1


def moments(d: int, epsilon: str = "1", **options: Any) -> Moments:
    made = create("moments", Schema(keys=d), epsilon, **options)
    assert isinstance(made, Moments)
    return made


@given(st.integers(1, 9), st.integers(1, 4), st.booleans())
def test_every_number_is_one_coefficient(d: int, order: int, values: bool) -> None:
    order = min(order, d)
    kinds = families(order, values)
    coefficients = Coefficients(d, kinds, tuple(range(1, len(kinds) + 1)))
    ids = np.arange(coefficients.count)
    valued, sets = coefficients.keys(ids)
    named = {(key, tuple(row[row != NONE])) for key, row in zip(valued.tolist(), sets, strict=True)}
    assert len(named) == coefficients.count, "two numbers for one coefficient"
    assert all(key not in row and len(set(row)) == len(row) for key, row in named)
    for key, row in named:
        asked = np.array([[*reversed(row)]], dtype=np.int64).reshape(1, -1)
        at = coefficients.ids(asked, None if key == NONE else np.array([key]))
        assert (valued[at[0]], tuple(sets[at[0]][sets[at[0]] != NONE])) == (key, row)
    assert np.array_equal(coefficients.drawn(np.array(list(coefficients.words()), dtype=np.uint64)), ids)


def test_hundreds_of_keys_need_no_table() -> None:
    coefficients = moments(1000).coefficients
    assert coefficients.count == 1000 + 499_500 + 1000 + 999_000
    ids = np.array([0, 999, 1000, 500_499, 500_500, 501_500, coefficients.count - 1])
    valued, sets = coefficients.keys(ids)
    assert valued.tolist() == [NONE, NONE, NONE, NONE, 0, 0, 999]
    assert sets.tolist() == [[0, NONE], [999, NONE], [0, 1], [998, 999], [NONE, NONE], [1, NONE], [998, NONE]]


def test_public_words_follow_the_weights() -> None:
    """Every draw of the public law once: single keys and their values √3 times as often as pairs, for four keys."""
    mechanism = moments(4)
    assert mechanism.coefficients.weights == (27, 16, 27, 16)  # isqrt(3 · 16²) = 27
    total_draws = mechanism.coefficients.total
    words = np.array([-(-(draw << 32) // total_draws) << 32 for draw in range(total_draws)], dtype=np.uint64)
    counts = Counter(mechanism.coefficients.drawn(words).tolist())
    assert [counts[at] for at in (0, 4, 10, 14)] == [27, 16, 27, 16]
    assert moments(4, law="uniform").coefficients.weights == (16,) * 4
    assert moments(4, law="3,1,2,1").coefficients.weights == (3, 1, 2, 1)
    assert moments(4, values=False).families == (Family(False, 1), Family(False, 2))


def test_the_bit_is_the_product_of_signs() -> None:
    """z is -1 for a key that is held; who lacks the key whose value is asked for tosses a fair coin."""
    mechanism = moments(3, "16")  # so large an ε practically tells the bit
    words, pairs = list(mechanism.every_word()), [(0, GRID), (1, GRID // 2)]
    valued, sets = mechanism.coefficients.keys(np.arange(mechanism.coefficients.count))
    for word, key, row in zip(words, valued.tolist(), sets.tolist(), strict=True):
        sign = math.prod(-1 if other in (0, 1) else 1 for other in row if other != NONE)
        value = {NONE: 1, 0: 1, 1: 0.5, 2: 0}[key]
        plus = law(lambda coins, word=word: mechanism.respond(pairs, word, coins))[1]  # type: ignore[misc]
        assert float(2 * plus - 1) == pytest.approx(sign * value, abs=1e-5)


@pytest.mark.parametrize("epsilon", ["0.5", "3"])
@pytest.mark.parametrize("options", [{}, {"order": 3}, {"values": False}])
def test_one_bit_spends_exactly_epsilon(epsilon: str, options: dict[str, Any]) -> None:
    mechanism = moments(3, epsilon, **options)
    assert spent(mechanism) == pytest.approx(float(epsilon), abs=1e-8)
    assert mechanism.bits_per_report == 1


def test_variances_of_the_specification() -> None:
    """100 keys, presences only: n·Var(P[k, j]) is 4.4·10³ with the uniform law and 2.1·10³ at the optimum."""
    for law_of, expected in (("uniform", 4433), ("optimum", 2090)):
        mechanism = moments(100, law=law_of, values=False)
        assert pair_variance(mechanism) == pytest.approx(expected, rel=0.01)
        assert pair_variance(mechanism) == pytest.approx(expected_variance(mechanism), rel=1e-3)
    collecting_values = pair_variance(moments(100)) / pair_variance(moments(100, values=False))
    assert collecting_values == pytest.approx(2.83, abs=0.01)


def pair_variance(mechanism: Moments, n: int = 10**12) -> float:
    """n·Var(P[k, j]) as the mechanism states it, for so many reports that each moment gets its share, all of them 0."""
    coefficients = mechanism.coefficients
    each = n * np.repeat(coefficients.weights, np.diff(coefficients.starts)) // (2 * coefficients.total)
    tally = Tally(mechanism.fingerprint, int(2 * each.sum()), np.stack([each, each]))
    answers = mechanism.answer_jointly(tally, np.array([[3, 7]]), [share({0: True, 1: True})], population=True)
    return float(n * answers.covariance[0, 0, 0])


def expected_variance(mechanism: Moments) -> float:
    """(1/16)·V·(two single moments and one pair), each at its share of the reports."""
    one, two = (weight / mechanism.coefficients.total for weight in mechanism.coefficients.weights)
    return NOISE / 16 * (2 / one + 1 / two)


def test_people_who_were_all_asked_are_known_but_for_the_noise() -> None:
    """One moment, so everybody is asked: its variance is 1/g² - 1 for these people and 1/g² - θ² for a sample."""
    mechanism, n = moments(1, order=1, values=False), 10**6
    tally = Tally(mechanism.fingerprint, n, np.array([[600_000], [400_000]]))
    theta = -0.2 * math.sqrt(NOISE)
    for population, expected in ((False, NOISE - 1), (True, NOISE - theta**2)):
        answers = mechanism.answer_jointly(tally, np.array([[0]]), [share({0: True})], population)
        assert answers.values[0, 0] == pytest.approx((1 - theta) / 2, rel=1e-6)
        assert n * answers.covariance[0, 0, 0] == pytest.approx(expected / 4, rel=1e-6)


def test_moments_without_values_know_no_means() -> None:
    mechanism = moments(4, values=False)
    people = datasets.independent(5000, np.full(4, 0.5), np.zeros(4), 1).records(mechanism.schema)
    tally = mechanism.tally(mechanism.perturb_many(people, SeededCoins(1)))
    estimates = mechanism.estimate(tally)
    assert 0.5 in estimates.frequency["2"]
    with pytest.raises(MechanismError, match="with values"):
        _ = estimates.mean["2"]
    with pytest.raises(MechanismError) as refused:
        mechanism.answer_jointly(tally, np.array([[0]]), [share({0: True}), total(0, {})])
    assert refused.value.code == "question/no-values"


def test_nobody_reported() -> None:
    mechanism = moments(3)
    assert mechanism.estimate(Tally.empty(mechanism.fingerprint, mechanism.tally_shape)).flag == ("insufficient",) * 3


@pytest.mark.parametrize(
    ("d", "options", "code"),
    [
        (3, {"order": 4}, "mechanism/option"),
        (3, {"order": 0}, "mechanism/option"),
        (3, {"law": "best"}, "mechanism/option"),
        (3, {"law": "1,2"}, "mechanism/option"),
        (3, {"law": "1,0,1,1"}, "mechanism/option"),
        (3, {"law": "1,1,1,4000000000"}, "mechanism/option"),
        (1000, {"order": 3}, "mechanism/too-many-keys"),
    ],
)
def test_what_it_cannot_do_is_refused(d: int, options: dict[str, Any], code: str) -> None:
    with pytest.raises(MechanismError) as refused:
        Moments(Schema(keys=d), Fraction(1), **options)
    assert refused.value.code == code


def test_few_reports_of_which_all_say_the_same_do_not_make_a_frequency_certain() -> None:
    """Of 50 keys, one of 25 people holds each; about 60 reports tell of one key. Twelve runs, seeded."""
    made, rng, inside = moments(50, "4"), np.random.default_rng(3), []
    held = rng.random((20_000, 50)) < 0.04
    offsets = np.concatenate([[0], np.cumsum(held.sum(axis=1))]).astype(np.int64)
    keys = np.nonzero(held)[1].astype(np.int32)
    people = Records(offsets, keys, np.zeros_like(keys), 50)
    for run in range(12):
        column = made.estimate(made.tally(made.perturb_many(people, SeededCoins(run)))).frequency
        inside += ((column.low <= held.mean(axis=0)) & (held.mean(axis=0) <= column.high))[column.flag <= 1].tolist()
    assert len(inside) > 400 and np.mean(inside) >= 0.93
