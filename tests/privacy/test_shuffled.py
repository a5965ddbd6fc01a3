"""What shuffling would add: against exact computations at small sizes, and never below them."""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction
from itertools import product
from math import comb
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import keyveil as kv
from keyveil.core.errors import PrivacyError
from keyveil.mechanisms.base import Mechanism
from keyveil.privacy import shuffled as room
from keyveil.privacy.enumerate import law
from keyveil.privacy.shuffled import (
    _above,
    _binomial,
    central_epsilon,
    divergence,
    enumerated_variation,
    largest_variation,
    shuffled,
)


def game(ratio: Fraction, variation: Fraction, people: int, factor: Fraction) -> Fraction:
    """The hockey-stick divergence of the game of arXiv 2304.05007, Theorem 4.7, in whole numbers."""
    alpha = variation / (ratio - 1)
    likely: defaultdict[tuple[int, int], Fraction] = defaultdict(Fraction)
    unlikely: defaultdict[tuple[int, int], Fraction] = defaultdict(Fraction)
    for c in range(people):
        of_c = comb(people - 1, c) * (2 * alpha) ** c * (1 - 2 * alpha) ** (people - 1 - c)
        for a in range(c + 1):
            mass = of_c * Fraction(comb(c, a), 2**c)
            rest = 1 - alpha - ratio * alpha
            for one, other, mine, theirs in (
                (1, 0, ratio * alpha, alpha),
                (0, 1, alpha, ratio * alpha),
                (0, 0, rest, rest),
            ):
                place = (a + one, c - a + other)
                likely[place] += mass * mine
                unlikely[place] += mass * theirs
    return sum((max(likely[at] - factor * unlikely[at], Fraction(0)) for at in likely), Fraction(0))


def shuffled_truth(mechanism: Mechanism, people: int, epsilon: float) -> float:
    """The largest δ over the records of everybody, from all multisets of (public word, payload)."""
    laws = []
    for pairs in mechanism.every_record():
        one: dict[tuple[int, object], float] = {}
        for word, share in mechanism.word_shares():
            for payload, chance in law(lambda coins, p=list(pairs), w=word: mechanism.respond(p, w, coins)).items():  # type: ignore[misc]
                one[word, payload] = float(share * chance)
        laws.append(one)

    def multisets(others: tuple[int, ...], first: int) -> defaultdict[tuple[object, ...], float]:
        found: defaultdict[tuple[object, ...], float] = defaultdict(float)
        for drawn in product(*(laws[who].items() for who in (first, *others))):
            found[tuple(sorted((report for report, _ in drawn), key=repr))] += math.prod(chance for _, chance in drawn)
        return found

    worst, factor = 0.0, math.exp(epsilon)
    for others in product(range(len(laws)), repeat=people - 1):
        if list(others) != sorted(others):
            continue
        seen = [multisets(others, first) for first in range(len(laws))]
        for likely, unlikely in product(seen, seen):
            worst = max(worst, sum(max(likely[at] - factor * unlikely[at], 0.0) for at in list(likely)))
    return worst


@pytest.mark.parametrize("people", [1, 2, 3, 7, 20])
@pytest.mark.parametrize("epsilon", [0.0, 0.2, 0.7, 1.5])
def test_the_divergence_is_that_of_the_game_and_never_below(people: int, epsilon: float) -> None:
    ratio, variation = Fraction(7, 2), Fraction(2, 5)
    exact = float(game(ratio, variation, people, Fraction(math.exp(epsilon))))
    found = divergence(float(ratio), float(variation), people, epsilon)
    assert exact <= found <= exact * (1 + 1e-5) + 1e-12


@pytest.mark.parametrize("people", [1, 5, 12])
@pytest.mark.parametrize("local", [20, 28, 32])
def test_floats_do_not_hide_what_little_a_large_epsilon_leaves(people: int, local: int) -> None:
    """There P and e^ε·Q are large numbers whose difference is small; the threshold in between must not be missed."""
    ratio = Fraction(math.exp(local))
    for variation in ((ratio - 1) / (ratio + 1), (ratio - 1) / (ratio + 2), Fraction(1, 3)):
        for less in (1e-6, 1e-4, 1e-3, 0.1):
            exact = float(game(ratio, variation, people, Fraction(math.exp(local - less))))
            assert divergence(float(ratio), float(variation), people, local - less) >= exact * (1 - 1e-12)


def test_a_large_epsilon_is_hardly_smaller_in_a_small_crowd() -> None:
    """With e^30 a thousand others hide nothing: δ is about 30 less the central epsilon."""
    ratio = math.exp(30)
    assert central_epsilon(ratio, (ratio - 1) / (ratio + 2), 1_000, 1e-6) == 30.0


