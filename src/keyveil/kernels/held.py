"""Whether each of many people holds a key, another one for each, and with which value."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from keyveil.core.records import Records
from keyveil.kernels.backend import kernel

Integers = NDArray[np.int64]
Short = NDArray[np.int32]
Found = tuple[NDArray[np.bool_], Short]


def values_of(records: Records, keys: Integers) -> Found:
    """For every person whether they hold the given key, and the value (0 where they do not)."""
    wanted = np.asarray(keys, dtype=np.int64)
    return _values_of(records.offsets, records.keys, records.values, wanted, records.d)


def _values_of_numpy(offsets: Integers, held: Short, values: Short, wanted: Integers, d: int) -> Found:
    n = len(wanted)
    if not len(held):
        return np.zeros(n, dtype=np.bool_), np.zeros(n, dtype=np.int32)
    people = np.arange(n, dtype=np.int64)
    places = np.repeat(people * d, np.diff(offsets)) + held  # sorted, because keys are sorted within a person
    sought = people * d + wanted
    found = np.minimum(np.searchsorted(places, sought), len(places) - 1)
    there = places[found] == sought
    return there, np.where(there, values[found], 0).astype(np.int32)


def _steps(offsets: Integers, held: Short, values: Short, wanted: Integers, d: int) -> int:
    return 8 * (len(held) + len(wanted))


@kernel(twin=_values_of_numpy, work=_steps)
def _values_of(offsets: Integers, held: Short, values: Short, wanted: Integers, d: int) -> Found:
    n = len(wanted)
    there = np.zeros(n, dtype=np.bool_)
    found = np.zeros(n, dtype=np.int32)
    for person in range(n):
        low, high = offsets[person], offsets[person + 1]
        key = wanted[person]
        while low < high:  # the first of the person's keys that is not below the one that is asked for
            middle = (low + high) >> 1
            if held[middle] < key:
                low = middle + 1
            else:
                high = middle
        if low < offsets[person + 1] and held[low] == key:
            there[person] = True
            found[person] = values[low]
    return there, found
