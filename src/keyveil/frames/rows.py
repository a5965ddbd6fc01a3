"""Rows of user, key and value on their way to columns by person: codes instead of names, one rule for doubtful rows.

The rule, wherever rows come from: people keep the order in which they first appear. A row with a null key says that
the person exists and holds nothing; a row with a null user is nobody's and is dropped. A pair whose value is null,
NaN or infinite is dropped; the person stays. Of several such pairs for one person and key the last one wins. What was
dropped is counted in the notes: ``no_user``, ``not_finite``, ``no_key``, ``duplicates``.

A record is read as a device reads it: whatever a pair holds, it counts or it is absent. A column has one type; one of
text where numbers belong is the wrong column, and is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.core.errors import PopulationError
from keyveil.core.pairs import is_number, key_in, value_in

NO_USER = NO_KEY = -1
_MOST = (1 << 31) - 1  # keys are int32

Names = tuple[str, ...] | int


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows with users as numbers below ``people`` and keys as positions in ``names`` (NO_USER and NO_KEY for null)."""

    people: int
    users: NDArray[np.int64]
    keys: NDArray[np.int32]
    values: NDArray[np.float64]
    names: Names
    notes: Mapping[str, int] = field(default_factory=dict)

    def grouped(self) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64], dict[str, int]]:
        """Offsets per person, keys, values and notes, after the rule above; pairs of a person keep their order."""
        users, keys, values = self.users, self.keys, self.values
        notes = dict(self.notes)
        if self.people < 1:
            raise nobody()
        known, finite = users != NO_USER, np.isfinite(values)
        held = known & (keys != NO_KEY)
        kept = held & finite
        if not kept.all():
            notes["no_user"] = notes.get("no_user", 0) + int(np.count_nonzero(~known))
            notes["not_finite"] = int(np.count_nonzero(held & ~finite))
            users, keys, values = users[kept], keys[kept], values[kept]
        if (users[1:] < users[:-1]).any():
            order = np.argsort(users, kind="stable")
            users, keys, values = users[order], keys[order], values[order]
        last = last_of_each(users, keys)
        if last is not None:
            notes["duplicates"] = int(len(last) - np.count_nonzero(last))
            users, keys, values = users[last], keys[last], values[last]
        return offsets_of(users, self.people), keys, values, {name: count for name, count in notes.items() if count}


def last_of_each(users: NDArray[np.int64], keys: NDArray[np.int32]) -> NDArray[np.bool_] | None:
    """Which rows are the last of their person and key, or None if no row is repeated."""
    code = (users << 32) | keys
    if (code[1:] > code[:-1]).all():
        return None
    ranked = np.sort(code)  # far cheaper than the order itself, which is seldom needed
    if (ranked[1:] != ranked[:-1]).all():
        return None
    order = np.argsort(code, kind="stable")
    ends = np.append(code[order[1:]] != code[order[:-1]], True)
    last = np.zeros(len(code), dtype=np.bool_)
    last[order[ends]] = True
    return last


def offsets_of(users: NDArray[np.int64], people: int) -> NDArray[np.int64]:
    """Where each person's rows begin, from sorted users."""
    offsets = np.zeros(people + 1, dtype=np.int64)
    np.cumsum(np.bincount(users, minlength=people), out=offsets[1:])
    return offsets


def rows_of_columns(users: Any, keys: Any, values: Any, people: int | None = None) -> Rows:
    """Rows of three arrays or lists; with ``people`` given, users are numbers below it and some may have no row."""
    users, keys, values = np.asarray(users), np.asarray(keys), np.asarray(values)
    if not users.shape == keys.shape == values.shape == (users.size,):
        raise PopulationError("population/lengths", "Users, keys and values must be columns of the same length.")
    if values.dtype == object:
        values = np.array([_double(value) for value in values], dtype=np.float64)
    if values.dtype.kind not in "fiub":
        raise wrong_type("value", "numbers")
    codes, count = _people(users) if people is None else (_below(users, people), people)
    places, names = _places(keys)
    return Rows(count, codes, places, values.astype(np.float64), names)


