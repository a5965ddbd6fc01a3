"""The reader of encoded vectors accepts what the codec accepts, and nothing else."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyveil.core.codecs.labelled_keys import LabelledKeys
from keyveil.core.codecs.rare_bits import RareBits
from keyveil.core.errors import ReportError
from keyveil.kernels import rare_bits

SHARES = (Fraction(1, 100), Fraction(1, 10), Fraction(1, 4), Fraction(2, 5))
CODECS = [RareBits(length, share) for length in (9, 16, 20, 41, 70, 200) for share in SHARES]


@given(st.sampled_from(CODECS), st.lists(st.binary(max_size=9), max_size=3), st.data())
def test_the_kernel_reads_what_the_codec_reads(codec: RareBits, parts: list[bytes], data: st.DataObject) -> None:
    vectors = data.draw(st.lists(st.integers(0, (1 << codec.length) - 1), max_size=3))
    sent = [codec.encode(vector.to_bytes(codec.size, "little")) for vector in vectors]
    parts = data.draw(st.permutations([*sent, *parts]))
    expected, bad = [], -1
    for number, part in enumerate(parts):
        try:
            expected.append(codec.decode(part))
        except ReportError:
            bad = number
            break
    octets = np.frombuffer(b"".join(parts), dtype=np.uint8)
    offsets = np.cumsum([0, *map(len, parts)], dtype=np.int64)
    shift = codec.places.shift if isinstance(codec.places, LabelledKeys) else rare_bits.BY_THREES
    for read in (rare_bits._read.compiled, rare_bits._read.twin):
        rows = np.zeros((len(parts), codec.words), dtype=np.uint64)
        assert read(octets, offsets, rows, codec.length, shift, rare_bits._AHEAD, rare_bits._SIZES) == bad
        assert codec.unstack(rows[: len(expected)]) == expected


@pytest.mark.parametrize("share", [Fraction(1, 10), Fraction(1, 4), Fraction(2, 5)], ids=str)
def test_every_short_message_is_read_alike(share: Fraction) -> None:
    codec = RareBits(9, share)
    accepted = 0
    for part in (number.to_bytes(size, "little") for size in (1, 2) for number in range(1 << 8 * size)):
        try:
            rows = rare_bits.read_rare_bits([part], codec)
        except ReportError:
            continue
        accepted += 1
        assert codec.encode(codec.unstack(rows)[0]) == part
    assert accepted == 1 << 9


def test_a_malformed_message_is_refused_with_its_reason() -> None:
    codec = RareBits(20, Fraction(1, 10))
    with pytest.raises(ReportError, match="would be shorter"):
        rare_bits.read_rare_bits([codec.encode(bytes(3)), b"\x01\x00\x00"], codec)
