from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyveil.core.codecs.symbols import BitVector, Codec, Symbol
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


@pytest.mark.parametrize(
    ("codec", "data"),
    [
        (Symbol(5), b"\x05"),
        (Symbol(5), b""),
        (Symbol(5), b"\x01\x00"),
        (BitVector(10), b"\xff\xff"),
        (BitVector(10), b"\xff"),
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
    ],
)
def test_what_no_mechanism_says_is_not_encoded(codec: Codec, payload: object) -> None:
    with pytest.raises(ReportError):
        codec.encode(payload)  # type: ignore[arg-type]