@pytest.mark.parametrize("trials", [1, 30, 10_000, 100_000_000])
def test_binomial_probabilities_keep_their_digits(trials: int) -> None:
    middle = int(0.3 * trials)
    count = np.unique(np.clip(middle + np.linspace(-6, 6, 41).round() * math.ceil(0.4 * trials**0.5), 0, trials))
    assert _binomial(count, trials, 0.3) == pytest.approx(binom.pmf(count, trials, 0.3), rel=1e-8)
    least = np.unique(np.clip(np.concatenate((count, count + trials // 5, [-1, trials // 2])), -1, trials))
    heads = _above(least, np.full(len(least), float(trials)))
    assert heads == pytest.approx(binom.sf(least, trials, 0.5), rel=1e-8)


@pytest.mark.parametrize(("name", "keys"), [("grr", 2), ("grr", 3), ("kvue", 1), ("ss", 3), ("duchi", 1)])
def test_no_crowd_is_told_apart_better_than_certified(name: str, keys: int) -> None:
    mechanism = kv.mechanism(name, kv.Schema(keys=keys), epsilon=1)
    assert isinstance(mechanism, Mechanism)
    variation, method = largest_variation(mechanism)
    assert method in ("enumeration", "closed-form")
    for epsilon in (0.1, 0.5):
        truth = shuffled_truth(mechanism, 3, epsilon)
        assert truth <= divergence(float(mechanism.ratio), float(variation), 3, epsilon)


def test_half_the_variation_would_promise_too_much() -> None:
    """The comparison above can fail: reports with a total variation of v are not hidden as if it were v/2."""
    mechanism = kv.mechanism("grr", kv.Schema(keys=2), epsilon=1)
    variation = float(largest_variation(mechanism)[0])
    assert divergence(float(mechanism.ratio), variation / 2, 3, 0.1) < shuffled_truth(mechanism, 3, 0.1)


@pytest.mark.parametrize("name", ["grr", "oue", "ss", "kvue", "privkv", "wsr", "ssr", "topsel", "apart", "square-wave"])
def test_variations_in_closed_form_are_those_of_all_outcomes(name: str) -> None:
    options: dict[str, dict[str, Any]] = {
        "wsr": {"max_pairs": 3},
        "ssr": {"max_pairs": 3},
        "topsel": {"set_sizes": "3"},
        "apart": {"max_pairs": 3},
    }
    mechanism = kv.mechanism(name, kv.Schema(keys=10), epsilon=1, **options.get(name, {}))
    variation, method = largest_variation(mechanism)
    small = mechanism.reduced()
    assert method == "closed-form"
    assert enumerated_variation(small) == pytest.approx(float(small.variation), abs=1e-9)
    assert variation < (mechanism.ratio - 1) / (mechanism.ratio + 1)


@pytest.mark.parametrize("name", ["olh", "hr", "moments", "kv-sw", "pckv-ue", "wheel", "split"])
def test_elsewhere_an_upper_bound_is_called_one(name: str) -> None:
    options = {"max_pairs": 3} if name in ("kv-sw", "pckv-ue", "wheel", "split") else {}
    mechanism = kv.mechanism(name, kv.Schema(keys=10), epsilon=1, **options)
    found = shuffled(mechanism, 10_000, 1e-6)
    assert found.method == "upper bound"
    assert "at most" in found.sentence()
    assert enumerated_variation(mechanism.reduced()) <= float(mechanism.reduced().variation) + 1e-9


def test_a_variation_that_is_claimed_too_small_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = kv.mechanism("kvue", kv.Schema(keys=5), epsilon=1)
    monkeypatch.setattr(type(mechanism), "variation", property(lambda self: Fraction(1, 10)))
    with pytest.raises(PrivacyError, match="Reports of kvue differ by"):
        largest_variation(mechanism)


def test_the_central_epsilon_falls_with_people_and_never_exceeds_the_local_one() -> None:
    found = [central_epsilon(math.e, 0.3, people, 1e-6) for people in (1, 100, 10_000, 1_000_000)]
    assert found == sorted(found, reverse=True)
    assert found[0] == 1.0
    assert 0 < found[-1] < 0.01


def test_it_is_rounded_up_to_what_holds() -> None:
    found = central_epsilon(math.e, 0.3, 1_000, 1e-6)
    assert divergence(math.e, 0.3, 1_000, found) <= 1e-6
    assert divergence(math.e, 0.3, 1_000, found - 10**-room.DIGITS) > 1e-6


@pytest.mark.parametrize(
    ("people", "delta", "told"),
    [
        (0, 1e-6, "At least one report is shuffled, not 0."),
        (10**9, 1e-6, "At most 100,000,000 shuffled reports are certified."),
        (100, 0.0, "Delta lies between 1e-100 and 1, not at 0."),
        (100, 1e-320, "Delta lies between 1e-100 and 1, not at 9.99989e-321."),
        (100, 1.0, "Delta lies between 1e-100 and 1, not at 1."),
        (100, math.nan, "Delta lies between 1e-100 and 1, not at nan."),
    ],
)
def test_impossible_wishes_are_refused(people: int, delta: float, told: str) -> None:
    with pytest.raises(PrivacyError) as refused:
        shuffled(kv.mechanism("kvue", kv.Schema(keys=5), epsilon=1), people, delta)
    assert refused.value.sentence == told
