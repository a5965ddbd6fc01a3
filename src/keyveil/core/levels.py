"""Levels: the only values that a key has, such as the 1, 2, 3, 4 and 5 of a rating.

A schema states them for all keys or key by key. Its range then reaches from the lowest to the highest level, and
mechanisms that tell how values are distributed tell the share of every level.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from keyveil.core.canonical import decimal, exact
from keyveil.core.errors import SchemaError

MOST_LEVELS = 256

Levels = tuple[Fraction, ...]
Bounds = Fraction | tuple[Fraction, ...] | None


def read_levels(given: Any, place: Callable[[Any], int | None], d: int) -> Levels | tuple[Levels | None, ...] | None:
    """Levels as people give them: one list for all keys, a mapping from keys to lists, or one list or None per key.

    ``place`` finds the position of a key. Keys that a mapping leaves out have no levels.
    """
    if given is None:
        return None
    if isinstance(given, Mapping):
        places = {place(name): row for name, row in given.items()}
        if None in places:
            raise SchemaError("schema/unknown-key", "Levels are given for a key that the schema does not have.")
        given = [places.get(position) for position in range(d)]
    elif not _is_list(given) or not any(row is None or _is_list(row) for row in given):
        return _row(given)
    if len(given) != d:
        raise SchemaError("schema/length", f"{len(given)} lists of levels are given for {d} keys.")
    rows = tuple(None if row is None else _row(row) for row in given)
    return rows[0] if rows.count(rows[0]) == d else rows


def spanned(levels: Any, low: Bounds, high: Bounds, d: int) -> tuple[Any, Any]:
    """The ranges of all keys: where there are levels, from the lowest to the highest, which must lie within bounds.

    A bound that is not given is the end of the levels; keys without levels then have the range from -1 to 1.
    """
    if levels is None:
        return Fraction(-1) if low is None else low, Fraction(1) if high is None else high
    alike = not any(isinstance(entry, tuple) for entry in (low, high, levels[0])) and levels[0] is not None
    rows = [levels] if alike else list(per_key(levels, d))
    lows, highs = (
        [bound[at] if isinstance(bound, tuple) else bound for at in range(len(rows))] for bound in (low, high)
    )
    ends = [_ends(*one) for one in zip(rows, lows, highs, strict=True)]
    if alike:
        return ends[0]
    starts, stops = zip(*ends, strict=True)
    return _one_if_alike(starts), _one_if_alike(stops)


def per_key(levels: Any, d: int) -> Iterable[Levels | None]:
    """The levels of every key."""
    return (levels,) * d if levels is None or isinstance(levels[0], Fraction) else levels


def lattice(levels: Any, d: int, least: int, most: int) -> int | None:
    """How many equidistant points it takes so that the levels of every key are among them, its ends included.

    At least ``least`` where a key has no levels. None if there are no levels, or if more than ``most`` would be needed.
    """
    rows = set(per_key(levels, d)) if levels is not None else set()
    steps = math.lcm(*(((one - row[0]) / (row[-1] - row[0])).denominator for row in rows if row for one in row))
    if None in rows:
        steps *= -(-(least - 1) // steps)
    return steps + 1 if rows and steps < most else None


def spelled(levels: Any) -> Any:
    """Levels as JSON: decimals, without floats."""
    if isinstance(levels, tuple):
        return [spelled(entry) for entry in levels]
    return None if levels is None else decimal(levels)


def _row(given: Any) -> Levels:
    if not _is_list(given):
        raise _refused(f"Levels are a list of numbers such as 1, 2, 3, not {given!r}.")
    if not 2 <= len(given) <= MOST_LEVELS:
        raise _refused(f"A key has from 2 to {MOST_LEVELS} levels, not {len(given)}.")
    try:
        row = tuple(exact(one) for one in given)
    except ValueError as reason:
        raise _refused(f"A level is a decimal number: {reason}.") from reason
    for lower, higher in pairwise(row):
        if lower >= higher:
            raise _refused(
                f"Levels rise from the lowest to the highest; {decimal(lower)} stands before {decimal(higher)}."
            )
    return row


def _ends(row: Levels | None, low: Fraction | None, high: Fraction | None) -> tuple[Fraction, Fraction]:
    if row is None:
        return Fraction(-1) if low is None else low, Fraction(1) if high is None else high
    for level in row:
        if (low is not None and level < low) or (high is not None and level > high):
            least, most = ("the start" if low is None else decimal(low)), ("the end" if high is None else decimal(high))
            raise _refused(f"The level {decimal(level)} lies outside the range from {least} to {most}.")
    return row[0], row[-1]


def _one_if_alike(column: Sequence[Fraction]) -> Fraction | tuple[Fraction, ...]:
    return column[0] if column.count(column[0]) == len(column) else tuple(column)


def _is_list(given: Any) -> bool:
    return isinstance(given, Sequence | np.ndarray) and not isinstance(given, str | bytes)


def _refused(sentence: str) -> SchemaError:
    return SchemaError("schema/levels", sentence)
