from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyveil.core.bits import BitVector, Codec, SortedSubset, Symbol
from keyveil.core.errors import ReportError


@given(st.integers(1, 10**6), st.data())
def test_symbols_travel_in_the_fewest_bytes(outputs: int, data: st.DataObject) -> None:
    codec = Symbol(outputs)
    symbol = data.draw(st.integers(0, outputs - 1))
    assert codec.decode(codec.encode(symbol)) == symbol
    assert len(codec.encode(symbol)) == math.ceil(math.ceil(math.log2(outputs)) / 8)


@given(st.integers(1, 200), st.data())
def test_bit_vectors_travel(length: int, data: st.DataObject) -> None:
    codec, bits = BitVector(length), data.draw(st.lists(st.integers(0, 1), min_size=length, max_size=length))
    payload = BitVector.pack(bits)
    assert codec.decode(codec.encode(payload)) == payload
    words = codec.stack([payload, payload])
    assert words.shape == (2, codec.words)
    assert [int(words[0, place // 64] >> np.uint64(place % 64)) & 1 for place in range(length)] == bits
    assert codec.unstack(words) == [payload, payload]


@given(st.integers(1, 300), st.data())
def test_subsets_travel(symbols: int, data: st.DataObject) -> None:
    size = data.draw(st.integers(1, symbols))
    payload = tuple(sorted(data.draw(st.sets(st.integers(0, symbols - 1), min_size=size, max_size=size))))
    codec = SortedSubset(symbols, size)
    assert codec.decode(codec.encode(payload)) == payload
    assert codec.unstack(codec.stack([payload])) == [payload]


@pytest.mark.parametrize(("symbols", "size"), [(2005, 103), (205, 10), (1000, 270), (100, 50)])
def test_subsets_come_close_to_their_entropy(symbols: int, size: int) -> None:
    entropy = math.log2(math.comb(symbols, size))
    assert SortedSubset(symbols, size).bits <= max(1.05 * entropy, entropy + 8)


@pytest.mark.parametrize(
    ("codec", "data"),
    [
        (Symbol(5), b"\x05"),
        (Symbol(5), b""),
        (Symbol(5), b"\x01\x00"),
        (BitVector(10), b"\xff\xff"),
        (BitVector(10), b"\xff"),
        (SortedSubset(10, 3), b""),
        (SortedSubset(10, 3), b"\xff\xff\xff"),
        (SortedSubset(10, 3), b"\x00\x00\x00\x00"),
    ],
)
def test_what_no_device_sends_is_refused(codec: Codec, data: bytes) -> None:
    with pytest.raises(ReportError) as refused:
        codec.decode(data)
    assert refused.value.code == "report/malformed"


@pytest.mark.parametrize(
    ("codec", "payload"),
    [
        (Symbol(5), 5),
        (Symbol(5), -1),
        (Symbol(5), b"1"),
        (BitVector(3), b"\x0f"),
        (BitVector(3), 3),
        (SortedSubset(9, 2), (3, 3)),
        (SortedSubset(9, 2), (4, 1)),
        (SortedSubset(9, 2), (1, 9)),
        (SortedSubset(9, 2), (1,)),
    ],
)
def test_what_no_mechanism_says_is_not_encoded(codec: Codec, payload: object) -> None:
    with pytest.raises(ReportError):
        codec.encode(payload)  # type: ignore[arg-type]


@given(st.integers(2, 40), st.binary(max_size=12), st.data())
def test_decoding_is_strict(symbols: int, data: bytes, draw: st.DataObject) -> None:
    """Whatever is accepted is exactly what would have been sent."""
    codec = SortedSubset(symbols, draw.draw(st.integers(1, symbols)))
    try:
        payload = codec.decode(data)
    except ReportError:
        return
    assert codec.encode(payload) == data
