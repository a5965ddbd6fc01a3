"""Keys with parts, such as "berlin/fries" or "food/fruit/apple": several dimensions, a hierarchy, or coordinates.

Keys of several dimensions are one domain (``product_keys``). In a hierarchy whoever holds a key also holds the keys
above it (``Schema(..., hierarchy=True)``). The coordinates of a value are keys that differ in their last part.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from keyveil.core.errors import SchemaError
from keyveil.core.levels import per_key

if TYPE_CHECKING:
    from keyveil.core.schema import Schema

SEPARATOR = "/"
MOST_PARTS = 8  # of a key in a hierarchy: a device that reads d keys makes at most 8·d of them

Integers = NDArray[np.int64]


def joint_key(*parts: str) -> str:
    """The name of a combination, one part a dimension."""
    for part in parts:
        if not part or SEPARATOR in part:
            raise SchemaError("schema/part", f"A part of a key must be a name without {SEPARATOR!r}, not {part!r}.")
    return SEPARATOR.join(parts)


def product_keys(*dimensions: Sequence[str]) -> list[str]:
    """All combinations, the last dimension running fastest (mixed radix)."""
    return [joint_key(*parts) for parts in product(*dimensions)]


def depth(key: str) -> int:
    """How many parts a key has."""
    return key.count(SEPARATOR) + 1


def coordinate(key: str) -> str:
    """The last part of a key: the coordinate that it is, where values have several; "value" of a key without parts."""
    return key.rpartition(SEPARATOR)[2] if SEPARATOR in key else "value"


def by_coordinate(keys: Iterable[str], given: Any) -> Any:
    """Bounds written like "rating=1,price=0" as a mapping from keys to bounds; anything else stays what it is."""
    if not isinstance(given, str) or "=" not in given:
        return given
    ends: dict[str, str] = {}
    for entry in given.split(","):
        name, _, bound = (part.strip() for part in entry.partition("="))
        if not name or not bound or name in ends:
            raise SchemaError(
                "schema/range", f"Bounds of coordinates are written like rating=1,price=0, not {given!r}."
            )
        ends[name] = bound
    names = {coordinate(key) for key in keys}
    if missing := sorted(names - set(ends)) or sorted(set(ends) - names):
        told = "has no bound" if missing[0] in names else "is no last part of a key"
        raise SchemaError("schema/range", f"The coordinate {missing[0]!r} {told}.")
    return {key: ends[coordinate(key)] for key in keys}


def some_keys(schema: Schema, places: Sequence[int]) -> Schema:
    """The schema of some of the keys, each with its range, scale and levels; without ``other``."""
    if len(places) == schema.d and schema.other is None and not schema.hierarchy:
        return schema
    entries: dict[str, Any] = {}
    for name in ("low", "high", "map"):
        entry = getattr(schema, name)
        entries[name] = [entry[place] for place in places] if isinstance(entry, tuple) else entry
    levels = None if schema.levels is None else [schema.levels_of(place) for place in places]
    return type(schema)([schema.keys[place] for place in places], **entries, levels=levels)


# -- hierarchies ------------------------------------------------------------------------------------------------------


def with_ancestors(names: Iterable[str]) -> tuple[str, ...]:
    """The keys and all keys above them, each key behind those above it."""
    whole: dict[str, None] = {}
    for name in names:
        parts = name.split(SEPARATOR)
        if not all(parts) or len(parts) > MOST_PARTS:
            told = f"has from 1 to {MOST_PARTS} parts, none of them empty, unlike {name[:60]!r}"
            raise SchemaError("schema/part", f"A key of a hierarchy {told}.")
        for level in range(1, len(parts) + 1):
            whole.setdefault(SEPARATOR.join(parts[:level]))
    return tuple(whole)


def levels_below(names: Sequence[str], levels: Any, d: int) -> Any:
    """Levels of a hierarchy: keys that have others below them have means, which are no levels."""
    if levels is None:
        return None
    inner = {place for above in ancestors(names) for place in above}
    return tuple(None if place in inner else row for place, row in enumerate(per_key(levels, d))) if inner else levels


def one_range(levels: Any, low: Fraction | None, high: Fraction | None) -> tuple[Fraction | None, Fraction | None]:
    """The bounds of all keys of a hierarchy: those of the levels, where none are given."""
    if levels is None:
        return low, high
    rows = [row for row in per_key(levels, 1) if row is not None]
    return min(row[0] for row in rows) if low is None else low, max(row[-1] for row in rows) if high is None else high


def ancestors(names: Sequence[str]) -> list[tuple[int, ...]]:
    """For every key the places of the keys above it, the highest first."""
    places = {name: place for place, name in enumerate(names)}
    split = (name.split(SEPARATOR) for name in names)
    return [tuple(places[SEPARATOR.join(parts[:level])] for level in range(1, len(parts))) for parts in split]


def closed(pairs: Mapping[int, int], above: Sequence[Sequence[int]]) -> dict[int, int]:
    """A record with the keys above its own, each with the mean, on the grid, of the lowest pairs below it.

    A pair that has others below it in the record is not looked at: its key gets their mean. Closing twice is closing
    once.
    """
    inner = {higher for key in pairs for higher in above[key]}
    below: dict[int, list[int]] = {}
    lowest = {key: value for key, value in pairs.items() if key not in inner}
    for key, value in lowest.items():
        for higher in above[key]:
            below.setdefault(higher, []).append(value)
    return lowest | {key: _mean(sum(values), len(values)) for key, values in below.items()}


def closed_columns(
    users: Integers, keys: Integers, values: Integers, above: Sequence[Sequence[int]]
) -> tuple[Integers, Integers, Integers, Integers]:
    """``closed`` for many people: users, keys and values on the grid, sorted; and the row each pair stood in, or -1."""
    d, deepest = len(above), max(map(len, above))
    padded = np.array([[*row, *[-1] * (deepest - len(row))] for row in above], dtype=np.int64).reshape(d, deepest)
    higher = padded[keys]
    codes = np.where(higher >= 0, users[:, None] * d + higher, -1)
    lowest = ~np.isin(users * d + keys, codes)
    codes, at = codes[lowest], np.broadcast_to(values[lowest, None], codes[lowest].shape)
    there = codes >= 0
    found, where, counts = np.unique(codes[there], return_inverse=True, return_counts=True)
    sums = np.zeros(len(found), dtype=np.int64)
    np.add.at(sums, where, at[there])
    all_codes = np.concatenate((users[lowest] * d + keys[lowest], found))
    order = np.argsort(all_codes, kind="stable")
    all_values = np.concatenate((values[lowest], _mean(sums, counts)))
    given = np.concatenate((np.flatnonzero(lowest), np.full(len(found), -1)))[order]
    return all_codes[order] // d, all_codes[order] % d, all_values[order], given


def _mean(total: Any, count: Any) -> Any:
    """A mean of whole numbers, rounded to the nearest one, halves upwards."""
    return (2 * total + count) // (2 * count)