def rows_of_records(records: Iterable[Mapping[Any, Any]]) -> Rows:
    """Rows of one mapping per person; an empty one is a person too."""
    sizes: list[int] = []
    keys: list[str | int | None] = []
    values: list[float] = []
    for record in records:
        if not isinstance(record, Mapping):
            raise PopulationError(
                "population/record", f"Person {len(sizes)} is a {type(record).__name__}, not a mapping."
            )
        sizes.append(len(record))
        keys.extend(map(key_in, record.keys()))
        values.extend(map(value_in, record.values()))
    users = np.repeat(np.arange(len(sizes)), sizes)
    rows = rows_of_columns(users, np.fromiter(keys, dtype=object), np.array(values, dtype=np.float64), len(sizes))
    return replace(rows, notes={"no_key": keys.count(None)})


def numbered(keys: NDArray[Any], held: NDArray[np.bool_]) -> tuple[NDArray[np.int32], Names]:
    """Positions and names of keys that are whole numbers: their own positions, unless negative or very large."""
    given = keys[held]
    places = np.full(len(keys), NO_KEY, dtype=np.int32)
    if not len(given):
        return places, 0
    if given.min() >= 0 and given.max() < _MOST:
        places[held] = given
        return places, int(given.max()) + 1
    numbers, places[held] = np.unique(given, return_inverse=True)
    return places, tuple(str(number) for number in numbers.tolist())


def plain_numbers(names: Sequence[str]) -> NDArray[np.int64] | None:
    """The numbers that all the names spell without needless signs and zeros, if they do."""
    if not all(name.isascii() and name.isdigit() and len(name) < 10 and str(int(name)) == name for name in names):
        return None
    return np.array([int(name) for name in names], dtype=np.int64)


def rising(users: NDArray[Any]) -> tuple[NDArray[np.int64], int] | None:
    """Users numbered in the order of first appearance, and how many there are, if they are sorted numbers."""
    if not len(users) or (users[1:] < users[:-1]).any():
        return None
    codes = np.zeros(len(users), dtype=np.int64)
    np.cumsum(users[1:] != users[:-1], out=codes[1:])
    return codes, int(codes[-1]) + 1


def nobody() -> PopulationError:
    return PopulationError("population/empty", "There are no people: no row names a user.")


def wrong_type(column: str, wanted: str) -> PopulationError:
    return PopulationError("population/type", f"The column {column!r} must hold {wanted}.")


def _double(value: object) -> float:
    if value is not None and not is_number(value):
        raise wrong_type("value", "numbers")
    return value_in(value)


def _people(users: NDArray[Any]) -> tuple[NDArray[np.int64], int]:
    """Users numbered in the order of first appearance."""
    if users.dtype.kind not in "iu":
        seen: dict[Any, int] = {}
        # A user that is not equal to itself is NaN, which is how some frames write null.
        codes = [
            NO_USER if user is None or user != user else seen.setdefault(user, len(seen)) for user in users.tolist()
        ]
        return np.array(codes, dtype=np.int64), len(seen)
    numbered_runs = rising(users)
    if numbered_runs is not None:
        return numbered_runs
    # Rows of one person mostly stand together: number the runs, not the rows.
    starts = np.flatnonzero(np.append(True, users[1:] != users[:-1])[: len(users)])
    _, first, run = np.unique(users[starts], return_index=True, return_inverse=True)
    place = np.empty(len(first), dtype=np.int64)
    place[np.argsort(first)] = np.arange(len(first))
    return np.repeat(place[run], np.diff(np.append(starts, len(users)))), len(first)


def _below(users: NDArray[Any], people: int) -> NDArray[np.int64]:
    if users.size and (users.dtype.kind not in "iu" or users.min() < 0 or users.max() >= people):
        raise PopulationError(
            "population/users", f"With people={people}, users are whole numbers from 0 to {people - 1}."
        )
    return users.astype(np.int64)


def _places(keys: NDArray[Any]) -> tuple[NDArray[np.int32], Names]:
    if keys.dtype.kind in "iu":
        return numbered(keys, np.ones(len(keys), dtype=np.bool_))
    given = keys.tolist()
    kinds = {type(key) for key in given} - {type(None)}
    if bool in kinds or not all(issubclass(kind, str | Integral) for kind in kinds):
        raise wrong_type("key", "names or whole numbers")
    if not any(issubclass(kind, str) for kind in kinds):
        held = np.array([key is not None for key in given], dtype=np.bool_)
        return numbered(np.array([key or 0 for key in given], dtype=object), held)  # of any size
    seen: dict[str, int] = {}
    places = [NO_KEY if key is None else seen.setdefault(str(key), len(seen)) for key in given]
    return np.array(places, dtype=np.int32), tuple(seen)
