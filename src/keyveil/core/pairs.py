"""What counts as a key and as a value, wherever a record is read: one rule for a device and for a table of people.

A pair that cannot be read counts as absent; it is no reason to refuse the record. A refusal is a report that does not
come, and if it depends on what a person holds, its absence tells just that.
"""

from __future__ import annotations

import math
from decimal import Decimal
from numbers import Integral, Real

import numpy as np

_LONGEST = 2048  # bits of a whole number that names a key: every Python spells those


def is_number(given: object) -> bool:
    """Whether something is a number of any kind; true and false are 1 and 0."""
    return isinstance(given, Real | Decimal | np.bool_)


def value_in(given: object) -> float:
    """A value as a double; NaN for what is no number, and for numbers that no finite double is close to."""
    if not is_number(given):
        return math.nan
    try:
        value = float(given)  # type: ignore[arg-type]
    except (OverflowError, ValueError):
        return math.nan
    return value if math.isfinite(value) else math.nan


def key_in(given: object) -> str | int | None:
    """A key as a name or a whole number; None for what is neither."""
    if isinstance(given, str):
        return given
    if isinstance(given, Integral) and not isinstance(given, bool):
        number = int(given)
        return number if number.bit_length() <= _LONGEST else None
    return None
