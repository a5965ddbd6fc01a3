"""The values that people hold, for a key of their own and for all keys, against a look into each record."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from keyveil.core.records import Records
from keyveil.kernels.held import _filled, _values_of, filled, values_of

KEYS = 6


@given(
    people=st.lists(st.dictionaries(st.integers(0, KEYS - 1), st.integers(-9, 9), max_size=4), max_size=5),
    data=st.data(),
)
def test_loop_and_twin_find_what_the_records_hold(people: list[dict[int, int]], data: st.DataObject) -> None:
    wanted = [data.draw(st.integers(0, KEYS - 1)) for _ in people]
    pairs = [pair for person in people for pair in sorted(person.items())]
    records = Records(
        np.cumsum([0, *map(len, people)]),
        np.array([key for key, _ in pairs], dtype=np.int32),
        np.array([value for _, value in pairs], dtype=np.int32),
        KEYS,
    )
    keys = np.array(wanted, dtype=np.int64)
    arguments = (records.offsets, records.keys, records.values, keys, KEYS)
    for held, values in (values_of(records, keys), _values_of.compiled(*arguments), _values_of.twin(*arguments)):
        assert held.tolist() == [key in person for key, person in zip(wanted, people, strict=True)]
        assert values.tolist() == [person.get(key, 0) for key, person in zip(wanted, people, strict=True)]
        assert values.dtype == np.int32
    gaps = np.arange(100, 100 + KEYS, dtype=np.int32)
    whole = (records.offsets, records.keys, records.values, gaps)
    for table in (filled(records, gaps), _filled.compiled(*whole), _filled.twin(*whole)):
        assert table.tolist() == [[person.get(key, 100 + key) for key in range(KEYS)] for person in people]
