"""Rows out of data frames and files, through Arrow; nothing here is imported until somebody reads one.

Frames come through narwhals (pandas, polars, pyarrow, duckdb, …), Parquet and CSV through pyarrow. Only the three
columns are read. CSV has no types, so users are text there, and keys are numbers only if all of them look like it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.core.errors import MissingExtra, PopulationError
from keyveil.frames.rows import NO_KEY, Names, Rows, nobody, numbered, plain_numbers, rising, wrong_type

_BATCH = 1 << 18  # rows read at a time from a stream


@dataclass(frozen=True)
class Columns:
    """What the three columns are called."""

    user: str = "user"
    key: str = "key"
    value: str = "value"

    @property
    def names(self) -> list[str]:
        return [self.user, self.key, self.value]

    def check(self, present: list[str], where: str) -> None:
        if len(set(self.names)) < 3:
            raise PopulationError("population/columns", "User, key and value must be three different columns.")
        for name in self.names:
            if name not in present:
                raise PopulationError(
                    "population/columns", f"{where} has no column {name!r}; it has {', '.join(map(str, present))}."
                )
            if present.count(name) > 1:
                raise PopulationError(
                    "population/columns", f"{where} has {present.count(name)} columns {name!r}: which one is meant?"
                )


def rows_of_frame(frame: Any, columns: Columns) -> Rows:
    """Rows of any frame that narwhals knows."""
    narwhals, arrow = _load("narwhals"), _load("pyarrow")
    try:
        known = narwhals.from_native(frame)
        present = list(known.collect_schema().names())
    except TypeError as reason:
        raise PopulationError("population/frame", f"A {type(frame).__name__} is not a data frame.") from reason
    except narwhals.exceptions.DuplicateError as reason:
        raise PopulationError("population/columns", "The frame has several columns of the same name.") from reason
    columns.check(present, "The frame")
    try:
        chosen = known.select(columns.names).lazy().collect(backend="pyarrow")
        return _rows(chosen.to_native(), columns, text=False)
    except (arrow.ArrowInvalid, arrow.ArrowTypeError) as reason:
        raise PopulationError("population/type", f"The frame cannot be read: {_first_line(reason)}.") from reason


def rows_of_parquet(path: str | Path, columns: Columns) -> Rows:
    """Rows of a Parquet file."""
    parquet = _load("pyarrow.parquet")
    with _opened(path):
        with parquet.ParquetFile(path) as file:
            columns.check(file.schema_arrow.names, f"The file {Path(path).name}")
        with parquet.ParquetFile(path, read_dictionary=[columns.key]) as file:  # which fails without that column
            table = file.read(columns=columns.names)
    return _rows(table, columns, text=False)


def rows_of_csv(path: str | Path, columns: Columns) -> Rows:
    """Rows of a CSV file with a header line."""
    csv = _load("pyarrow.csv")
    with _opened(path):
        _check_csv(path, columns)
        table = csv.read_csv(path, convert_options=_csv_options(columns))
    return _rows(table, columns, text=True)


def row_blocks(path: str | Path, columns: Columns, people: int) -> Iterator[Rows]:
    """Rows of a Parquet or CSV file, ``people`` people at a time; the rows of a person must stand together.

    A person who comes back within the same block or the next one is an error; one who comes back later is not
    noticed and counts as another person.
    """
    text = ".csv" in (suffix.lower() for suffix in Path(path).suffixes)
    compute = _load("pyarrow.compute")
    before: Any = None
    for table, no_user in _cut(_batches(path, columns, text), columns.user, people):
        rows = replace(_rows(table, columns, text), notes={"no_user": no_user})
        users = _plain(table.column(columns.user)).unique()
        returned = before is not None and compute.any(compute.is_in(users, value_set=before)).as_py()
        if returned or np.count_nonzero(np.diff(rows.users)) >= rows.people:
            raise PopulationError(
                "population/not-grouped",
                f"The rows of a user in {Path(path).name} do not stand together; sort the file by {columns.user!r}.",
            )
        before = users
        yield rows
    if before is None:
        raise nobody()


def _rows(table: Any, columns: Columns, text: bool) -> Rows:
    users, people = _users(table.column(columns.user), columns.user)
    keys, names = _keys(table.column(columns.key), columns.key)
    if text and names and isinstance(names, tuple):
        numbers = plain_numbers(names)
        if numbers is not None:
            keys, names = numbered(numbers[keys], keys != NO_KEY)
    return Rows(people, users, keys, _values(table.column(columns.value), columns.value), names)


def _users(column: Any, name: str) -> tuple[NDArray[np.int64], int]:
    """Users numbered in the order of first appearance, and how many there are."""
    arrow = _load("pyarrow")
    column = _plain(column)
    if arrow.types.is_integer(column.type) and not column.null_count:
        numbered_runs = rising(_array(column))
        if numbered_runs is not None:
            return numbered_runs
    try:
        codes, people = _encoded(column)
    except arrow.ArrowNotImplementedError as reason:
        raise wrong_type(name, "names or numbers") from reason
    return codes.astype(np.int64), len(people)


def _keys(column: Any, name: str) -> tuple[NDArray[np.int32], Names]:
    arrow = _load("pyarrow")
    kind = arrow.types
    if kind.is_dictionary(column.type) and _is_text(column.type.value_type):
        codes, dictionary = _encoded(column)
        names = dictionary.to_pylist()
        if None not in names and len(set(names)) == len(names):
            return codes, tuple(names)
    column = _plain(column)
    if _is_text(column.type):
        codes, dictionary = _encoded(column)
        return codes, tuple(dictionary.to_pylist())
    if not (kind.is_integer(column.type) or kind.is_floating(column.type) or kind.is_null(column.type)):
        raise wrong_type(name, "names or whole numbers")
    try:
        numbers = column.cast(arrow.int64())  # whole numbers with gaps are floats in some frames
    except arrow.ArrowInvalid as reason:
        raise wrong_type(name, "names or whole numbers") from reason
    held = _array(numbers.is_valid().cast(arrow.int8())) != 0
    return numbered(_array(numbers, null=0), held)


def _values(column: Any, name: str) -> NDArray[np.float64]:
    arrow = _load("pyarrow")
    column = _plain(column)
    if _is_text(column.type):
        raise wrong_type(name, "numbers")
    try:
        return _array(column.cast(arrow.float64(), safe=False), null=np.nan)
    except (arrow.ArrowInvalid, arrow.ArrowNotImplementedError) as reason:
        raise wrong_type(name, "numbers") from reason


def _encoded(column: Any) -> tuple[NDArray[np.int32], Any]:
    """Codes in order of first appearance (-1 for null) and what they stand for."""
    arrow = _load("pyarrow")
    # Encoding gives all chunks one dictionary; unifying dictionaries is slow when there are millions of entries.
    column = column.unify_dictionaries() if arrow.types.is_dictionary(column.type) else column.dictionary_encode()
    if not len(column):
        return np.zeros(0, dtype=np.int32), arrow.array([], column.type.value_type)
    codes = arrow.chunked_array([chunk.indices.cast(arrow.int32()) for chunk in column.chunks])
    return _array(codes, null=-1), column.chunk(0).dictionary


def _array(column: Any, null: float = 0) -> NDArray[Any]:
    """A column of numbers, with ``null`` in place of nulls. ``to_numpy`` would import pandas, as ``fill_null`` does."""
    if column.null_count:
        column = column.fill_null(null)
    return np.concatenate([np.from_dlpack(chunk) for chunk in column.chunks] or [np.zeros(0, dtype=np.int64)])


def _plain(column: Any) -> Any:
    types = _load("pyarrow").types
    return column.cast(column.type.value_type) if types.is_dictionary(column.type) else column


def _is_text(kind: Any) -> bool:
    types = _load("pyarrow").types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _cut(batches: Iterator[Any], user: str, people: int) -> Iterator[tuple[Any, int]]:
    """Tables of whole persons, ``people`` in each but the last, with how many rows without a user were left out."""
    arrow = _load("pyarrow")
    open_: list[Any] = []
    held = no_user = 0
    last: Any = None
    for batch in batches:
        table = arrow.Table.from_batches([batch])
        known = table.filter(table.column(user).is_valid())
        no_user += len(table) - len(known)
        if not len(known):
            continue
        users = known.column(user)
        codes, _ = _users(users, user)
        starts = np.flatnonzero(np.diff(codes, prepend=codes[0] if users[0].as_py() == last else -1))
        last = users[-1].as_py()
        while held + len(starts) > people:
            cut = int(starts[people - held])
            yield arrow.concat_tables([*open_, known.slice(0, cut)]), no_user
            known, starts = known.slice(cut), starts[people - held :] - cut
            open_, held, no_user = [], 0, 0
        open_.append(known)
        held += len(starts)
    if open_:
        yield arrow.concat_tables(open_), no_user


def _batches(path: str | Path, columns: Columns, text: bool) -> Iterator[Any]:
    with _opened(path):
        if text:
            _check_csv(path, columns)
            with _load("pyarrow.csv").open_csv(path, convert_options=_csv_options(columns)) as reader:
                yield from reader
        else:
            with _load("pyarrow.parquet").ParquetFile(path) as file:
                columns.check(file.schema_arrow.names, f"The file {Path(path).name}")
                yield from file.iter_batches(batch_size=_BATCH, columns=columns.names)


def _check_csv(path: str | Path, columns: Columns) -> None:
    with _load("pyarrow.csv").open_csv(path) as reader:
        columns.check(reader.schema.names, f"The file {Path(path).name}")


def _csv_options(columns: Columns) -> Any:
    arrow = _load("pyarrow")
    types = {
        columns.user: arrow.string(),  # 007 is not 7
        columns.key: arrow.dictionary(arrow.int32(), arrow.string()),
        columns.value: arrow.float64(),
    }
    # Only an empty field is null: "NA" may well be the name of a key.
    return _load("pyarrow.csv").ConvertOptions(
        include_columns=columns.names, column_types=types, strings_can_be_null=True, null_values=[""]
    )


@contextmanager
def _opened(path: str | Path) -> Iterator[None]:
    arrow = _load("pyarrow")
    name = Path(path).name
    try:
        yield
    # pyarrow has a KeyError for a column that one part of a damaged file names and another does not
    except (OSError, UnicodeDecodeError, KeyError, arrow.ArrowException) as reason:
        if "conversion error" in str(reason):
            raise PopulationError(
                "population/type", f"A value in {name} is not a number: {_first_line(reason)}."
            ) from reason
        raise PopulationError("population/file", f"The file {name} cannot be read: {_first_line(reason)}.") from reason


def _first_line(reason: Exception) -> str:
    if isinstance(reason, OSError) and reason.errno:
        return os.strerror(reason.errno)
    return str(reason).partition("\n")[0].rstrip(".")


def _load(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError as reason:
        package = module.partition(".")[0]
        raise MissingExtra(
            "install/local", f"Reading frames and files needs {package}: pip install 'keyveil[local]'."
        ) from reason
