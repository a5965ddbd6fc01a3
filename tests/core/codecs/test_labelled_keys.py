from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyveil.core.codecs.labelled_keys import LabelledKeys, SignedKeys
from keyveil.core.errors import ReportError
from keyveil.lab.coins import SeededCoins

shares = st.fractions(Fraction(1, 1 << 32), Fraction(1, 2))


def entropy(codec: LabelledKeys) -> float:
    """Bits of keys that speak independently and say uniform labels."""
    share = float(codec.share)
    speaks = -share * math.log2(share) - (1 - share) * math.log2(1 - share)
    return codec.keys * (speaks + share * math.log2(codec.labels))


@given(st.integers(1, 90), st.integers(1, 70), shares, st.data())
def test_labelled_keys_travel(keys: int, labels: int, share: Fraction, data: st.DataObject) -> None:
    codec = LabelledKeys(keys, labels, share)
    said = data.draw(st.dictionaries(st.integers(0, keys - 1), st.integers(0, labels - 1)))
    payload = tuple(key * labels + label for key, label in sorted(said.items()))
    assert codec.decode(codec.encode(payload)) == payload
    rows = codec.stack([payload, (), payload])
    assert rows.shape == (3, keys)
    assert {key: rows[0, key] - 1 for key in np.flatnonzero(rows[0])} == said
    assert codec.unstack(rows) == [payload, (), payload]


@given(st.integers(1, 200), st.data())
def test_signed_keys_are_two_planes_of_bits(keys: int, data: st.DataObject) -> None:
    codec = SignedKeys(keys, share=Fraction(1, 3))
    said = data.draw(st.dictionaries(st.integers(0, keys - 1), st.integers(0, 1)))
    payload = tuple(2 * key + sign for key, sign in sorted(said.items()))
    assert codec.decode(codec.encode(payload)) == payload
    planes = codec.stack([payload, ()])
    assert planes.shape == (2, 2, codec.words)
    for key in range(keys):
        bits = [int(planes[0, sign, key // 64]) >> key % 64 & 1 for sign in (0, 1)]
        assert bits == [said.get(key) == 0, said.get(key) == 1]
    assert codec.unstack(planes) == [payload, ()]


@given(st.integers(1, 20), st.integers(1, 9), shares, st.binary(max_size=12))
def test_decoding_is_strict(keys: int, labels: int, share: Fraction, data: bytes) -> None:
    """Whatever is accepted is exactly what would have been sent."""
    codec = LabelledKeys(keys, labels, share)
    try:
        payload = codec.decode(data)
    except ReportError as refused:
        assert refused.code == "report/malformed"
        return
    assert codec.encode(payload) == data


@pytest.mark.parametrize("share", [0.001, 0.02, 0.12, 0.27, 0.35, 0.382, 0.4, 0.4999])
@pytest.mark.parametrize(("keys", "labels"), [(10, 2), (100, 2), (1000, 2), (100, 97), (1000, 65)])
def test_the_length_is_close_to_the_entropy(keys: int, labels: int, share: float) -> None:
    codec = LabelledKeys(keys, labels, Fraction(share))
    assert codec.bits <= max(1.05 * entropy(codec), entropy(codec) + 8)


@pytest.mark.parametrize(("keys", "labels", "share"), [(60, 2, 0.35), (60, 11, 0.02), (7, 5, 0.1), (200, 3, 0.003)])
def test_the_average_length_is_as_stated(keys: int, labels: int, share: float) -> None:
    # Bytes are rounded up, by 3.5 bits on average and at most 7; 4000 messages vary by far less than the slack of 1.
    codec, coins = LabelledKeys(keys, labels, Fraction(share)), SeededCoins(5)
    speaks = coins.chance_many(*Fraction(share).as_integer_ratio(), 4000 * keys).reshape(4000, keys)
    rows = np.where(speaks, 1 + coins.below_many(labels, speaks.size).reshape(speaks.shape), 0)
    average = np.mean([8 * len(codec.encode(payload)) for payload in codec.unstack(rows)])
    assert codec.bits - 1 < average < codec.bits + 8


@pytest.mark.parametrize(
    "payload", [5, b"1", (3, 2), (2, 3), (-1,), (8,), ("1",)], ids=["number", "bytes", *["order", "twice"], *"-8x"]
)
def test_what_no_mechanism_says_is_not_encoded(payload: object) -> None:
    with pytest.raises(ReportError):
        SignedKeys(4, share=Fraction(1, 3)).encode(payload)  # type: ignore[arg-type]
