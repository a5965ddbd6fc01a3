"""The values that many people hold: for one key of everybody, another one for each, or for all keys."""

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


def filled(records: Records, gaps: Short) -> Short:
    """Everybody's values of all keys, [people, d], with ``gaps`` for keys that they do not hold."""
    return _filled(records.offsets, records.keys, records.values, np.asarray(gaps, dtype=np.int32))


def _filled_numpy(offsets: Integers, held: Short, values: Short, gaps: Short) -> Short:
    n = len(offsets) - 1
    table = np.tile(gaps, (n, 1))
    table[np.repeat(np.arange(n), np.diff(offsets)), held] = values
    return table


@kernel(twin=_filled_numpy, work=lambda offsets, held, values, gaps: 4 * len(held) + len(offsets) * len(gaps))
def _filled(offsets: Integers, held: Short, values: Short, gaps: Short) -> Short:
    n = len(offsets) - 1
    table = np.empty((n, len(gaps)), dtype=np.int32)
    for person in range(n):
        table[person] = gaps
        for row in range(offsets[person], offsets[person + 1]):
            table[person, held[row]] = values[row]
    return table
