"""Keys with parts: one domain of several dimensions, hierarchies, bounds of coordinates."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from keyveil.core.dimensions import by_coordinate, joint_key, product_keys, some_keys
from keyveil.core.errors import KeyveilError, SchemaError
from keyveil.core.schema import GRID, Schema
from keyveil.frames.population import Population

LEAVES = ["food/fruit/apple", "food/fruit/pear", "food/bread", "drink/tea"]
SHELF = Schema(LEAVES, low=0, high=10, hierarchy=True)


def test_keys_of_several_dimensions_are_one_domain() -> None:
    keys = product_keys(["berlin", "rome"], ["fries", "pepsi"])
    assert keys == ["berlin/fries", "berlin/pepsi", "rome/fries", "rome/pepsi"]
    assert Schema(keys=keys).index(joint_key("rome", "fries")) == 2
    with pytest.raises(KeyveilError):
        joint_key("a/b", "c")


# -- hierarchies ----------------------------------------------------------------------------------------------------


def test_a_hierarchy_has_the_keys_above_its_own_each_before_those_below() -> None:
    assert SHELF.keys == ("food", "food/fruit", *LEAVES[:2], "food/bread", "drink", "drink/tea")
    assert Schema.from_document(SHELF.document()) == SHELF != Schema(SHELF.keys, low=0, high=10)
    assert Schema(SHELF.keys, low=0, high=10, hierarchy=True) == SHELF


@pytest.mark.parametrize(
    ("record", "read"),
    [
        ({"food/fruit/apple": 10, "food/fruit/pear": 5, "food/bread": 0}, {0: 0, 1: 0.5, 2: 1, 3: 0, 4: -1}),
        ({"food/bread": 99, "food/cake": 1}, {0: 1, 4: 1}),  # clamped; and nobody knows the cake
        ({"food/bread": 10, "food": 0}, {0: 1, 4: 1}),  # what lies below a key decides
        ({"food": 0}, {0: -1}),  # nothing does
        ({"food/fruit": 10, "food/bread": 0}, {0: 0, 1: 1, 4: -1}),
        ({"drink/tea": math.nan, "food/bread": "much"}, {}),
        ({}, {}),
    ],
    ids=str,
)
def test_whoever_holds_a_key_holds_those_above_it_with_the_mean_below(record: Any, read: dict[int, float]) -> None:
    assert SHELF.read(record) == [(key, round(value * GRID)) for key, value in read.items()]


def test_columns_of_people_are_what_their_devices_read() -> None:
    """Values at random, inner keys among them, on both scales; halves of the grid are rounded alike."""
    draw = np.random.default_rng(5)
    keys = [*SHELF.keys, "cake"]
    people = [{key: draw.uniform(0.5, 11) for key in keys if draw.random() < 0.4} for _ in range(300)]
    for schema in (SHELF, Schema(LEAVES, 1, 10, "log", "food/other", hierarchy=True)):
        population = Population.from_records(people)
        records, known = population.records(schema), population.keyed(schema)
        assert [records.pairs(i) for i in range(300)] == [schema.read(record) for record in people]
        assert known.keyed(schema).records(schema).values.tolist() == records.values.tolist()  # once is enough
        assert known.truth(schema).count.tolist() == np.bincount(records.keys, minlength=schema.d).tolist()


def test_a_mean_of_levels_is_no_level() -> None:
    rated = Schema(LEAVES, levels=[1, 2, 3], hierarchy=True)
    assert rated.low == 1 and rated.high == 3
    assert [rated.levels_of(place) is None for place in range(rated.d)] == [
        True,
        True,
        False,
        False,
        False,
        True,
        False,
    ]
    assert Schema.from_document(rated.document()) == rated


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: Schema(5, hierarchy=True), "schema/hierarchy"),
        (lambda: Schema(LEAVES, hierarchy="yes"), "schema/hierarchy"),  # type: ignore[arg-type]
        (lambda: Schema(["a/x", "b"], low=[0, 1, 1], high=2, hierarchy=True), "schema/hierarchy"),
        (lambda: Schema(["a/x", "b"], 1, 2, map={"b": "log"}, hierarchy=True), "schema/hierarchy"),
        (lambda: Schema(["a/x", "b"], levels={"a/x": [1, 2], "b": [1, 3]}, hierarchy=True), "schema/hierarchy"),
        (lambda: Schema(["a//x"], hierarchy=True), "schema/part"),
        (lambda: Schema(["/".join("abcdefghi")], hierarchy=True), "schema/part"),
    ],
)
def test_what_is_no_hierarchy_is_refused_in_one_sentence(make: Any, code: str) -> None:
    with pytest.raises(SchemaError) as refused:
        make()
    assert refused.value.code == code and refused.value.sentence.endswith(".") and "\n" not in refused.value.sentence


# -- coordinates ----------------------------------------------------------------------------------------------------


def test_bounds_of_coordinates_are_those_of_their_keys() -> None:
    keys = ["pizza/rating", "pizza/price", "tea/rating"]
    assert by_coordinate(keys, "rating=1,price=0") == {"pizza/rating": "1", "pizza/price": "0", "tea/rating": "1"}
    assert by_coordinate(keys, "5") == "5" and by_coordinate(keys, 5) == 5
    schema = Population.from_records([{"pizza/rating": 3, "pizza/price": 8}]).schema(
        "rating=1,price=0", "rating=5,price=20"
    )
    assert schema.high == (20, 5) and schema.keys == ("pizza/price", "pizza/rating")


@pytest.mark.parametrize("given", ["rating=1", "rating=1,price=0,size=2", "rating=,price=1", "=1", "rating=1,rating=2"])
def test_bounds_that_fit_no_coordinates_are_refused(given: str) -> None:
    with pytest.raises(SchemaError) as refused:
        by_coordinate(["pizza/rating", "pizza/price"], given)
    assert refused.value.code == "schema/range" and refused.value.sentence.endswith(".")


def test_some_keys_keep_their_ranges_scales_and_levels() -> None:
    schema = Schema(["a", "b", "c"], low=[0, 1, 2], high=9, map={"b": "log"}, levels={"a": [0, 9]}, other="c")
    some = some_keys(schema, [0, 1])
    assert some.keys == ("a", "b") and some.low == (0, 1) and some.map == ("linear", "log") and some.other is None
    assert some.levels_of(0) == (Fraction(0), Fraction(9)) and some.levels_of(1) is None
    assert some_keys(Schema(3), [0, 1, 2]) == Schema(3) and some_keys(SHELF, [0, 5]).low == Fraction(0)
