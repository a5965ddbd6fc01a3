"""People with key-value pairs, as columns: the data of simulations, and of everything that knows the truth.

A population is not tied to a schema: its keys have names and its values are raw. ``records(schema)`` gives what the
devices of these people would hand to a mechanism, ``truth(schema)`` what an analyst would like to know.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.core.dimensions import by_coordinate, closed_columns
from keyveil.core.errors import PopulationError
from keyveil.core.groups import keys_within
from keyveil.core.histogram import Points
from keyveil.core.records import Records
from keyveil.core.schema import GRID, Bound, Maps, Schema
from keyveil.frames.arrow import Columns, row_blocks, rows_of_csv, rows_of_frame, rows_of_parquet
from keyveil.frames.rows import NO_KEY, Names, Rows, last_of_each, offsets_of, rows_of_columns, rows_of_records
from keyveil.frames.truth import Truth


@dataclass(frozen=True, eq=False, repr=False)
class Population:
    """People and their pairs: those of person i are the rows ``offsets[i]`` to ``offsets[i + 1]``.

    ``names`` are the key names that ``keys`` point to, or a count if keys are numbers. However people are loaded, the
    same rule holds: they keep the order in which they first appear; a row with a null key says that the person exists
    and holds nothing; of several rows for one person and key the last wins; a pair whose value is null, NaN or
    infinite is dropped, but the person stays; rows without a user are dropped. ``notes`` counts what was dropped
    (``duplicates``, ``not_finite``, ``no_key``, ``no_user``, ``unknown``).
    """

    names: Names
    offsets: NDArray[np.int64]
    keys: NDArray[np.int32]
    values: NDArray[np.float64]
    notes: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def from_frame(cls, frame: Any, user: str = "user", key: str = "key", value: str = "value") -> Population:
        """From a data frame of pandas, polars, pyarrow or whatever else narwhals knows."""
        return cls._from_rows(rows_of_frame(frame, Columns(user, key, value)))

    @classmethod
    def from_parquet(cls, path: str | Path, user: str = "user", key: str = "key", value: str = "value") -> Population:
        """From a Parquet file."""
        return cls._from_rows(rows_of_parquet(path, Columns(user, key, value)))

    @classmethod
    def from_csv(cls, path: str | Path, user: str = "user", key: str = "key", value: str = "value") -> Population:
        """From a CSV file with a header line; an empty field is null."""
        return cls._from_rows(rows_of_csv(path, Columns(user, key, value)))

    @classmethod
    def from_records(cls, records: Iterable[Mapping[Any, Any]]) -> Population:
        """From one mapping per person; people with an empty one are people."""
        return cls._from_rows(rows_of_records(records))

    @classmethod
    def from_columns(cls, users: Any, keys: Any, values: Any, people: int | None = None) -> Population:
        """From three columns; with ``people``, users are numbers below it, and those without a row hold nothing."""
        return cls._from_rows(rows_of_columns(users, keys, values, people))

    @classmethod
    def stream(
        cls,
        path: str | Path,
        schema: Schema | None = None,
        user: str = "user",
        key: str = "key",
        value: str = "value",
        people: int = 1 << 16,
    ) -> Iterator[Population]:
        """Blocks of people from a Parquet or CSV file of any size in which the rows of a user stand together.

        With a schema all blocks share its keys; without, each block names its own. A user who comes back within the
        same or the following block is an error (``population/not-grouped``); a later return is not noticed, so sort
        the file by user if in doubt.
        """
        for rows in row_blocks(path, Columns(user, key, value), _positive(people)):
            block = cls._from_rows(rows)
            yield block if schema is None else block.keyed(schema)

    @classmethod
    def _from_rows(cls, rows: Rows) -> Population:
        return cls(rows.names, *rows.grouped())

    @property
    def n(self) -> int:
        """How many people there are, those with nothing included."""
        return len(self.offsets) - 1

    @property
    def pairs(self) -> int:
        """How many pairs there are altogether."""
        return len(self.keys)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """How many pairs each person holds."""
        return np.diff(self.offsets)

    def __repr__(self) -> str:
        keys = self.names if isinstance(self.names, int) else len(self.names)
        return f"Population({self.n} people, {self.pairs} pairs, {keys} keys, notes={dict(self.notes)})"

    def blocks(self, people: int = 1 << 16) -> Iterator[Population]:
        """The population in pieces of at most ``people``, in order, without copying their pairs."""
        for start in range(0, self.n, _positive(people)):
            offsets = self.offsets[start : start + people + 1]
            rows = slice(offsets[0], offsets[-1])
            yield Population(self.names, offsets - offsets[0], self.keys[rows], self.values[rows])

    def schema(
        self,
        low: Bound | None = None,
        high: Bound | None = None,
        map: Maps = "linear",
        other: str | None = None,
        levels: Any = None,
        hierarchy: bool = False,
        groups: Sequence[str] | None = None,
    ) -> Schema:
        """A schema with the keys and, where neither bounds nor levels are given, the least and largest value there is.

        Numbered keys stay numbered if every number occurs. If all values are the same v, the range is v - 1 to v + 1.
        Bounds may be those of coordinates, as in "rating=1,price=0". With ``groups`` keys are those of the groups.
        """
        used = self._used()
        if not len(used):
            raise PopulationError("population/empty", "Nobody holds a pair, so the data name no keys.")
        keys: int | list[str]
        if isinstance(self.names, tuple):
            keys = sorted(self.names[place] for place in used.tolist())
        else:
            keys = self.names if len(used) == self.names else [str(number) for number in used.tolist()]
        if not isinstance(keys, int):
            low, high = by_coordinate(keys, low), by_coordinate(keys, high)
        if groups is not None:
            keys = keys_within([str(key) for key in range(keys)] if isinstance(keys, int) else keys, groups)
        if levels is not None:
            return Schema(keys, low, high, map, other, levels, hierarchy, groups)
        least, most = float(self.values.min()), float(self.values.max())
        if least == most and low is None and high is None:
            least, most = least - 1, most + 1
        ends = least if low is None else low, most if high is None else high
        return Schema(keys, *ends, map, other, hierarchy=hierarchy, groups=groups)

    def keyed(self, schema: Schema) -> Population:
        """The same people with a schema's keys: unknown ones are dropped or moved to ``other``, where the last wins.

        In a hierarchy everybody also gets the keys above their own; their values lie on the schema's grid.
        """
        names = schema.names if isinstance(schema.names, tuple) or schema.d == schema.names else schema.keys
        if self.names == names:
            return self._closed(schema) if schema.hierarchy else self
        keys = self._places(schema)
        unknown = int(np.count_nonzero(keys == NO_KEY))
        users, values = self._users(), self.values
        other = None if schema.other is None else schema.index(schema.other)
        if unknown and other is not None:
            keys[keys == NO_KEY] = other
            kept = last_of_each(users, keys)
        else:
            kept = keys != NO_KEY if unknown else None
        if kept is not None:
            users, keys, values = users[kept], keys[kept], values[kept]
        notes = {**self.notes, "unknown": unknown} if unknown else self.notes
        known = Population(names, offsets_of(users, self.n), keys, values, notes)
        return known._closed(schema) if schema.hierarchy else known

    def _closed(self, schema: Schema) -> Population:
        """The same people, with the schema's keys already, and what ``Schema.read`` adds in a hierarchy."""
        grid = schema.to_grid(self.keys, self.values).astype(np.int64)
        users, keys, at, given = closed_columns(self._users(), self.keys.astype(np.int64), grid, schema.above)
        values = np.where(given >= 0, self.values[given], schema.from_unit(at / GRID, keys))
        return Population(self.names, offsets_of(users, self.n), keys.astype(np.int32), values, self.notes)

    def records(self, schema: Schema) -> Records:
        """What ``schema.read`` makes of every person, as columns."""
        known = self.keyed(schema)
        keys, values = known.keys, known.values
        code = (known._users() << 32) | keys
        if (code[1:] < code[:-1]).any():
            order = np.argsort(code)
            keys, values = keys[order], values[order]
        return Records(known.offsets, keys, schema.to_grid(keys, values), schema.d)

    def truth(self, schema: Schema) -> Truth:
        """Frequencies and means as they are."""
        known = self.keyed(schema)
        unit = schema.to_unit(known.keys, known.values)
        count = np.bincount(known.keys, minlength=schema.d)
        total = np.bincount(known.keys, weights=unit, minlength=schema.d)
        return Truth(schema, self.n, count.astype(np.int64), total.astype(np.float64))

    def variance(self, schema: Schema) -> NDArray[np.float64]:
        """The variance of the values of each key among its owners, on [-1, 1]; NaN where nobody has it."""
        known, truth = self.keyed(schema), self.truth(schema)
        off = schema.to_unit(known.keys, known.values) - truth.mean[known.keys]
        squares = np.bincount(known.keys, weights=off**2, minlength=schema.d)
        spread: NDArray[np.float64] = np.full(schema.d, np.nan)
        np.divide(squares, truth.count, out=spread, where=truth.count > 0)
        return spread

    def histogram(self, schema: Schema, bins: int) -> NDArray[np.int64]:
        """How many owners of each key have a value in each of ``bins`` equal cells of [-1, 1]; adds up over blocks."""
        known = self.keyed(schema)
        unit = schema.to_unit(known.keys, known.values)
        cells = np.minimum(((unit + 1) * (_positive(bins) / 2)).astype(np.int64), bins - 1)
        counts = np.bincount(known.keys.astype(np.int64) * bins + cells, minlength=schema.d * bins)
        return counts.reshape(schema.d, bins).astype(np.int64)

    def distribution(self, schema: Schema, bins: int) -> NDArray[np.float64]:
        """The law of each key's values among its owners on ``bins`` equal cells of [-1, 1]; NaN where nobody has it."""
        return _law(self.histogram(schema, bins).astype(np.float64))

    def distribution_at(self, schema: Schema, points: Points) -> NDArray[np.float64]:
        """The law of each key's values after they are rounded to points, as expected; NaN where nobody has the key."""
        known = self.keyed(schema)
        unit = schema.to_unit(known.keys, known.values)
        shares = points.shares(known.keys.astype(np.int64), unit)
        held = [np.bincount(known.keys, weights=column, minlength=schema.d) for column in shares.T]
        return _law(np.stack(held, axis=1))

    def _users(self) -> NDArray[np.int64]:
        return np.repeat(np.arange(self.n), self.sizes)

    def _used(self) -> NDArray[np.int64]:
        """The keys that occur, in order."""
        count = self.names if isinstance(self.names, int) else len(self.names)
        if count > 4 * self.pairs + (1 << 16):  # few of very many numbers: do not make room for them all
            return np.unique(self.keys).astype(np.int64)
        return np.flatnonzero(np.bincount(self.keys, minlength=count))

    def _places(self, schema: Schema) -> NDArray[np.int32]:
        """For every pair the schema's position of its key, or NO_KEY."""
        if isinstance(self.names, int) and isinstance(schema.names, int):
            return np.where(self.keys < schema.names, self.keys, NO_KEY).astype(np.int32)
        if isinstance(self.names, int):
            used = self._used()
            return _found(schema, used.tolist())[np.searchsorted(used, self.keys)]
        return _found(schema, self.names)[self.keys]


def _found(schema: Schema, names: Iterable[str | int]) -> NDArray[np.int32]:
    places = (schema.index(name) for name in names)
    return np.array([NO_KEY if place is None else place for place in places], dtype=np.int32)


def _positive(number: int) -> int:
    if number < 1:
        raise PopulationError("population/size", f"A size of at least 1 is needed, not {number}.")
    return number


def _law(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows that sum to one; NaN where there is nothing."""
    owners = counts.sum(axis=1, keepdims=True)
    law = np.full(counts.shape, np.nan)
    np.divide(counts, owners, out=law, where=owners > 0)
    return law
