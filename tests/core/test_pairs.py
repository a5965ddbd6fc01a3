"""Odd records: one treatment on a device and in bulk, and a report from everybody."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import keyveil as kv
from keyveil.core.pairs import key_in, value_in
from keyveil.core.schema import GRID, Schema
from keyveil.frames.population import Population
from keyveil.lab.coins import SeededCoins
from keyveil.lab.compare import key_value_names

HUGE = 10**400
UNREADABLE: tuple[Any, ...] = (
    None,
    math.nan,
    math.inf,
    -math.inf,
    HUGE,
    -HUGE,
    10**5000,
    Fraction(HUGE, 3),
    Decimal("1e400"),
    Decimal("NaN"),
    Decimal("sNaN"),
    Decimal("-Infinity"),
    np.float32("nan"),
    np.float64("inf"),
    "",
    "3",
    "many",
    b"3",
    3j,
    [],
    [3],
    (3,),
    {},
    {"fries": 3},
    {3},
    np.array(3.0),
    np.array([3.0]),
    np.datetime64("2026-01-01"),
    pd.NA,
    pd.NaT,
    object(),
    len,
)
READABLE: tuple[tuple[Any, float], ...] = (
    (True, 1.0),
    (False, 0.0),
    (np.True_, 1.0),
    (np.int8(3), 3.0),
    (np.uint64(2**64 - 1), 2.0**64),
    (np.float16(3), 3.0),
    (Decimal("3.25"), 3.25),
    (Fraction(13, 4), 3.25),
    (-0.0, 0.0),
    (5e-324, 5e-324),
    (10**300, 1e300),
    (-1e308, -1e308),
)
NO_KEYS: tuple[Any, ...] = (None, True, False, np.True_, 1.5, 1.0, math.nan, 2j, ("a",), b"a", frozenset(), 10**5000)
SCHEMAS = (
    Schema(keys=["a", "b", "c"], low=0, high=5),
    Schema(keys=["a", "b", "c"], low=1, high=5, map="log"),
    Schema(keys=["a", "b"], low=[-1, 0, 0], high=[1, 9, 4], other="else"),
    Schema(keys=4),
    Schema(keys=2, other="else"),
)


def kind(value: Any) -> str:
    return type(value).__name__  # some values are too long to spell


def in_bulk(schema: Schema, record: Any) -> list[tuple[int, int]]:
    """What becomes of a person in a crowd."""
    return Population.from_records([{"b": 1}, record, {}]).records(schema).pairs(1)


@pytest.mark.parametrize("value", UNREADABLE, ids=kind)
def test_a_value_that_cannot_be_read_is_absent_on_the_device_and_in_bulk(value: Any) -> None:
    assert math.isnan(value_in(value))
    for schema in SCHEMAS:
        for record in ({"a": value}, {"a": value, "b": 1}, {0: value, 1: 0.5}, {"x": value}):
            rest = {key: held for key, held in record.items() if held is not value}
            assert schema.read(record) == schema.read(rest) == in_bulk(schema, record)


@pytest.mark.parametrize(("value", "number"), READABLE, ids=kind)
def test_numbers_of_every_kind_count_on_the_device_and_in_bulk(value: Any, number: float) -> None:
    assert value_in(value) == number
    for schema in SCHEMAS:
        for record in ({"a": value}, {"a": value, "b": 1}, {0: value, 1: 0.5}, {"x": value}):
            plain = {key: number if held is value else held for key, held in record.items()}
            assert schema.read(record) == schema.read(plain) == in_bulk(schema, record)


@pytest.mark.parametrize("key", NO_KEYS, ids=kind)
def test_a_key_that_names_nothing_is_absent_even_where_others_have_a_place(key: Any) -> None:
    assert key_in(key) is None
    for schema in SCHEMAS:
        assert schema.read({key: 1}) == in_bulk(schema, {key: 1}) == []
        assert schema.read({key: 1, "a": 2}) == in_bulk(schema, {key: 1, "a": 2}) == schema.read({"a": 2})


def test_what_was_dropped_is_counted() -> None:
    people = Population.from_records([{None: 1, 1.5: None, "a": None, "b": HUGE, "c": "text", "d": 1}, {}])
    assert people.notes == {"no_key": 2, "not_finite": 3}
    assert (people.n, people.pairs) == (2, 1)


def test_the_last_readable_value_of_a_key_wins() -> None:
    schema = Schema(keys=3)
    for record in ({"1": 0.5, 1: None}, {1: 0.5, "1": "no"}, {"1": 0.25, 1: 0.5}):
        assert schema.read(record) == in_bulk(schema, record) == [(1, GRID // 2)]


@given(
    st.dictionaries(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=2), st.sampled_from("abc")),
        st.one_of(
            st.none(),
            st.booleans(),
            st.integers(),
            st.floats(),
            st.text(max_size=2),
            st.decimals(),
            st.fractions(),
            st.lists(st.integers(), max_size=1),
        ),
        max_size=4,
    )
)
def test_devices_and_crowds_read_every_record_alike(record: dict[Any, Any]) -> None:
    for schema in SCHEMAS:
        assert schema.read(record) == in_bulk(schema, record)


@pytest.mark.parametrize("name", key_value_names())
def test_everybody_reports_whatever_a_record_holds(name: str) -> None:
    mechanism = kv.mechanism(name, Schema(keys=["a", "b", "c"]), 1, **_needed(name))
    coins = SeededCoins(1)
    for record in ({"a": None}, {None: 1}, {"a": HUGE}, {"a": "text"}, {"a": [1]}, {"a": {"b": 1}}, {}):
        assert mechanism.encode(mechanism.perturb(record, coins)) is not None


def _needed(name: str) -> dict[str, Any]:
    from keyveil.mechanisms.registry import find_mechanism

    known = find_mechanism(name).__dataclass_fields__
    return {"max_pairs": 2} if "max_pairs" in known else {"padding": 2} if "padding" in known else {}
