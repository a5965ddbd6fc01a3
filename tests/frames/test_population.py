"""Populations: loading by one rule from every source, truth, records and streams."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyveil.core.errors import MissingExtra, PopulationError
from keyveil.core.schema import GRID, Schema
from keyveil.frames import arrow
from keyveil.frames.population import Population
from keyveil.frames.truth import Truth

SNACKS = Schema(keys=["burger", "fries", "pepsi"], low=1, high=5)

PEOPLE: list[dict[Any, Any]] = [{"fries": 4, "pepsi": 5}, {}, {"burger": 1, "fries": 2, "salad": 3}]

# The same people in long form: Bo holds nothing, Cy's rows do not stand together, two rows are corrected later.
LONG: dict[str, list[Any]] = {
    "user": ["al", "al", "cy", "bo", "al", "cy", "cy", "cy", "cy"],
    "key": ["fries", "pepsi", "burger", None, "fries", "fries", "fries", "salad", "pepsi"],
    "value": [1.0, 5.0, 1.0, None, 4.0, 1.0, 2.0, 3.0, math.nan],
}


def held(population: Population) -> list[dict[str, float]]:
    """Every person as a dict, for comparison."""
    name = str if isinstance(population.names, int) else population.names.__getitem__
    pairs = [
        (name(key), value) for key, value in zip(population.keys.tolist(), population.values.tolist(), strict=True)
    ]
    bounds = population.offsets.tolist()
    return [dict(pairs[start:stop]) for start, stop in pairwise(bounds)]


def test_records_of_dicts_keep_people_who_hold_nothing() -> None:
    population = Population.from_records(PEOPLE)
    assert (population.n, population.pairs, population.sizes.tolist()) == (3, 5, [2, 0, 3])
    assert held(population) == PEOPLE
    assert population.notes == {}


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame(LONG),
        pd.DataFrame(LONG).astype({"key": "category", "user": "category"}),
        pl.DataFrame(LONG),
        pl.LazyFrame(LONG),
        pl.DataFrame(LONG).with_columns(pl.col("key").cast(pl.Categorical)),
        pa.table(LONG),
        pa.concat_tables([pa.table(LONG).slice(0, 4), pa.table(LONG).slice(4)]),
    ],
    ids=["pandas", "pandas-category", "polars", "polars-lazy", "polars-categorical", "pyarrow", "pyarrow-chunks"],
)
def test_frames_of_all_libraries_follow_one_rule(frame: Any) -> None:
    population = Population.from_frame(frame)
    assert held(population) == [PEOPLE[0], PEOPLE[2], PEOPLE[1]]  # in order of first appearance
    assert population.notes == {"duplicates": 2, "not_finite": 1}


def test_columns_may_have_other_names_and_numbers_for_keys() -> None:
    frame = pd.DataFrame({"who": [3, 3, 1], "movie": [2, 0, 2], "stars": [1, 2, 3], "text": ["x", "y", "z"]})
    population = Population.from_frame(frame, user="who", key="movie", value="stars")
    assert population.names == 3
    assert held(population) == [{"2": 1, "0": 2}, {"2": 3}]


def test_numbers_with_gaps_are_still_numbers_for_pandas() -> None:
    population = Population.from_frame(pd.DataFrame({"user": [1, 2], "key": [7, None], "value": [0.5, 0.5]}))
    assert population.names == 8
    assert held(population) == [{"7": 0.5}, {}]


def test_rows_without_a_user_are_dropped_and_counted() -> None:
    frame = pd.DataFrame({"user": [1, None, 2], "key": ["a", "a", "a"], "value": [1, 2, 3]})
    population = Population.from_frame(frame)
    assert held(population) == [{"a": 1}, {"a": 3}]
    assert population.notes == {"no_user": 1}
    assert Population.from_columns(["x", None], ["a", "a"], [1, 2]).notes == {"no_user": 1}


def test_files_are_read_like_frames(tmp_path: Path) -> None:
    table = pa.table({**LONG, "unused": [[1]] * 9})
    pa.parquet.write_table(table, tmp_path / "people.parquet", row_group_size=2)
    pa.csv.write_csv(table.drop_columns("unused"), tmp_path / "people.csv")
    for population in (
        Population.from_parquet(tmp_path / "people.parquet"),
        Population.from_csv(tmp_path / "people.csv"),
    ):
        assert held(population) == [PEOPLE[0], PEOPLE[2], PEOPLE[1]]
        assert population.notes == {"duplicates": 2, "not_finite": 1}


@pytest.mark.parametrize("name", ["user", "key", "value"])
def test_a_column_that_is_there_twice_is_refused(tmp_path: Path, name: str) -> None:
    path, other = tmp_path / "people.csv", tmp_path / "people.parquet"
    path.write_text(f"user,key,value,{name},unused,unused\n1,a,2,3,4,5\n")
    table = pa.Table.from_arrays([pa.array([1])] * 4, names=["user", "key", "value", name])
    pa.parquet.write_table(table, other)
    for load in (
        lambda: Population.from_csv(path),
        lambda: Population.from_parquet(other),
        lambda: Population.from_frame(table),
        lambda: Population.from_frame(pd.DataFrame([[1, 2, 3, 4]], columns=["user", "key", "value", name])),
        lambda: list(Population.stream(path)),
        lambda: list(Population.stream(other)),
    ):
        with pytest.raises(PopulationError, match=f"2 columns '{name}'|several columns") as refused:
            load()
        assert refused.value.code == "population/columns"


def test_csv_has_no_types_so_users_are_text_and_plain_numbers_are_keys(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("user,key,value\n007,3,1\n7,0,2\n7,,\n")
    population = Population.from_csv(path)
    assert population.names == 4
    assert held(population) == [{"3": 1}, {"0": 2}]
    path.write_text("user,key,value\n1,NA,1\n1,03,2\n")
    assert held(Population.from_csv(path)) == [{"NA": 1, "03": 2}]
    path.write_text("user,key,value\n1,,\n2,,\n")
    assert held(Population.from_csv(path)) == [{}, {}]


def test_columns_of_numbers_with_people_who_have_no_row() -> None:
    population = Population.from_columns([3, 1, 3], np.array([5, 0, 5]), [0.1, 0.2, 0.3], people=5)
    assert held(population) == [{}, {"0": 0.2}, {}, {"5": 0.3}, {}]
    assert population.notes == {"duplicates": 1}


@pytest.mark.parametrize("users", [[30, 10, 30, 20], ["c", "a", "c", "b"], [3.5, 1.5, 3.5, 2.5]])
def test_people_come_in_the_order_of_their_first_row(users: list[Any]) -> None:
    population = Population.from_columns(users, ["x", "x", "y", "x"], [1, 2, 3, 4])
    assert held(population) == [{"x": 1, "y": 3}, {"x": 2}, {"x": 4}]


def test_numbers_that_cannot_be_positions_become_names() -> None:
    assert Population.from_columns([0, 0], [-1, 2**40], [1, 2]).names == ("-1", str(2**40))
    assert Population.from_records([{-1: 1, 2**63: 2, 2**70: 3}]).names == ("-1", str(2**63), str(2**70))


def test_missing_and_immense_values_are_dropped_from_dicts() -> None:
    population = Population.from_records([{"a": None, "b": 10**400, "c": 1}])
    assert held(population) == [{"c": 1}]
    assert population.notes == {"not_finite": 2}


def truth_of(schema: Schema, people: list[dict[Any, Any]]) -> Truth:
    return Population.from_records(people).truth(schema)


def test_truth_of_a_small_population() -> None:
    truth = truth_of(SNACKS, PEOPLE)
    np.testing.assert_allclose(truth.frequency, [1 / 3, 2 / 3, 1 / 3])
    np.testing.assert_allclose(truth.mean, [-1, 0, 1])
    np.testing.assert_allclose(truth.mean_in_units, [1, 3, 5])
    assert (truth.n, truth.count.tolist()) == (3, [1, 2, 1])
    assert truth.mean_size == pytest.approx(4 / 3)  # the salad is not in the schema


def test_truth_where_nobody_has_a_key_is_unknown() -> None:
    truth = truth_of(SNACKS, [{"fries": 3}])
    np.testing.assert_array_equal(truth.frequency, [0, 1, 0])
    np.testing.assert_array_equal(truth.mean, [np.nan, 0, np.nan])


def test_truth_on_a_logarithmic_scale_is_a_geometric_mean() -> None:
    truth = truth_of(Schema(keys=["x"], low=1, high=10_000, map="log"), [{"x": 10}, {"x": 1000}])
    np.testing.assert_allclose(truth.mean_in_units, [100])


def test_truths_of_different_schemas_do_not_add() -> None:
    with pytest.raises(PopulationError, match="different schemas"):
        truth_of(SNACKS, PEOPLE) + truth_of(Schema(keys=["burger"]), PEOPLE)


def test_distribution_is_the_law_of_the_owners_values() -> None:
    population = Population.from_records([{"fries": 1}, {"fries": 2.9}, {"fries": 3}, {"fries": 99}, {"pepsi": 1}, {}])
    law = population.distribution(SNACKS, bins=4)
    np.testing.assert_array_equal(law, [[np.nan] * 4, [1 / 4, 1 / 4, 1 / 4, 1 / 4], [1, 0, 0, 0]])
    np.testing.assert_array_equal(population.histogram(SNACKS, 2), [[0, 0], [2, 2], [1, 0]])


names = st.sampled_from(["a", "b", "c", "x", "y", "0", "1", "12"]) | st.integers(0, 12)
values = st.floats(-3, 3) | st.sampled_from([math.nan, math.inf, 0, 1])
people = st.lists(st.dictionaries(names, values, max_size=6), min_size=1, max_size=8)
schemas = st.sampled_from(
    [
        Schema(keys=["c", "a", "12"], low=-2, high=2),
        Schema(keys=["c", "a"], other="rest"),
        Schema(keys=["b", "x", "a"], other="x"),
        Schema(keys=["a", "c"], low=[0.5, 1], high=2, map=["log", "linear"]),
        Schema(keys=4),
        Schema(keys=2, other="rest"),
    ]
)


@given(people, schemas)
def test_records_are_what_each_device_would_read(records: list[dict[Any, Any]], schema: Schema) -> None:
    block = Population.from_records(records).records(schema)
    assert [block.pairs(i) for i in range(block.n)] == [schema.read(record) for record in records]
    assert (block.n, block.d) == (len(records), schema.d)
    assert block.sizes.tolist() == [len(schema.read(record)) for record in records]
    assert [column.dtype.name for column in (block.offsets, block.keys, block.values)] == ["int64", "int32", "int32"]


@given(st.lists(st.dictionaries(st.integers(0, 12), values), min_size=1, max_size=8), schemas)
def test_numbered_populations_are_read_alike(records: list[dict[Any, Any]], schema: Schema) -> None:
    block = Population.from_records(records).records(schema)
    assert [block.pairs(i) for i in range(block.n)] == [schema.read(record) for record in records]


@given(people, schemas, st.integers(1, 9))
def test_truth_and_histogram_add_up_over_blocks(records: list[dict[Any, Any]], schema: Schema, size: int) -> None:
    population = Population.from_records(records)
    whole = population.truth(schema)
    blocks = list(population.blocks(size))
    first, *rest = (block.truth(schema) for block in blocks)
    merged = sum(rest, start=first)
    assert [block.n for block in blocks[:-1]] == [size] * (len(blocks) - 1)
    assert (merged.n, merged.count.tolist()) == (whole.n, whole.count.tolist())
    np.testing.assert_allclose(merged.mean, whole.mean, atol=1e-12)
    histograms = [block.histogram(schema, 5) for block in blocks]
    np.testing.assert_array_equal(np.sum(histograms, axis=0), population.histogram(schema, 5))


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.floats(-1, 1)), min_size=1, max_size=30))
def test_the_last_row_of_a_person_and_key_wins(rows: list[tuple[int, int, float]]) -> None:
    users, keys, numbers = (list(column) for column in zip(*rows, strict=True))
    expected: dict[int, dict[str, float]] = {}
    for user, key, value in rows:
        expected.setdefault(user, {})[str(key)] = value
    population = Population.from_columns(users, keys, numbers)
    assert held(population) == list(expected.values())
    assert population.notes.get("duplicates", 0) == len(rows) - population.pairs
    frame = pl.DataFrame({"user": users, "key": keys, "value": numbers})
    assert held(Population.from_frame(frame)) == list(expected.values())


def test_slices_of_records() -> None:
    block = Population.from_records(PEOPLE).records(SNACKS)
    part = block.slice(1, 3)
    assert (part.n, part.pairs(0), part.pairs(1)) == (2, [], [(0, -GRID), (1, -GRID // 2)])
    with pytest.raises(IndexError):
        part.pairs(2)


def test_keys_of_a_schema_are_noted_when_unknown() -> None:
    population = Population.from_records(PEOPLE).keyed(SNACKS)
    assert population.names == SNACKS.keys
    assert population.notes == {"unknown": 1}
    assert population.keyed(SNACKS) is population


def test_a_schema_can_be_taken_from_the_data() -> None:
    population = Population.from_records(PEOPLE)
    assert population.schema() == Schema(keys=["burger", "fries", "pepsi", "salad"], low=1, high=5)
    assert population.schema(low=0.5, high=10, map="log", other="rest") == Schema(
        keys=["burger", "fries", "pepsi", "salad"], low=0.5, high=10, map="log", other="rest"
    )
    assert Population.from_records([{0: 1, 1: 2}, {2: 1}]).schema() == Schema(keys=3, low=1, high=2)
    assert Population.from_records([{10: 1}, {2: 1}]).schema() == Schema(keys=["2", "10"], low=0, high=2)
    assert Population.from_records([{2_000_000_000: 1}, {7: 2}]).schema().keys == ("7", "2000000000")


def write(path: Path, users: list[int], row_group_size: int = 3) -> Path:
    count = len(users)
    table = pa.table({"user": users, "key": [f"k{i % 4}" for i in range(count)], "value": np.linspace(-1, 1, count)})
    if path.suffix == ".csv":
        pa.csv.write_csv(table, path)
    else:
        pa.parquet.write_table(table, path, row_group_size=row_group_size)
    return path


@pytest.mark.parametrize("name", ["people.parquet", "people.csv"])
@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_streams_cut_between_people(tmp_path: Path, name: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "_BATCH", 4)
    path = write(tmp_path / name, [5, 5, 5, 5, 2, 9, 9, 9, 9, 9, 1, 1, 7])
    whole = Population.from_parquet(path) if path.suffix == ".parquet" else Population.from_csv(path)
    blocks = list(Population.stream(path, people=size))
    assert [block.n for block in blocks] == [min(size, 5 - start) for start in range(0, 5, size)]
    assert [person for block in blocks for person in held(block)] == held(whole)

    schema = Schema(keys=["k3", "k1", "k0"], other="rest")
    keyed = list(Population.stream(path, schema, people=size))
    assert {block.names for block in keyed} == {schema.keys}
    first, *rest = (block.truth(schema) for block in keyed)
    np.testing.assert_allclose(sum(rest, start=first).mean, whole.truth(schema).mean)


@pytest.mark.parametrize("users", [[1, 2, 1], [1, 1, 2, 2, 3, 3, 2], [1, 2, 3, 4, 5, 6, 5]])
def test_streams_refuse_users_who_come_back(tmp_path: Path, users: list[int]) -> None:
    path = write(tmp_path / "people.parquet", users)
    for size in (2, 3):
        with pytest.raises(PopulationError) as caught:
            list(Population.stream(path, people=size))
        assert caught.value.code == "population/not-grouped"


def test_a_return_after_a_whole_block_is_not_noticed(tmp_path: Path) -> None:
    path = write(tmp_path / "people.parquet", [1, 2, 3, 1])
    assert [block.n for block in Population.stream(path, people=1)] == [1, 1, 1, 1]


def test_streams_count_rows_without_a_user(tmp_path: Path) -> None:
    users, keys = [1, None, 1, 2, None, 2], ["a", "a", "b", "a", "a", "c"]
    table = pa.table({"user": users, "key": keys, "value": [1, 2, 3, 4, 5, math.inf]})
    pa.parquet.write_table(table, tmp_path / "people.parquet")
    blocks = list(Population.stream(tmp_path / "people.parquet", people=2))
    assert [held(block) for block in blocks] == [[{"a": 1, "b": 3}, {"a": 4}]]
    assert blocks[0].notes == {"no_user": 2, "not_finite": 1}


def test_streams_read_categories_and_compressed_text(tmp_path: Path) -> None:
    frame = pd.DataFrame({"user": ["x", "x", "y"], "key": ["a", "b", "a"], "value": [1, 2, 3]})
    frame.astype({"user": "category", "key": "category"}).to_parquet(tmp_path / "people.parquet", row_group_size=2)
    frame.to_csv(tmp_path / "people.csv.gz", index=False)
    for name in ("people.parquet", "people.csv.gz"):
        blocks = list(Population.stream(tmp_path / name, people=1))
        assert [held(block) for block in blocks] == [[{"a": 1, "b": 2}], [{"a": 3}]]


def test_many_people_are_columns_only(tmp_path: Path) -> None:
    n, d = 100_000, 50
    keys = (np.arange(n)[:, None] * 7 + np.array([0, 11, 23])) % d
    users = np.repeat(np.arange(n), 3)
    numbers = np.sin(np.arange(3 * n))
    order = np.argsort(numbers)  # rows of a person lie far apart
    table = pa.table({"user": users[order], "key": keys.ravel()[order], "value": numbers[order]})
    pa.parquet.write_table(table, tmp_path / "many.parquet", row_group_size=50_000)
    population = Population.from_parquet(tmp_path / "many.parquet")
    schema = Schema(keys=d)
    truth = population.truth(schema)
    np.testing.assert_allclose(truth.frequency, np.bincount(keys.ravel(), minlength=d) / n)
    sums = np.bincount(keys.ravel(), weights=numbers, minlength=d)
    np.testing.assert_allclose(truth.total, sums, atol=1e-9)
    block = population.records(schema)
    assert (block.n, len(block.keys)) == (n, 3 * n)
    assert (np.diff(block.keys.reshape(n, 3), axis=1) > 0).all()


FRAME = pd.DataFrame({"user": [1], "key": ["a"], "value": [1.0]})


@pytest.mark.parametrize(
    ("load", "code"),
    [
        (lambda: Population.from_frame(FRAME, value="rating"), "population/columns"),
        (lambda: Population.from_frame(FRAME, user="key"), "population/columns"),
        (lambda: Population.from_frame(FRAME.assign(value="high")), "population/type"),
        (lambda: Population.from_frame(FRAME.assign(key=1.5)), "population/type"),
        (lambda: Population.from_frame(FRAME.assign(key=True)), "population/type"),
        (lambda: Population.from_frame(pa.table({"user": [[1]], "key": ["a"], "value": [1.0]})), "population/type"),
        (
            lambda: Population.from_frame(pd.DataFrame({"user": [1, 2], "key": ["a", "a"], "value": [1, "x"]})),
            "population/type",
        ),
        (lambda: Population.from_frame(FRAME.iloc[:0]), "population/empty"),
        (lambda: Population.from_frame({"user": [1]}), "population/frame"),
        (lambda: Population.from_records([]), "population/empty"),
        (lambda: Population.from_records([["a", 1]]), "population/record"),  # type: ignore[list-item]
        (lambda: Population.from_records([{}]).schema(), "population/empty"),
        (lambda: Population.from_columns([], [], []), "population/empty"),
        (lambda: Population.from_columns([1], ["a", "b"], [1, 2]), "population/lengths"),
        (lambda: Population.from_columns([1], ["a"], ["1"]), "population/type"),
        (lambda: Population.from_columns([1, 2], ["a", "a"], [None, "1"]), "population/type"),
        (lambda: Population.from_columns([1], [1.5], [1]), "population/type"),
        (lambda: Population.from_columns([7], ["a"], [1], people=7), "population/users"),
        (lambda: Population.from_columns(["x"], ["a"], [1], people=7), "population/users"),
        (lambda: list(Population.from_records(PEOPLE).blocks(0)), "population/size"),
        (lambda: Population.from_records(PEOPLE).distribution(SNACKS, 0), "population/size"),
    ],
)
def test_what_is_no_population_is_refused(load: Callable[[], Any], code: str) -> None:
    with pytest.raises(PopulationError) as caught:
        load()
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("people.csv", "user,key\n1,a\n", "population/columns"),
        ("people.csv", "user,key,value\n", "population/empty"),
        ("people.csv", "", "population/file"),
        ("people.csv", "user,key,value\n1,a,high\n", "population/type"),
        ("people.csv", "user,key,value\n1,a\n", "population/file"),
        ("people.parquet", "not parquet", "population/file"),
        ("missing.csv", None, "population/file"),
        ("missing.parquet", None, "population/file"),
    ],
)
def test_files_that_hold_no_people_are_refused(tmp_path: Path, name: str, content: str | None, code: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    load = Population.from_csv if path.suffix == ".csv" else Population.from_parquet
    for attempt in (lambda: load(path), lambda: list(Population.stream(path))):
        with pytest.raises(PopulationError) as caught:
            attempt()
        assert caught.value.code == code
        assert str(tmp_path) not in caught.value.sentence


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "narwhals", None)
    with pytest.raises(MissingExtra, match=r"narwhals.*keyveil\[local\]") as caught:
        Population.from_frame(FRAME)
    assert caught.value.code == "install/local"
