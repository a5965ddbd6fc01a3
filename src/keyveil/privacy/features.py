"""What an observer sees of reports: any Python object, taken apart into named columns of numbers.

A report may be a number, text, bytes, a tuple, an array, a set, a dictionary, an object with fields, or nothing at all.
Each part becomes a column: bits of bytes, coordinates and members of vectors, lengths, low-order bits of real numbers,
and the report as a whole. Parts that a report lacks hold ``MISSING``, for their absence can be seen, too. What a column
holds for a report depends on that report alone, never on its neighbours: only so are events the same in every sample.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, fields, is_dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.core.errors import PrivacyError

MISSING = -(1 << 63)
WHOLE = "the whole report"

_GIVEN = " as given"
_REAL = " as a real number"
_WIDEST = 1 << 12  # bits or coordinates of a part that are looked at one by one
_NUMBER = 7  # bytes that are also read as one number
_MOST_MEMBERS = 1 << 10  # symbols of a vector, from 0 on, whose presence is looked at one by one

Columns = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Silence:
    """No report: nothing was returned, or an error was raised."""

    reason: str = "nothing"


class Lexicon:
    """Numbers for things that are not numbers. Once closed, all things that it does not know have one number."""

    UNKNOWN = -1

    def __init__(self) -> None:
        self._codes: dict[Any, int] = {}
        self._things: list[Any] = []
        self.closed = False

    def code(self, thing: Any) -> int:
        known = self._codes.get(thing)
        if known is not None:
            return known
        if self.closed:
            return self.UNKNOWN
        self._codes[thing] = len(self._things)
        self._things.append(thing)
        return len(self._things) - 1

    def thing(self, code: int) -> Any:
        return self._things[code] if 0 <= code < len(self._things) else "something never seen before"


@dataclass(frozen=True)
class Features:
    """``n`` reports as columns; whole numbers and codes as integers, real numbers as floats."""

    n: int
    columns: Columns

    def column(self, name: str, real: bool = False) -> NDArray[Any]:
        """A column by name; if none of these reports has the part, all of it is missing."""
        if name in self.columns:
            return self.columns[name]
        return np.full(self.n, np.nan) if real else np.full(self.n, MISSING, dtype=np.int64)

    def rows(self, rows: slice) -> Features:
        """Some of the reports."""
        return Features(len(range(*rows.indices(self.n))), {name: held[rows] for name, held in self.columns.items()})


def stacked(several: Sequence[Features]) -> Features:
    """The reports of several samples as one sample."""
    kinds = {name: held.dtype.kind == "f" for one in several for name, held in one.columns.items()}
    columns = {name: np.concatenate([one.column(name, real) for one in several]) for name, real in kinds.items()}
    return Features(sum(one.n for one in several), columns)


def see(reports: Sequence[Any], lexicon: Lexicon, given: Sequence[bytes] = ()) -> Features:
    """Take reports apart, one object each; public bytes that come back as they were ``given`` say nothing.

    Where these are fixed, an order may follow from them, as cells of a circle have: then bytes are read as numbers too.
    Elsewhere that would only be more columns, and the more there are, the likelier chance hides what is rare.
    """
    n, fixed = len(reports), len(given) > 1 and len(set(given)) == 1
    gathered: dict[tuple[str, str], dict[int, Any]] = {}  # part: which report holds what
    wholes = np.full(n, MISSING, dtype=np.int64)
    for row, report in enumerate(reports):
        own = given[row] if given else None
        parts = [
            (name + _GIVEN, "number", 1) if kind == "bytes" and part == own else (name, kind, part)
            for name, kind, part in _parts("report", report)
        ]
        told = [part for part in parts if not part[0].endswith(_GIVEN)]
        for name, kind, part in parts:
            gathered.setdefault((name, kind), {})[row] = part
            if len(told) > 1 and kind in ("bytes", "vector"):  # beside an id, say: a part as a whole
                gathered.setdefault((name, "text"), {})[row] = part
        if len(parts) > 1 or parts[0][1] in ("bytes", "vector"):
            wholes[row] = lexicon.code(tuple((name, part) for name, _, part in told))
    columns: Columns = {}
    for (name, kind), held in gathered.items():
        values = list(held.values())
        numbers = _numbers(name, values) if fixed and kind == "bytes" else ()
        for title, column in (*_spread(name, kind, values, lexicon), *numbers):
            columns[title] = _placed(column, list(held), columns.get(title), n)
    if (wholes != MISSING).any():
        columns[WHOLE] = wholes
    return Features(n, columns)


def see_rows(name: str, rows: NDArray[Any], lexicon: Lexicon) -> Features:
    """Take an array apart that holds a report per row: symbols, packed words of bits, or vectors."""
    if rows.ndim == 1:
        kind = "real" if rows.dtype.kind == "f" else "number"
        return Features(len(rows), dict(_spread(name, kind, rows, lexicon)))
    rows = np.ascontiguousarray(rows)
    raw = rows.view(np.uint8).reshape(len(rows), -1)
    distinct, inverse = np.unique(raw.view(np.dtype((np.void, raw.shape[1])))[:, 0], return_inverse=True)
    codes = np.array([lexicon.code(row.tobytes()) for row in distinct], dtype=np.int64)
    words = rows.dtype == np.uint64
    parts = _bits(name, raw, np.full(len(rows), raw.shape[1])) if words else _coordinates(name, rows)
    return Features(len(rows), {**dict(parts), WHOLE: codes[inverse]})


def compared(one: Features, other: Features, beside: str) -> Features:
    """How every report differs from the one beside it: differences of numbers, and equality of what is no number."""
    columns: Columns = {}
    for name in dict.fromkeys([*one.columns, *other.columns]):
        real = any(held.columns[name].dtype.kind == "f" for held in (one, other) if name in held.columns)
        left, right = one.column(name, real), other.column(name, real)
        if name == WHOLE or name.endswith(" as text"):
            columns[f"{name} equal to that {beside}"] = (left == right).astype(np.int64)
        elif real:
            with np.errstate(invalid="ignore"):
                columns[f"{name.removesuffix(_REAL)} less that {beside}{_REAL}"] = left - right
        else:
            left, right = left.astype(np.int64), right.astype(np.int64)
            absent = (left == MISSING) != (right == MISSING)
            columns[f"{name} less that {beside}"] = np.where(absent, MISSING, left - right)
    return Features(one.n, columns)


# -- one report into parts ----------------------------------------------------------------------------------------


def _parts(name: str, part: Any) -> Iterator[tuple[str, str, Any]]:
    """The parts of a report: (name, kind, a hashable value)."""
    if part is None or isinstance(part, Silence):
        yield name, "text", Silence() if part is None else part
    elif isinstance(part, int | np.integer | np.bool_):
        yield name, "number" if abs(int(part)) < -MISSING else "text", int(part)
    elif isinstance(part, Real):
        yield name, "real", float(part)
    elif isinstance(part, str):
        yield name, "text", part
    elif isinstance(part, bytes | bytearray | memoryview):
        yield name, "bytes", bytes(part)
    elif isinstance(part, np.ndarray):
        yield from _parts(name, part.ravel().tolist())
    elif isinstance(part, AbstractSet):
        yield from _members(name, part)
    elif isinstance(part, Mapping):
        yield f"length of {name}", "number", len(part)
        yield from _named(name, ((f"[{key!r}]", value) for key, value in part.items()))
    elif isinstance(part, Sequence) and not hasattr(part, "_fields"):
        if part and all(type(one) in (int, bool) and abs(one) < -MISSING for one in part):
            yield name, "vector", tuple(part)
        else:
            yield f"length of {name}", "number", len(part)
            yield from _named(name, ((f"[{place}]", value) for place, value in enumerate(part)))
    else:
        yield from _object(name, part)


def _members(name: str, members: AbstractSet[Any]) -> Iterator[tuple[str, str, Any]]:
    if members and all(type(one) is int for one in members):
        yield name, "vector", tuple(sorted(members))
        return
    yield f"length of {name}", "number", len(members)
    for member in sorted(members, key=repr):
        yield f"{member!r} in {name}", "number", 1


def _object(name: str, thing: Any) -> Iterator[tuple[str, str, Any]]:
    """An object with fields, or one that can at least be compared."""
    if is_dataclass(thing) and not isinstance(thing, type):
        held = [field.name for field in fields(thing)]
    else:
        slots = getattr(thing, "__struct_fields__", ()) or getattr(thing, "_fields", ())
        held = list(slots or getattr(thing, "__dict__", {}))
    if held:
        yield from _named("" if name == "report" else name, ((f".{field}", getattr(thing, field)) for field in held))
    elif isinstance(thing, Hashable) and any("__eq__" in vars(kind) for kind in type(thing).__mro__[:-1]):
        yield name, "text", thing
    else:
        raise PrivacyError(
            "audit/report", f"A {type(thing).__name__} has no fields and cannot be compared; report plain data instead."
        )


def _named(name: str, parts: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, str, Any]]:
    for suffix, part in parts:
        yield from _parts((name + suffix).lstrip("."), part)


# -- many parts into columns --------------------------------------------------------------------------------------


def _placed(column: NDArray[Any], rows: list[int], before: NDArray[Any] | None, n: int) -> NDArray[Any]:
    """A column for all reports from those that have the part, beside those that have it in another form."""
    if len(rows) == n:
        return column
    real = column.dtype.kind == "f"
    placed = np.full(n, np.nan if real else MISSING, dtype=np.float64 if real else np.int64)
    if before is not None:
        placed[:] = before
    taken = column != MISSING  # a row without this coordinate may hold it in another form
    placed[np.array(rows)[taken]] = column[taken]
    return placed


def _spread(name: str, kind: str, values: Any, lexicon: Lexicon) -> Iterator[tuple[str, NDArray[Any]]]:
    if kind == "number":
        yield name, np.asarray(values, dtype=np.int64)
    elif kind == "text":
        yield f"{name} as text", np.array([lexicon.code(value) for value in values], dtype=np.int64)
    elif kind == "real":
        yield from _reals(name, np.asarray(values, dtype=np.float64))
    else:
        lengths = np.array([len(value) for value in values], dtype=np.int64)
        yield f"length of {name}", lengths
        longest = min(int(lengths.max()), _WIDEST // 8 if kind == "bytes" else _WIDEST)
        if kind == "bytes":
            padded = b"".join(value[:longest].ljust(longest, b"\0") for value in values)
            yield from _bits(name, np.frombuffer(padded, np.uint8).reshape(len(values), longest), lengths)
        else:
            rows = np.full((len(values), longest), MISSING, dtype=np.int64)
            for row, value in zip(rows, values, strict=True):
                row[: len(value)] = value[:longest]
            yield from _coordinates(name, rows)


def _bits(name: str, raw: NDArray[np.uint8], lengths: NDArray[np.int64]) -> Iterator[tuple[str, NDArray[Any]]]:
    bits = np.unpackbits(raw[:, : _WIDEST // 8], axis=1, bitorder="little")
    shortest = 8 * int(lengths.min())
    for place, column in enumerate(bits.T):
        held = column if place < shortest else np.where(8 * lengths > place, column.astype(np.int64), MISSING)
        yield f"bit {place} of {name}", held


def _numbers(name: str, values: Sequence[bytes]) -> Iterator[tuple[str, NDArray[Any]]]:
    """Short bytes as the whole numbers that they may spell: cells of a line that lie side by side share no bits."""
    for order, end in (("little", "lowest"), ("big", "highest")):
        read = [int.from_bytes(one, order) if 0 < len(one) <= _NUMBER else MISSING for one in values]  # type: ignore[arg-type]
        yield f"{name} as a number, {end} byte first", np.array(read, dtype=np.int64)


def _coordinates(name: str, rows: NDArray[Any]) -> Iterator[tuple[str, NDArray[Any]]]:
    for place in range(min(rows.shape[1], _WIDEST)):
        yield f"{name}[{place}]", rows[:, place]
    symbols = np.unique(rows)
    for symbol in symbols[(symbols >= 0) & (symbols < _MOST_MEMBERS)]:
        yield f"{symbol} in {name}", np.where((rows == symbol).any(axis=1), 1, MISSING)


def _reals(name: str, values: NDArray[np.float64]) -> Iterator[tuple[str, NDArray[Any]]]:
    """A real number, and the places where one can hide something: low-order bits, and digits after the visible ones."""
    yield f"{name}{_REAL}", values
    raw = values.view(np.int64)
    yield f"lowest bit of {name}", raw & 1
    yield f"lowest byte of {name}", raw & 0xFF
    yield f"trailing zero bits of {name}", np.bitwise_count((raw & -raw) - 1).astype(np.int64)
    with np.errstate(invalid="ignore", over="ignore"):
        for digits in (3, 6):
            scaled = values * 10.0**digits
            yield f"{name} beyond {digits} digits{_REAL}", scaled - np.rint(scaled)
