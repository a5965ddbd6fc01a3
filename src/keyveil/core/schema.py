"""The public agreement about what a record may hold: which keys there are, and the range of their values.

Every value is brought to the scale [-1, 1] by constants that everybody knows, and there to the grid z / 2^16: a
device works on the whole numbers z only. What a schema does to a record it does before any randomness, so it costs
no privacy and hides nothing.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from numbers import Integral
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from keyveil.core.canonical import canonical, decimal
from keyveil.core.dimensions import ancestors, closed, levels_below, one_range, with_ancestors
from keyveil.core.errors import RecordError, SchemaError
from keyveil.core.groups import for_every_group, keys_of_groups, levels_for_every_group, read_groups
from keyveil.core.hints import did_you_mean
from keyveil.core.levels import Levels, per_key, read_levels, spanned, spelled
from keyveil.core.pairs import key_in, value_in
from keyveil.core.scales import known_map, logarithms, read_bound, scale_of

GRID = 1 << 16
"""Values live on z / GRID with z from -GRID to GRID."""

MOST_KEYS = 1 << 24

Number = int | float | str | Decimal | Fraction | np.number[Any]
Bound = Number | Mapping[str, Number] | Sequence[Number] | NDArray[Any]
Maps = str | Mapping[str, str] | Sequence[str]

T = TypeVar("T")

_FIELDS = {"keys", "low", "high", "map", "other", "levels", "hierarchy", "groups"}


@dataclass(frozen=True, init=False, repr=False)
class Schema:
    """Keys and value ranges; equal schemas have equal hashes.

    ``keys`` are names, or a count for keys named "0", "1", …; a whole number always stands for the name with its
    digits. ``low`` and ``high`` hold for all keys, or per key as a mapping or a sequence; values outside are clamped.
    ``map="log"`` takes values on a logarithmic scale, so that means are geometric means (keys that a mapping leaves
    out stay linear). ``other`` names the key that receives every unknown key; it is added if it is not there.
    ``levels`` are the only values there are, such as [1, 2, 3, 4, 5], for all keys or per key as a mapping (keys that
    it leaves out have none). The range then is that of the levels, and ``low`` and ``high`` may be left out.
    ``hierarchy`` says that keys such as "food/fruit/apple" lie below "food/fruit" and "food", which are added: whoever
    holds a key holds those above it, with the mean of the values below.
    ``groups`` such as ["de", "fr"] make every key one of each group: "de/fries", "fr/fries" (``core.groups``). Bounds,
    maps and levels by key then hold in every group.
    """

    names: tuple[str, ...] | int
    low: Fraction | tuple[Fraction, ...]
    high: Fraction | tuple[Fraction, ...]
    map: str | tuple[str, ...]
    other: str | None
    levels: Levels | tuple[Levels | None, ...] | None
    hierarchy: bool
    groups: tuple[str, ...] | None
    within: tuple[str, ...] | int | None  # the keys of every group, where there are groups

    def __init__(
        self,
        keys: Iterable[str] | int,
        low: Bound | None = None,
        high: Bound | None = None,
        map: Maps = "linear",
        other: str | None = None,
        levels: Any = None,
        hierarchy: bool = False,
        groups: Iterable[str] | None = None,
    ) -> None:
        put = object.__setattr__
        put(self, "groups", read_groups(groups))
        if self.groups is not None and (other is not None or hierarchy):
            told = "Keys of groups have no other key that receives unknown ones, and form no hierarchy."
            raise SchemaError("schema/groups", told)
        put(self, "other", None if other is None else _name(other))
        put(self, "hierarchy", _flag(hierarchy))
        put(self, "names", _names(keys, self.other, self.hierarchy))
        if not self.names:
            raise SchemaError("schema/empty", "A schema needs at least one key.")
        put(self, "within", None if self.groups is None else self.names)
        if self.groups is not None:
            put(self, "names", keys_of_groups(self.groups, self.names))
            low, high, map = (for_every_group(given, self.groups, self.within) for given in (low, high, map))
            levels = levels_for_every_group(levels, self.groups, self.within)
        if self.d > MOST_KEYS:
            raise SchemaError("schema/too-many", f"A schema has at most {MOST_KEYS} keys, not {self.d}.")
        put(self, "levels", read_levels(levels, self.index, self.d))
        least, most = (None if bound is None else _each(self, bound, read_bound) for bound in (low, high))
        if self.hierarchy:
            put(self, "levels", levels_below(self.keys, self.levels, self.d))
            least, most = one_range(self.levels, least, most)
        least, most = spanned(self.levels, least, most, self.d)
        put(self, "low", least)
        put(self, "high", most)
        put(self, "map", _each(self, map, known_map, missing="linear"))
        if self.hierarchy and any(isinstance(entry, tuple) for entry in (self.low, self.high, self.map)):
            told = "Keys of a hierarchy need one range for all of them, because a key has the mean of those below it."
            raise SchemaError("schema/hierarchy", told)
        _ = self._scales  # refuses impossible ranges now, not at the first record
        _ = self._grid_levels

    @cached_property
    def d(self) -> int:
        """How many keys there are, ``other`` included."""
        if isinstance(self.names, tuple):
            return len(self.names)
        return self.names + (self.other is not None and _number(self.other, self.names) is None)

    def __len__(self) -> int:
        return self.d

    def __repr__(self) -> str:
        keys = self.names if isinstance(self.names, int) or self.d <= 8 else f"<{self.d} names>"
        low, high = ("<per key>" if isinstance(bound, tuple) else decimal(bound) for bound in (self.low, self.high))
        scale = self.map if isinstance(self.map, str) else "<per key>"
        levels = "" if self.levels is None else f", levels={self._levels_text()}"
        return f"Schema(keys={keys}, low={low}, high={high}, map={scale}, other={self.other!r}{levels})"

    def _levels_text(self) -> str:
        return f"[{', '.join(map(str, spelled(self.levels)))}]" if self._alike else "<per key>"

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The names of all keys, in order."""
        if isinstance(self.names, tuple):
            return self.names
        numbered = tuple(str(number) for number in range(self.names))
        return numbered if self.d == self.names else (*numbered, str(self.other))

    def index(self, name: str | int) -> int | None:
        """The position of a key, or None if the schema does not know it."""
        if isinstance(self.names, tuple):
            return self._positions.get(name if isinstance(name, str) else str(name))
        if isinstance(name, str):
            number = _number(name, self.names)
            return self.d - 1 if number is None and name == self.other else number
        return name if 0 <= name < self.names else None

    def place(self, name: str | int) -> int:
        """The position of a key, refused if the schema does not know it."""
        position = self.index(name)
        if position is None:
            hint = "" if isinstance(self.names, int) else did_you_mean(name, self.names)
            raise SchemaError("schema/unknown-key", f"The schema has no key {name!r}{hint}.")
        return position

    def read(self, record: Mapping[Any, Any]) -> list[tuple[int, int]]:
        """The record as a mechanism sees it: pairs (key index, z on the grid), sorted, one per key.

        Unknown keys are dropped or fall on ``other``, where the last one wins. A pair that cannot be read (its value is
        no finite number, its key neither a name nor a whole number) counts as absent: a refusal would tell of it.
        """
        if not isinstance(record, Mapping):
            raise RecordError("record/type", f"A record maps keys to values; this is a {type(record).__name__}.")
        scales, one = self._scales, len(self._scales) == 1
        pairs: dict[int, int] = {}
        for key, given in record.items():
            value = given if type(given) is float else value_in(given)
            name = key if type(key) is str else key_in(key)
            if name is None or not math.isfinite(value):
                continue
            index = self.index(name)
            if index is None:
                index = self._other
                if index is None:
                    continue
            middle, half, logarithmic = scales[0 if one else index]
            if logarithmic:
                value = math.log(value) if value > 0 else -math.inf
            unit = (value - middle) / half
            pairs[index] = -GRID if unit <= -1 else GRID if unit >= 1 else round(unit * GRID)
        return sorted((closed(pairs, self.above) if self.hierarchy else pairs).items())

    @cached_property
    def above(self) -> list[tuple[int, ...]]:
        """For every key of a hierarchy the positions of the keys above it, the highest first."""
        return ancestors(self.keys)

    def to_unit(self, keys: NDArray[Any], values: ArrayLike) -> NDArray[np.float64]:
        """Values of the given keys on the scale [-1, 1], clamped; NaN stays NaN."""
        middle, half, logarithmic = self._at(keys)
        unit = np.asarray(values, dtype=np.float64)
        if logarithmic.any():
            logs = np.broadcast_to(logarithmic, unit.shape)
            unit = unit.copy()
            unit[logs] = logarithms(unit[logs])
        with np.errstate(over="ignore"):
            unit = (unit - middle) / half
        return np.clip(unit, -1.0, 1.0)

    def to_grid(self, keys: NDArray[Any], values: ArrayLike) -> NDArray[np.int32]:
        """Values of the given keys as z on the grid, exactly as ``read`` takes them."""
        unit = self.to_unit(keys, values)
        if np.isnan(unit).any():
            raise RecordError("record/not-a-number", "A value that is not a number has no place on the grid.")
        return np.rint(unit * GRID).astype(np.int32)

    def from_unit(self, unit: ArrayLike, keys: NDArray[Any] | None = None) -> NDArray[np.float64]:
        """From [-1, 1] to the schema's units, without clamping; the last axis runs over ``keys`` (default: all)."""
        middle, half, logarithmic = self._at(keys)
        plain = np.asarray(middle + half * np.asarray(unit, dtype=np.float64))
        return np.where(logarithmic, np.exp(np.where(logarithmic, plain, 0.0)), plain)

    def slope(self, unit: ArrayLike, keys: NDArray[Any] | None = None) -> NDArray[np.float64]:
        """The derivative of ``from_unit``: what a small error on [-1, 1] becomes in the schema's units."""
        _, half, logarithmic = self._at(keys)
        return np.where(logarithmic, half * self.from_unit(unit, keys), half + np.zeros(np.shape(unit)))

    def levels_of(self, key: int) -> Levels | None:
        """The levels of the key at a position, in its units; None if it has any values of its range."""
        rows = tuple(per_key(self.levels, 1 if self._alike else self.d))
        return rows[0 if self._alike else key]

    def grid_levels(self, key: int) -> tuple[int, ...] | None:
        """The levels of the key at a position as z on the grid."""
        return self._grid_levels[0 if len(self._grid_levels) == 1 else key]

    @cached_property
    def most_levels(self) -> int:
        """How many levels the key with the most of them has; 0 if there are none."""
        return max(len(row or ()) for row in self._grid_levels)

    def first(self, keys: int, levels: int) -> Schema:
        """A small schema like this one: at most so many numbered keys, each with at most so many levels.

        Itself if it is as small; without levels, any range will do for what it is needed for: writing all reports down.
        """
        if self.d <= keys and self.most_levels <= levels:
            return self
        if self.levels is None:
            return Schema(keys=keys)
        rows = [row and row[:levels] for row in per_key(self.levels, self.d)][:keys]
        return Schema(keys=min(keys, self.d), levels=rows)

    def document(self) -> dict[str, Any]:
        """The schema as JSON without floats; defaults (linear, no ``other``, no levels) are left out."""
        names = self.names if self.within is None else self.within
        document: dict[str, Any] = {
            "keys": list(names) if isinstance(names, tuple) else names,
            "low": spelled(self.low),
            "high": spelled(self.high),
        }
        if self.map != "linear":
            document["map"] = list(self.map) if isinstance(self.map, tuple) else self.map
        if self.other is not None:
            document["other"] = self.other
        if self.levels is not None:
            document["levels"] = spelled(self.levels)
        if self.hierarchy:
            document["hierarchy"] = True
        if self.groups is not None:
            document["groups"] = list(self.groups)
        return document

    @classmethod
    def from_document(cls, document: Any) -> Schema:
        """The schema that a document describes; ``document`` reverses it."""
        if not isinstance(document, dict) or not {"keys"} <= set(document) <= _FIELDS:
            told = "A schema document has keys, and may have low, high, map, other, levels, hierarchy and groups."
            raise SchemaError("schema/document", told)
        canonical(document)  # no floats, so every reader sees the same numbers
        if None in (document.get("low", 0), document.get("high", 0)):
            raise SchemaError("schema/range", "A bound of the value range in a document is a number, not null.")
        return cls(**document)

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the canonical document, in hex."""
        return hashlib.sha256(canonical(self.document())).hexdigest()

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {name: position for position, name in enumerate(self.keys)}

    @cached_property
    def _other(self) -> int | None:
        return None if self.other is None else self.index(self.other)

    @cached_property
    def _scales(self) -> list[tuple[float, float, bool]]:
        """Middle, half width and whether logarithms are taken: one row for all keys, or one for each."""
        rows = max(len(entry) if isinstance(entry, tuple) else 1 for entry in (self.low, self.high, self.map))
        low, high, scale = _column(self.low, rows), _column(self.high, rows), _column(self.map, rows)
        return [scale_of(*each) for each in zip(low, high, scale, strict=True)]

    @cached_property
    def _alike(self) -> bool:
        return self.levels is None or isinstance(self.levels[0], Fraction)

    @cached_property
    def _grid_levels(self) -> list[tuple[int, ...] | None]:
        """The levels on the grid, exactly as ``read`` takes them: one row for all keys, or one for each."""
        one = self._alike and len(self._scales) == 1
        rows = list(per_key(self.levels, 1 if one else self.d))
        placed: list[tuple[int, ...] | None] = []
        for key, row in enumerate(rows):
            if row is None:
                placed.append(None)
                continue
            at = self.to_grid(np.full(len(row), key), [float(level) for level in row])
            if (np.diff(at) <= 0).any():
                raise SchemaError("schema/levels", "Two levels lie too close to be told apart in their range.")
            placed.append(tuple(at.tolist()))
        return placed

    @cached_property
    def _columns(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
        middle, half, logarithmic = zip(*self._scales, strict=True)
        return np.array(middle), np.array(half), np.array(logarithmic)

    def _at(self, keys: NDArray[Any] | None) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
        middle, half, logarithmic = self._columns
        if keys is None or len(middle) == 1:
            return middle, half, logarithmic
        return middle[keys], half[keys], logarithmic[keys]


def _names(keys: Iterable[str] | int, other: str | None, hierarchy: bool) -> tuple[str, ...] | int:
    if isinstance(keys, Integral) and not isinstance(keys, bool):
        if hierarchy:
            raise SchemaError("schema/hierarchy", "Keys of a hierarchy are names such as food/fruit/apple, no count.")
        if keys < 0:
            raise SchemaError("schema/count", f"The number of keys cannot be negative ({keys}).")
        return int(keys)
    if isinstance(keys, str | bytes) or not isinstance(keys, Iterable):
        raise SchemaError("schema/keys", f"Keys are a list of names or a count, not a {type(keys).__name__}.")
    names = tuple(_name(name) for name in keys)
    if other is not None and names and other not in names:
        names = (*names, other)
    if len(set(names)) < len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise SchemaError("schema/duplicate", f"The key {twice!r} is listed more than once.")
    return with_ancestors(names) if hierarchy else names


def _flag(given: object) -> bool:
    if not isinstance(given, bool):
        raise SchemaError("schema/hierarchy", f"A schema is a hierarchy or it is not: true or false, not {given!r}.")
    return given


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise SchemaError("schema/name", f"Key names are strings; {name!r} is a {type(name).__name__}.")
    if not name.isascii():
        try:
            name.encode()
        except UnicodeEncodeError as reason:
            raise SchemaError("schema/name", f"The key name {name!r} is not valid Unicode.") from reason
    return str(name)


def _number(name: str, count: int) -> int | None:
    """The number below ``count`` that a name spells without needless zeros."""
    if len(name) > 10 or not (name.isascii() and name.isdigit()) or (name[0] == "0" and name != "0"):
        return None
    number = int(name)
    return number if number < count else None


def _each(schema: Schema, given: Any, take: Any, missing: str | None = None) -> Any:
    """One entry for all keys, or a tuple with one per key; a tuple of equal entries is one entry."""
    if isinstance(given, Mapping):
        places = {schema.index(name): entry for name, entry in given.items()}
        if None in places:
            raise SchemaError("schema/unknown-key", "A range or map is given for a key that the schema does not have.")
        if missing is None and len(places) < schema.d:
            lacking = next(name for position, name in enumerate(schema.keys) if position not in places)
            raise SchemaError("schema/range", f"The key {lacking!r} has no bound; give one for every key.")
        given = [places.get(position, missing) for position in range(schema.d)]
    elif isinstance(given, str) or not isinstance(given, Sequence | np.ndarray):
        return take(given)
    if len(given) != schema.d:
        raise SchemaError("schema/length", f"{len(given)} ranges or maps are given for {schema.d} keys.")
    entries = tuple(take(entry) for entry in given)
    return entries[0] if entries.count(entries[0]) == len(entries) else entries


def _column(entry: T | tuple[T, ...], rows: int) -> tuple[T, ...]:
    return entry if isinstance(entry, tuple) else (entry,) * rows
