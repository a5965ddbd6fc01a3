"""Bits one after the other: the same as one long number, without its quadratic time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from keyveil.core.codecs import bits
from keyveil.core.codecs.bits import BitStream

CODES = st.lists(st.integers(0, 3000).flatmap(lambda size: st.tuples(st.integers(0, (1 << size) - 1), st.just(size))))


@given(CODES)
def test_a_stream_holds_what_one_long_number_would(codes: list[tuple[int, int]]) -> None:
    stream, number, length = BitStream(), 0, 0
    for code, size in codes:
        stream.put(code, size)
        number |= code << length
        length += size
        assert stream._held < bits._FULL  # so that no step works on more than a few words
    assert len(stream) == length
    assert stream.to_bytes() == number.to_bytes((length + 7) // 8, "little")
