"""Schemas: keys, exact ranges, the grid, documents and hashes."""

from __future__ import annotations

import math
import pickle
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyveil.core.canonical import canonical, decimal, exact
from keyveil.core.errors import KeyveilError, RecordError, SchemaError
from keyveil.core.schema import GRID, MOST_KEYS, Schema

SNACKS = Schema(keys=["burger", "fries", "pepsi"], low=1, high=5)


def test_named_and_numbered_keys() -> None:
    assert (SNACKS.d, len(SNACKS), SNACKS.keys) == (3, 3, ("burger", "fries", "pepsi"))
    assert [SNACKS.index(name) for name in ("burger", "pepsi", "salad")] == [0, 2, None]

    numbered = Schema(keys=100)
    assert numbered.d == 100
    assert numbered.keys[:2] == ("0", "1") and numbered.keys[-1] == "99"
    assert [numbered.index(name) for name in (7, "7", "99", 100, "100", -1, "07", "x", "", "²")] == [
        7, 7, 99, None, None, None, None, None, None, None,
    ]  # fmt: skip


def test_a_whole_number_stands_for_the_name_with_its_digits() -> None:
    schema = Schema(keys=["12", "34"])
    assert schema.index(34) == 1
    assert schema.read({34: 1.0, np.int64(12): 0.0}) == [(0, 0), (1, GRID)]


