"""Values of several coordinates: everybody reports one of them, or the product of two."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from keyveil.core.dimensions import joint_key, product_keys
from keyveil.core.errors import KeyveilError, ProtocolError
from keyveil.core.schema import GRID, Schema
from keyveil.core.tally import Tally
from keyveil.frames.population import Population
from keyveil.lab import datasets
from keyveil.lab.coins import SeededCoins
from keyveil.protocols.base import Finished, Protocol, collected, most_spent
from keyveil.protocols.coordinates import Coordinates
from tests.mechanisms.keyvalue.exact import expected_counts

SNACKS = Schema(keys=["burger", "fries", "pepsi"])
RATED = Coordinates(SNACKS, Fraction(1), names=("rating", "price"), ranges=((1, 5), (0, 20)))


def answered(protocol: Protocol, views: list[Population], n: int) -> list[Finished]:
    """Everybody answers the round of their part, with the view of their record that it is about."""
    words = SeededCoins(5).words(n)
    finished: list[Finished] = []
    while (current := protocol.next_round(finished)) is not None:
        mine = current.part.members(words)
        people = views[len(finished)].records(current.mechanism.schema)
        reports = current.mechanism.perturb_many(people.those(mine), SeededCoins(6, len(finished)))
        finished.append(collected(current, reports))
    return finished


def test_keys_of_several_dimensions_are_one_domain() -> None:
    keys = product_keys(["berlin", "rome"], ["fries", "pepsi"])
    assert keys == ["berlin/fries", "berlin/pepsi", "rome/fries", "rome/pepsi"]
    assert Schema(keys=keys).index(joint_key("rome", "fries")) == 2
    with pytest.raises(KeyveilError):
        joint_key("a/b", "c")


def test_everybody_reports_one_coordinate_and_pays_once() -> None:
    n = 60_000
    protocol = Coordinates(SNACKS, Fraction(2), mechanism="kvue", names=("rating", "price"))
    rating, price = [0.5, -0.2, 0.1], [-0.4, 0.3, 0.0]
    views = [datasets.independent(n, [0.6, 0.4, 0.3], means, 3, SNACKS.keys) for means in (rating, price)]
    finished = answered(protocol, views, n)
    assert most_spent([one.round for one in finished]) == 2
    answers = protocol.answers(finished)
    for name, means in (("rating", rating), ("price", price)):
        assert np.abs((answers[name].mean.values - means) / answers[name].mean.se).max() < 5.5
    together = protocol.estimate(finished)
    assert np.abs((together.frequency.values - views[0].truth(SNACKS).frequency) / together.frequency.se).max() < 5.5
    assert together.frequency.se.max() < min(one.frequency.se.max() for one in answers.values())
    with pytest.raises(KeyveilError):
        _ = together.mean["fries"]


def test_a_device_shows_the_coordinate_of_its_round() -> None:
    record = {"fries": (4, 3.5), "pepsi": (2, 1.9)}
    assert RATED.view_of(record, 0) == {"fries": 4, "pepsi": 2}
    assert RATED.view_of(record, 1) == {"fries": 3.5, "pepsi": 1.9}
    assert float(RATED.views["price"].high) == 20  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Coordinates(SNACKS, Fraction(1), mechanism="kvue", names=()),
        lambda: Coordinates(SNACKS, Fraction(1), mechanism="kvue", names=("a", "a")),
        lambda: Coordinates(SNACKS, Fraction(1), mechanism="kvue", names=("a",), ranges=((0, 1), (0, 1))),
        lambda: Coordinates(Schema(keys=2, levels=[1, 2]), Fraction(1), names=("a",), ranges=((0, 9),)),
        lambda: Coordinates(SNACKS, Fraction(1), names=("a", "b"), products=(("a", "c"),)),
        lambda: Coordinates(SNACKS, Fraction(1), names=("a", "b"), products=(("a", "b"), ("b", "a"))),
        lambda: Coordinates(SNACKS, Fraction(1), names=("a", "b", "a*b"), products=(("a", "b"),)),
    ],
)
def test_coordinates_that_make_no_sense_are_refused(make: object) -> None:
    with pytest.raises(KeyveilError):
        make()  # type: ignore[operator]


# -- what a device makes of a record --------------------------------------------------------------------------------


@pytest.mark.parametrize("vector", [np.array([4, 3.5]), [4, 3.5], (Decimal(4), Fraction(7, 2))], ids=str)
def test_anything_with_numbers_in_a_row_is_a_vector(vector: Any) -> None:
    assert [RATED.view_of({"fries": vector}, view) for view in (0, 1)] == [{"fries": 4}, {"fries": 3.5}]


def test_a_pair_counts_in_all_views_or_in_none() -> None:
    record = {"fries": (4, math.nan), "burger": (math.inf, 3), "pepsi": (99, -99), "tea": (1, 1)}
    assert [RATED.view_of(record, view) for view in (0, 1)] == [{"pepsi": 99}, {"pepsi": -99}]
    current = RATED.next_round([])
    assert current is not None and current.mechanism.read(RATED.view_of(record, 0)) == [(2, GRID)]
    with_other = Coordinates(Schema(SNACKS.keys, other="rest"), Fraction(1), names=("x", "y"), ranges=((0, 1), (0, 2)))
    assert with_other.view_of({"tea": (1, 2), "cake": (0, 1), "soup": (1, math.nan)}, 1) == {"rest": 1}


# -- products of coordinates ----------------------------------------------------------------------------------------


def product_of(mechanism: str = "kvue", **options: Any) -> Coordinates:
    products, ranges = (("rating", "price"), ("price", "price")), ((1, 5), (0, 20))
    return Coordinates(
        SNACKS, Fraction(2), mechanism, options, names=("rating", "price"), ranges=ranges, products=products
    )


def test_a_product_is_taken_on_the_scale_from_minus_one_to_one() -> None:
    protocol = product_of()
    assert list(protocol.views) == ["rating", "price", "rating*price", "price*price"]
    record = {"burger": (5, 0), "fries": (2, 15), "pepsi": (9, 99)}
    assert protocol.view_of(record, 2) == {"burger": -1, "fries": -0.25, "pepsi": 1}
    assert protocol.view_of(record, 3) == {"burger": 1, "fries": 0.25, "pepsi": 1}


@pytest.mark.parametrize(
    ("mechanism", "options"),
    [("kvue", {}), ("privkv", {}), ("ssr", {"max_pairs": 2}), ("pckv-ue", {"max_pairs": 2}), ("moments", {})],
)
def test_the_mean_product_is_unbiased(mechanism: str, options: dict[str, Any]) -> None:
    """At the exact expectation of the reports of two kinds of people; products of means would be 0 and -1/4."""
    protocol, each = product_of(mechanism, **options), 10**12
    crowd = [{"burger": (5, 20), "fries": (2, 15)}, {"burger": (1, 0)}]
    finished = []
    for view, current in enumerate(protocol.longest()):
        shown = [current.mechanism.read(protocol.view_of(record, view)) for record in crowd]
        counts = sum(expected_counts(current.mechanism, pairs) * each for pairs in shown)
        whole = np.vectorize(round, otypes=[np.int64])(counts)
        finished.append(Finished(current, Tally(current.mechanism.fingerprint, 2 * each, whole)))
    together, squares = protocol.product(finished, "rating", "price"), protocol.product(finished, "price", "price")
    assert together.values[:2] == pytest.approx([1, -0.25], abs=1e-6)
    assert protocol.product(finished, "price", "rating")["fries"] == together["fries"]
    assert squares.values[:2] == pytest.approx([1, 0.25], abs=1e-6)
    assert protocol.answers(finished)["rating"].mean.values[:2] == pytest.approx([0, -0.5], abs=1e-6)
    assert protocol.estimate(finished).frequency.values == pytest.approx([1, 0.5, 0], abs=1e-6)


def test_the_mean_product_has_the_error_that_it_states() -> None:
    """300 samples of people who hold three keys often, of signs that agree in 80 %: f·E[v·w] = 0.7 · 0.6.

    Standardised errors have mean 0 and variance 1 within bounds of a false-alarm rate below 1e-6; the intervals of the
    means are held to 900 draws of a coverage of 95 %, which miss 91 % or 98.5 % as rarely.
    """
    protocol, n, scores, inside = product_of(), 4000, [], []
    rating, price, both, _ = protocol.longest()
    silent = [Finished(one, one.mechanism.tally([])) for one in (rating, price)]
    for run in range(300):
        draw = np.random.default_rng(run)
        users, keys = np.nonzero(draw.random((n, 3)) < 0.7)
        products = np.where(draw.random(len(keys)) < 0.8, 1, -1)
        people = Population.from_columns(users, np.array(SNACKS.keys)[keys], products, people=n)
        reports = both.mechanism.perturb_many(people.records(both.mechanism.schema), SeededCoins(7, run))
        finished = [*silent, collected(both, reports)]
        estimates = protocol.answers(finished, population=True)["rating*price"]
        assert estimates.product is not None and estimates.product_se is not None
        scores.append((estimates.product - 0.7 * 0.6) / estimates.product_se)
        column = protocol.product(finished, "rating", "price", population=True)
        inside.append((column.low <= 0.6) & (column.high >= 0.6))
    z = np.array(scores)
    assert np.abs(z.mean(axis=0) * math.sqrt(len(z))).max() < 5.5
    assert abs((z**2).mean() - 1) < 5.5 * math.sqrt(2 / z.size)
    assert 0.91 < np.mean(inside) < 0.985


def test_a_product_that_no_round_was_about_is_not_known() -> None:
    protocol = product_of()
    current = protocol.next_round([])
    assert current is not None
    with pytest.raises(ProtocolError) as refused:
        protocol.product([collected(current, [])], "rating", "price")
    assert refused.value.code == "protocol/nothing"
