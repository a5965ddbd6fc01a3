"""Ranges and scales of values as people give them, brought to the middle and half width that devices compute with."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from keyveil.core.canonical import decimal, exact
from keyveil.core.errors import SchemaError

_MAPS = ("linear", "log")


def read_bound(given: object) -> Fraction:
    """A bound as an exact number."""
    try:
        return exact(given)
    except ValueError as reason:
        raise SchemaError("schema/range", f"A bound of the value range must be a decimal number: {reason}.") from reason


def known_map(given: object) -> str:
    """The name of a map, refused if there is none of it."""
    if given not in _MAPS:
        raise SchemaError("schema/map", f"The map {given!r} is unknown; there are {' and '.join(_MAPS)}.")
    return str(given)


def scale_of(low: Fraction, high: Fraction, scale: str) -> tuple[float, float, bool]:
    """Middle and half width on the scale of a map, and whether it is logarithmic; refused if there is no such range."""
    if low >= high:
        raise SchemaError("schema/range", f"Low ({decimal(low)}) must be below high ({decimal(high)}).")
    if scale == "log" and low <= 0:
        raise SchemaError("schema/log", f"A logarithmic range must begin above 0, not at {decimal(low)}.")
    try:
        if scale == "log":
            start, end = math.log(low), math.log(high)
            middle, half = (start + end) / 2, (end - start) / 2
        else:
            middle, half = float((low + high) / 2), float((high - low) / 2)
    except (OverflowError, ValueError):
        middle = half = 0.0
    if not half > abs(middle) * 2**-50:
        raise SchemaError("schema/range", f"Doubles cannot resolve the range from {decimal(low)} to {decimal(high)}.")
    return middle, half, scale == "log"


def logarithms(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The logarithm of the C library, value by value: NumPy's may differ in the last place, and ``read`` uses this."""
    logs = np.full(values.shape, -np.inf)
    logs[np.isnan(values)] = np.nan
    positive = values > 0
    logs[positive] = np.fromiter((math.log(value) for value in values[positive]), np.float64)
    return logs
