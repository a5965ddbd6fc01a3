"""What is assumed of people whom nobody knows, and what a sample says of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import keyveil as kv
from keyveil.core.errors import PlanError
from keyveil.core.schema import Schema
from keyveil.frames.population import Population
from keyveil.planning.people import expected_shares, independent_sizes, invented, sampled


@pytest.mark.parametrize(("keys", "pairs"), [(10, 8.5), (100, 5), (1_000, 3.5), (7, 7), (1, 0.3)])
def test_invented_people_hold_as_many_pairs_as_was_said(keys: int, pairs: float) -> None:
    people = invented(1_000, keys, pairs)
    assert people.pairs == pytest.approx(pairs)
    assert people.law.mean == pytest.approx(pairs, abs=0.01)
    assert 0 <= people.frequency.min() <= people.frequency.max() <= 1


def test_sizes_of_independent_keys_are_a_convolution() -> None:
    shares = np.array([0.5, 0.2, 0.9, 1.0, 0.0])
    law = np.array([1.0])
    for share in shares:
        law = np.convolve(law, [1 - share, share])
    found = independent_sizes(shares).by_size
    assert found == pytest.approx(law[: len(found)], abs=1e-4)


def test_a_sample_says_what_a_cap_leaves_of_every_key() -> None:
    """Whoever holds the third key holds three: with a cap of one it is kept by a third of them."""
    people = [{"a": 1.0}] * 4 + [{"a": 0.0, "b": 0.0, "c": 1.0}] * 2
    told = sampled(Population.from_records(people), Schema(keys=["a", "b", "c"], low=0, high=1))
    kept = told.kept(1)
    assert kept.share == pytest.approx([(4 + 2 / 3) / 6, 1 / 3, 1 / 3])
    assert kept.mean[0] == pytest.approx((4 - 2 / 3) / (4 + 2 / 3))
    assert told.cut(2) == pytest.approx([0, 2 / 3, 1 / 3], abs=1e-4)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"n": 0}, "whole number of people"),
        ({"keys": 2.5}, "whole number of keys"),
        ({"pairs": 11}, "at most 10 pairs"),
        ({"pairs": None}, "how many pairs"),
        ({"sizes": "7"}, "3 pairs by pairs, and 7 by the law"),
        ({"frequency": [2.0] * 10, "pairs": None}, "at most 10 pairs"),
        ({"frequency": [0.3] * 9}, "3 pairs by pairs"),
        ({"mean": [0.0] * 9}, "10 numbers from -1 to 1"),
        ({"typical": 2}, "typical value"),
        ({"typical": "much"}, "number for a typical value"),
    ],
)
def test_people_who_make_no_sense_are_refused(given: dict[str, object], said: str) -> None:
    with pytest.raises(PlanError, match=said):
        invented(**{"n": 100, "keys": 10, "pairs": 3, **given})  # type: ignore[arg-type]


def test_a_sample_of_other_keys_is_refused() -> None:
    with pytest.raises(PlanError, match="does not name"):
        sampled(Population.from_records([{"z": 1.0}]), Schema(keys=["a", "b"], low=0, high=1))


@pytest.mark.parametrize("given", ["fries:0.4, pepsi:0.1", {"pepsi": 0.1, "fries": "2/5"}, "0.4,0.1", [0.4, 0.1]])
def test_expected_shares_are_read_by_key(given: Any) -> None:
    assert expected_shares(given, ["fries", "pepsi"]) == pytest.approx([0.4, 0.1])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("fries:0.4", "'pepsi' is missing"),
        ("fries:0.4,cola:0.1", "no key 'cola'"),
        ("fries:0.4,pepsi:0.1,fries:0.2", "named twice"),
        ("fries:0.4,pepsi:much", "takes a number"),
    ],
)
def test_shares_of_other_keys_are_one_sentence(given: str, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        expected_shares(given, ["fries", "pepsi"])


def test_keys_are_as_many_as_their_shares() -> None:
    found = kv.plan(users=5_000, frequency="0.5,0.3,0.2", mechanisms=["kvue"])
    assert found.people.frequency.tolist() == [0.5, 0.3, 0.2]


@pytest.mark.parametrize("few", [0.05, 0.5])
def test_sizes_of_rare_and_of_frequent_keys_follow_the_same_law(few: float) -> None:
    """Rare keys go through a series: the law of the sum of 60 keys of one frequency is binomial."""
    law = independent_sizes(np.full(60, few)).by_size
    exact = [math.comb(60, k) * few**k * (1 - few) ** (60 - k) for k in range(len(law))]
    assert law == pytest.approx(exact, abs=2e-4)