def test_read_brings_values_to_the_grid_and_sorts_them() -> None:
    assert SNACKS.read({"pepsi": 5, "burger": 1, "fries": 4}) == [(0, -GRID), (1, GRID // 2), (2, GRID)]


def test_read_clamps_and_drops() -> None:
    record = {"burger": -100, "fries": math.nan, "pepsi": math.inf, "salad": 3.0}
    assert SNACKS.read(record) == [(0, -GRID)]
    assert SNACKS.read({}) == []
    assert SNACKS.read({"fries": 1e308, "pepsi": -(10**300)}) == [(1, GRID), (2, -GRID)]


@pytest.mark.parametrize("three", [3, 3.0, np.float32(3), np.int8(3), np.longdouble(3), Decimal(3), Fraction(3)])
def test_read_takes_every_kind_of_number(three: Any) -> None:
    assert SNACKS.read({"fries": three}) == [(1, 0)]


@pytest.mark.parametrize("record", [[("fries", 3)], None, 3, "fries"])
def test_read_refuses_what_is_no_record_without_repeating_it(record: Any) -> None:
    with pytest.raises(RecordError) as caught:
        SNACKS.read(record)
    assert caught.value.code == "record/type"
    assert "fries" not in caught.value.sentence


def test_other_receives_unknown_keys_and_the_last_wins() -> None:
    schema = Schema(keys=["a", "b"], other="rest")
    assert schema.keys == ("a", "b", "rest")
    assert schema.read({"x": 1.0, "a": 0.0, "y": -1.0}) == [(0, 0), (2, -GRID)]
    assert schema.read({"x": 1.0, "rest": 0.5}) == [(2, GRID // 2)]
    assert schema.read({"x": 1.0, "y": math.nan}) == [(2, GRID)]
    assert Schema(keys=["a", "rest"], other="rest").keys == ("a", "rest")

    numbered = Schema(keys=3, other="rest")
    assert (numbered.d, numbered.keys, numbered.index("rest")) == (4, ("0", "1", "2", "rest"), 3)
    assert numbered.read({7: 1.0, "2": 0.0}) == [(2, 0), (3, GRID)]
    assert Schema(keys=3, other="2").read({7: 1.0}) == [(2, GRID)]


def test_ranges_and_maps_per_key() -> None:
    by_name = Schema(keys=["age", "income"], low={"age": 0, "income": 1}, high=[100, 10_000], map={"income": "log"})
    assert by_name.read({"age": 75, "income": 100}) == [(0, GRID // 2), (1, 0)]
    units = by_name.from_unit(np.array([0.5, 0.0]))
    np.testing.assert_allclose(units, [75, 100])
    np.testing.assert_allclose(by_name.slope(np.array([0.5, 0.0])), [50, 100 * math.log(100)])
    np.testing.assert_allclose(by_name.from_unit(np.array([0.0, 0.5]), keys=np.array([1, 0])), [100, 75])


def test_a_logarithmic_scale_has_geometric_means() -> None:
    schema = Schema(keys=1, low=1, high=10_000, map="log")
    units = schema.to_unit(np.zeros(2, dtype=np.int32), np.array([10.0, 1000.0]))
    np.testing.assert_allclose(schema.from_unit([units.mean()]), [math.sqrt(10 * 1000)])
    assert schema.read({0: 0.0}) == schema.read({0: -7}) == [(0, -GRID)]


def test_to_unit_clamps_and_keeps_nan() -> None:
    keys = np.zeros(4, dtype=np.int32)
    for scale in ("linear", "log"):
        unit = Schema(keys=2, low=1, high=5, map=scale).to_unit(keys, [np.inf, -np.inf, np.nan, 5])
        np.testing.assert_array_equal(unit, [1, -1, np.nan, 1])
    with pytest.raises(RecordError, match="not a number"):
        SNACKS.to_grid(keys, np.array([1, 2, 3, np.nan]))


bounds = st.floats(min_value=-1e6, max_value=1e6).map(lambda x: round(x, 3))


@given(st.data())
def test_read_and_to_grid_agree_exactly(data: st.DataObject) -> None:
    scale = data.draw(st.sampled_from(["linear", "log"]))
    low = data.draw(bounds if scale == "linear" else st.floats(1e-3, 1e3))
    high = low + data.draw(st.floats(0.5, 1e6))
    schema = Schema(keys=3, low=[low, low, low - 0.1 if scale == "linear" else low], high=high, map=scale)
    near = st.floats(low, high) | st.floats(allow_nan=False, allow_infinity=False) | st.integers(-10, 10)
    record = data.draw(st.dictionaries(st.integers(0, 2), near))
    keys = np.array(sorted(record), dtype=np.int32)
    z = schema.to_grid(keys, np.array([float(record[key]) for key in keys.tolist()]))
    assert schema.read(record) == list(zip(keys.tolist(), z.tolist(), strict=True))
    assert (abs(z) <= GRID).all()


@given(st.integers(-GRID, GRID), st.sampled_from(["linear", "log"]))
def test_the_grid_survives_the_way_to_units_and_back(z: int, scale: str) -> None:
    schema = Schema(keys=1, low="0.1", high=70, map=scale)
    value = schema.from_unit(np.array([z / GRID]))
    assert schema.to_grid(np.array([0]), value).tolist() == [z]


def test_numbers_are_held_as_they_are_written() -> None:
    schema = Schema(keys=1, low=0.1, high=Decimal("0.30"))
    assert (schema.low, schema.high) == (Fraction(1, 10), Fraction(3, 10))
    assert schema.document() == {"keys": 1, "low": "0.1", "high": "0.3"}
    assert Schema(keys=1, low=np.float32(0.1), high=np.float64(0.3)) == schema


def test_one_schema_has_one_hash() -> None:
    same = Schema(keys=("burger", "fries", "pepsi"), low=[1, 1.0, "1.00"], high={"burger": 5, "fries": 5, "pepsi": 5})
    assert same == SNACKS and same.hash == SNACKS.hash
    # Pinned: the hash is what devices and collectors agree on, across versions.
    assert canonical(SNACKS.document()) == b'{"high":5,"keys":["burger","fries","pepsi"],"low":1}'
    assert SNACKS.hash == "4163747ef1b5c2efb56f3a9d92c0ddc23f1ad859fd7ce56ae39ce9a5b576ad8c"
    others = [
        Schema(keys=["fries", "burger", "pepsi"], low=1, high=5),
        Schema(keys=SNACKS.keys, low=1, high=6),
        Schema(keys=SNACKS.keys, low=1, high=5, map="log"),
        Schema(keys=SNACKS.keys, low=1, high=5, other="pepsi"),
    ]
    assert len({schema.hash for schema in [SNACKS, *others]}) == 5


@pytest.mark.parametrize(
    "schema",
    [
        SNACKS,
        Schema(keys=100),
        Schema(keys=5, other="rest"),
        Schema(keys=["ä", "🍟"], low=[0.5, 1], high="1e3", map=["log", "linear"], other="ä"),
        Schema(keys=2, low=-1e300, high=1e300),
    ],
)
def test_documents_and_pickles_give_the_schema_back(schema: Schema) -> None:
    back = Schema.from_document(schema.document())
    assert back == schema and back.hash == schema.hash
    assert pickle.loads(pickle.dumps(schema)) == schema


@pytest.mark.parametrize(
    ("document", "code"),
    [
        ({"low": 1}, "schema/document"),
        ([], "schema/document"),
        ({"keys": 3, "colour": "red"}, "schema/document"),
        ({"keys": 3, "low": 0.5}, "document/float"),
        ({"keys": 3, "low": "1/3"}, "schema/range"),
        ({"keys": 3, "low": None}, "schema/range"),
    ],
)
def test_bad_documents_are_refused(document: Any, code: str) -> None:
    with pytest.raises(KeyveilError) as caught:
        Schema.from_document(document)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"keys": []}, "schema/empty"),
        ({"keys": 0}, "schema/empty"),
        ({"keys": [], "other": "rest"}, "schema/empty"),
        ({"keys": 0, "other": "rest"}, "schema/empty"),
        ({"keys": -1}, "schema/count"),
        ({"keys": MOST_KEYS + 1}, "schema/too-many"),
        ({"keys": ["a", "b", "a"]}, "schema/duplicate"),
        ({"keys": [1, 2]}, "schema/name"),
        ({"keys": ["\ud800"]}, "schema/name"),
        ({"keys": "abc"}, "schema/keys"),
        ({"keys": None}, "schema/keys"),
        ({"keys": True}, "schema/keys"),
        ({"keys": 3, "other": 7}, "schema/name"),
        ({"keys": 3, "low": 5, "high": 1}, "schema/range"),
        ({"keys": 3, "low": 1, "high": 1}, "schema/range"),
        ({"keys": 3, "low": [0, 0, 2], "high": 1}, "schema/range"),
        ({"keys": 3, "low": math.nan}, "schema/range"),
        ({"keys": 3, "high": math.inf}, "schema/range"),
        ({"keys": 3, "high": "1e999999999"}, "schema/range"),
        ({"keys": 3, "low": Fraction(1, 3)}, "schema/range"),
        ({"keys": 3, "low": 10**17, "high": 10**17 + 1}, "schema/range"),
        ({"keys": 3, "low": 0, "high": "1e-324"}, "schema/range"),
        ({"keys": 3, "low": {"0": 0, "1": 0}}, "schema/range"),
        ({"keys": 3, "low": {"0": 0, "9": 0}}, "schema/unknown-key"),
        ({"keys": 3, "low": [0, 0]}, "schema/length"),
        ({"keys": 3, "low": 0, "map": "log"}, "schema/log"),
        ({"keys": 3, "map": "square"}, "schema/map"),
    ],
)
def test_schemas_that_make_no_sense_are_refused(arguments: dict[str, Any], code: str) -> None:
    with pytest.raises(SchemaError) as caught:
        Schema(**arguments)
    assert caught.value.code == code


@given(st.integers(-(10**20), 10**20), st.integers(0, 12))
def test_decimals_are_spelled_exactly(digits: int, places: int) -> None:
    value = Fraction(digits, 10**places)
    spelled = decimal(value)
    assert exact(spelled) == value
    assert not (isinstance(spelled, str) and "." in spelled and spelled.endswith(("0", ".")))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_is_its_shortest_decimal(number: float) -> None:
    assert float(exact(number)) == number
    assert exact(number) == Fraction(Decimal(repr(number)))


def test_canonical_documents_have_one_spelling() -> None:
    assert canonical({"b": [1, "é", None, True], "a": {"z": 1, "y": "0.5"}}) == (
        '{"a":{"y":"0.5","z":1},"b":[1,"é",null,true]}'.encode()
    )


@pytest.mark.parametrize(
    ("document", "code"),
    [
        ({"a": [{"b": 0.5}]}, "document/float"),
        ({"a": math.nan}, "document/float"),
        ({1: "a"}, "document/type"),
        ({"a": b"bytes"}, "document/type"),
        ({"a": "\ud800"}, "document/text"),
    ],
)
def test_canonical_refuses_what_has_no_spelling(document: Any, code: str) -> None:
    with pytest.raises(KeyveilError) as caught:
        canonical(document)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("levels", "told"),
    [
        ([3, 2, 1], "3 stands before 2"),
        ([1, 1], "1 stands before 1"),
        ([1], "from 2 to 256 levels, not 1"),
        (list(range(257)), "from 2 to 256 levels, not 257"),
        ([1, 9], "The level 9 lies outside the range from 1 to 5"),
        ("1,2", "a list of numbers"),
        (["x", 2], "A level is a decimal number"),
        ([1, "1.0000001", 5], "too close"),
    ],
)
def test_levels_that_make_no_sense_are_one_sentence(levels: Any, told: str) -> None:
    with pytest.raises(SchemaError, match=told) as refused:
        Schema(keys=3, low=1, high=5, levels=levels)
    assert refused.value.code == "schema/levels"


def test_levels_stand_in_the_document_only_if_they_are_given() -> None:
    assert "levels" not in Schema(keys=3).document()
    own = Schema(keys=["liked", "stars", "hours"], levels={"liked": [0, 1], "stars": [0, "0.5", 3]})
    assert own.document()["levels"] == [[0, 1], [0, "0.5", 3], None]
    assert Schema.from_document(own.document()) == own and own.hash != Schema(keys=own.keys).hash
    assert Schema(keys=2, low=0, high=9, levels=[1, 5]).document() == {"keys": 2, "low": 1, "high": 5, "levels": [1, 5]}


def test_values_beyond_the_levels_count_as_the_nearest_one() -> None:
    stars = Schema(keys=["stars"], low=0, high=9, levels=[1, 2, 5])
    assert [stars.read({"stars": value})[0][1] for value in (0, 1, 5, 9)] == [-GRID, -GRID, GRID, GRID]
    assert stars.grid_levels(0) == tuple(stars.read({"stars": level})[0][1] for level in (1, 2, 5))
