from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyveil.core.codecs.rare_bits import RareBits, noisy_bits
from keyveil.core.codecs.symbols import BitVector
from keyveil.core.errors import ReportError

shares = st.fractions(Fraction(1, 1 << 32), Fraction(1, 2))


def entropy(length: int, share: float) -> float:
    return -length * (share * math.log2(share) + (1 - share) * math.log2(1 - share))


@given(st.integers(9, 200), shares, st.data())
def test_rare_bits_travel_and_are_never_much_longer_than_the_bits(
    length: int, share: Fraction, data: st.DataObject
) -> None:
    codec, bits = RareBits(length, share), data.draw(st.lists(st.integers(0, 1), min_size=length, max_size=length))
    payload = BitVector.pack(bits)
    sent = codec.encode(payload)
    assert codec.decode(sent) == payload
    assert len(sent) <= codec.longest == (length + 1 + 7) // 8
    assert codec.unstack(codec.stack([payload, payload])) == [payload, payload]


@given(st.integers(1, 40), shares, st.binary(max_size=7))
def test_decoding_is_strict(length: int, share: Fraction, data: bytes) -> None:
    """Whatever is accepted is exactly what would have been sent."""
    codec = RareBits(length, share)
    try:
        payload = codec.decode(data)
    except ReportError as refused:
        assert refused.code == "report/malformed"
        return
    assert codec.encode(payload) == data


@given(st.integers(1, 3000), st.floats(1e-4, 0.5))
def test_the_length_is_close_to_the_entropy(length: int, share: float) -> None:
    bits, least = noisy_bits(length, Fraction(share) * length).bits, entropy(length, share)
    assert bits <= max(1.05 * least, least + 8)


@pytest.mark.parametrize(("length", "share"), [(729, 0.02), (300, 0.25), (729, 0.3), (200, 0.35), (100, 0.38)])
def test_the_average_length_is_as_stated(length: int, share: float) -> None:
    # Whole bytes add 3.5 bits on average; the mean of 2000 messages varies by less than the slack of 1.
    codec = RareBits(length, Fraction(share))
    ones = np.random.default_rng(5).random((2000, length)) < share
    sent = [codec.encode(row.tobytes()) for row in np.packbits(ones, axis=1, bitorder="little")]
    assert codec.bits + 2 < 8 * np.mean([len(data) for data in sent]) < codec.bits + 5


def test_plain_bits_stay_where_nothing_is_to_be_gained() -> None:
    assert type(noisy_bits(8, Fraction(1))) is BitVector
    assert type(noisy_bits(1000, Fraction(450))) is BitVector
    assert type(noisy_bits(1000, Fraction(380))) is RareBits


@pytest.mark.parametrize("payload", [5, (1, 2), b"\x00", b"\x00\xff"], ids=["number", "set", "short", "beyond"])
def test_what_no_mechanism_says_is_not_encoded(payload: object) -> None:
    with pytest.raises(ReportError):
        RareBits(9, Fraction(1, 10)).encode(payload)  # type: ignore[arg-type]
