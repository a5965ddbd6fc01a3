"""What of a record counts, told to its owner: a mistake in a program should show there, and nowhere else.

A report never fails for the sake of a record, because then its absence would tell of the record. What cannot be read
counts as absent, here and in a report; only ``Device.preview`` may raise.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from keyveil.core.canonical import decimal
from keyveil.core.errors import RecordError
from keyveil.core.pairs import key_in, value_in
from keyveil.core.schema import Schema
from keyveil.mechanisms.base import Mechanism, Pairs
from keyveil.mechanisms.capabilities import Capped, can

RECORD, UNKNOWN, UNREADABLE, CLAMPED = "record", "unknown", "unreadable", "clamped"
ROUNDED, SURPLUS, INNER = "rounded", "surplus", "inner"


@dataclass(frozen=True)
class Ignored:
    """A part of a record that does not count, or not as it is."""

    why: str
    key: str  # empty where it is about the whole record
    sentence: str

    def document(self) -> dict[str, str]:
        return {"why": self.why, "key": self.key}


@dataclass(frozen=True)
class Preview:
    """What a mechanism would see of a record, and what it would not."""

    pairs: Pairs
    ignored: tuple[Ignored, ...] = ()

    def refuse_ignored(self) -> None:
        """Refuse a record of which something does not count."""
        if self.ignored:
            said = " ".join(one.sentence for one in self.ignored[:3])
            more = f" (and {len(self.ignored) - 3} more)" if len(self.ignored) > 3 else ""
            raise RecordError(f"record/{self.ignored[0].why}", said + more)


def look_at(record: Any, mechanism: Mechanism) -> Preview:
    """The pairs of any record that count; whatever it is, nothing is raised."""
    schema = mechanism.schema
    try:
        if not isinstance(record, Mapping):
            return Preview([], (_not_a_record(record),))
        held = dict(record.items())  # read once: an object may say something else the next time
        pairs = mechanism.check(schema.read(held))
        ignored = [note for key, value in held.items() if (note := _judged(key, value, schema)) is not None]
        ignored += _replaced(held, schema) if schema.hierarchy else []
    except Exception:  # an object that pretends to be a record may raise anything at all
        return Preview([], (_not_a_record(record),))
    capped = can(mechanism, Capped)
    if capped is not None and len(pairs) > capped.cap():
        surplus = f"Of {len(pairs)} pairs only {capped.cap()} count, chosen at random."
        ignored.append(Ignored(SURPLUS, "", surplus))
    return Preview(pairs, tuple(ignored))


def _not_a_record(record: Any) -> Ignored:
    kind = type.__dict__["__name__"].__get__(type(record))  # a class may say of its name what it likes, and raise
    return Ignored(RECORD, "", f"A record maps keys to numbers; this is a {kind}, and counts as empty.")


def _replaced(held: Mapping[Any, Any], schema: Schema) -> list[Ignored]:
    """The keys of a hierarchy whose values are not looked at, because others of the record lie below them."""
    readable = [place for key, value in held.items() for place, _ in schema.read({key: value})[-1:]]
    inner = {schema.keys[above] for place in readable for above in schema.above[place]}
    told = "counts as the mean of the keys below it"
    return [Ignored(INNER, name, f"The value of {name[:60]!r} {told}.") for name in held if name in inner]


def _judged(key: Any, given: Any, schema: Schema) -> Ignored | None:
    """What is the matter with one pair, if anything is; keys that are not listed may count as ``other``."""
    name, value, shown = key_in(key), value_in(given), repr(key)[:60]
    place = None if name is None else schema.index(name)
    if place is None and schema.other is not None and name is not None:
        place = schema.index(schema.other)
    if place is None:
        return Ignored(UNKNOWN, str(key)[:60], f"The campaign does not ask about {shown}; that counts as nothing.")
    if math.isnan(value):
        return Ignored(UNREADABLE, str(key)[:60], f"The value of {shown} is no number; that counts as nothing.")
    low, high = (float(end[place] if isinstance(end, tuple) else end) for end in (schema.low, schema.high))
    if not low <= value <= high:
        return Ignored(CLAMPED, str(key)[:60], f"The value of {shown} counts as {low if value < low else high:g}.")
    levels, grid = schema.levels_of(place), schema.grid_levels(place)
    at = dict(schema.read({name: value}))[place]
    if levels is None or grid is None or at in grid:
        return None
    above = bisect(grid, at)
    lower, higher = (decimal(one) for one in levels[above - 1 : above + 1])
    between = f"The value of {shown} is rounded at random to {lower} or {higher}, which smears the shares of levels."
    return Ignored(ROUNDED, str(key)[:60], between)
