"""Batches on the wire: both forms carry the same, lengths say nothing, and nothing but a batch is read."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyveil.campaign.wire import Batch, from_json, from_packed, pad, unpad
from keyveil.core.codecs.labelled_keys import LabelledKeys, SignedKeys
from keyveil.core.codecs.members import DenseMembers, RealMembers
from keyveil.core.codecs.rare_bits import RareBits
from keyveil.core.codecs.symbols import BitVector, Symbol
from keyveil.core.errors import ReportError

HASH = "ab" * 32


def batches() -> st.SearchStrategy[Batch]:
    def build(number: int, ids: list[bytes], size: int, data: Any) -> Batch:
        payloads = tuple(data.draw(st.binary(min_size=size, max_size=size)) for _ in ids)
        return Batch(number, HASH, tuple(ids), payloads)

    ids = st.lists(st.binary(min_size=16, max_size=16), min_size=1, max_size=5)
    return st.builds(build, st.integers(1, 65535), ids, st.integers(0, 40), st.data())


@given(batches())
def test_both_forms_carry_the_same(batch: Batch) -> None:
    assert from_json(batch.to_json()) == batch
    assert from_packed(batch.to_packed()) == batch


@given(batches(), st.integers(0, 200), st.binary(max_size=3))
def test_a_cut_or_lengthened_batch_is_refused(batch: Batch, at: int, more: bytes) -> None:
    whole = batch.to_packed()
    broken = whole[: at % len(whole)] + more
    if len(broken) != len(whole):
        with pytest.raises(ReportError):
            from_packed(broken)


@given(st.binary(max_size=200))
def test_noise_is_refused_in_both_forms(noise: bytes) -> None:
    for read in (from_json, from_packed):
        with pytest.raises(ReportError):
            read(noise)


@pytest.mark.parametrize(
    "text",
    [
        b'{"round":1,"document":"%s","reports":[]}',
        b'{"round":0,"document":"%s","reports":[{"id":"00","payload":""}]}',
        b'{"round":1.5,"document":"%s","reports":[]}',
        b'{"round":1,"document":"%s","reports":[{"id":"%s","payload":"AA=="}]}',
        b'{"round":1,"document":"%s","reports":[{"id":"%s","payload":"AB"}]}',
        b'{"round":1,"document":"%s","reports":[{"id":"%s","payload":"AA","user":7}]}',
    ],
)
def test_json_has_one_spelling(text: bytes) -> None:
    values = [HASH.encode(), b"0" * 32][: text.count(b"%s")]
    with pytest.raises(ReportError):
        from_json(text % tuple(values))


CODECS: list[Any] = [
    Symbol(5),
    Symbol(1),
    BitVector(13),
    RareBits(13, Fraction(1, 10)),
    RareBits(15, Fraction(2, 5)),
    RareBits(16, Fraction(1, 4)),
    LabelledKeys(7, 3, Fraction(1, 5)),
    LabelledKeys(6, 4, Fraction(1, 20)),
    SignedKeys(8, share=Fraction(3, 10)),
    RealMembers(12, 3, 2),
    RealMembers(6, 5, 5),
    DenseMembers(7, 4, 3),
    DenseMembers(9, 8, 2),
]


@pytest.mark.parametrize("codec", CODECS, ids=str)
def test_no_payload_is_longer_than_the_longest_and_the_bound_is_near(codec: Any) -> None:
    payloads = every_payload(codec)
    lengths = {len(codec.encode(payload)) for payload in payloads}

    assert max(lengths) <= codec.longest <= max(lengths) + 2
    assert codec.varies or lengths == {codec.longest}
    size = codec.longest + codec.varies
    for payload in payloads:
        padded = pad(codec.encode(payload), size, codec.varies)
        assert len(padded) == size
        assert codec.decode(unpad(padded, size, codec.varies)) == payload


def every_payload(codec: Any) -> list[Any]:
    """All payloads of a small codec, found by decoding every subset or symbol that it could name."""
    if isinstance(codec, Symbol):
        return list(range(codec.outputs))
    if isinstance(codec, BitVector):
        return [number.to_bytes(codec.size, "little") for number in range(0, 1 << codec.length, 7)]
    symbols = codec.keys * codec.labels if isinstance(codec, LabelledKeys) else codec.symbols
    if symbols > 24:
        rng = np.random.default_rng(1)
        subsets = [tuple(sorted(rng.choice(symbols, 2, replace=False).tolist())) for _ in range(2000)]
        return [(0, 1), (symbols - 2, symbols - 1), (0, symbols - 1), *subsets]
    found = []
    step = 1 if symbols <= 14 else 101
    for mask in range(0, 1 << symbols, step):
        payload = tuple(place for place in range(symbols) if mask >> place & 1)
        try:
            codec.encode(payload)
        except ReportError:
            continue
        found.append(payload)
    return found


@pytest.mark.parametrize("padded", [b"", b"\0\0\0", b"\x01\x02\x03", b"\x01\x80", b"\x01\x80\0\0"])
def test_padding_that_no_device_would_send_is_refused(padded: bytes) -> None:
    with pytest.raises(ReportError):
        unpad(padded, 3, varies=True)
