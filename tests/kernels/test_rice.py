"""The counter of encoded sets accepts what the codec accepts, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyveil.core.codecs.members import DenseMembers, RealMembers
from keyveil.core.errors import ReportError
from keyveil.kernels import rice

CODECS: list[RealMembers | DenseMembers] = [
    RealMembers(6, 2, 2),
    RealMembers(40, 3, 5),
    RealMembers(200, 10, 5),
    RealMembers(9, 5, 1),
]
CODECS += [DenseMembers(6, 2, 2), DenseMembers(40, 16, 5), DenseMembers(9, 5, 1)]


@st.composite
def members(draw: st.DrawFn) -> tuple[RealMembers | DenseMembers, tuple[int, ...]]:
    codec = draw(st.sampled_from(CODECS))
    size = draw(st.integers(codec.fewest, codec.size))
    chosen = draw(st.lists(st.integers(0, codec.symbols - 1), min_size=size, max_size=size, unique=True))
    return codec, tuple(sorted(chosen))


@given(members())
def test_a_set_has_one_encoding(case: tuple[RealMembers | DenseMembers, tuple[int, ...]]) -> None:
    codec, payload = case
    data = codec.encode(payload)
    assert codec.decode(data) == payload
    assert codec.unstack(codec.stack([payload])) == [payload]
    with pytest.raises(ReportError):
        codec.decode(data + b"\0")


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("payload", [(0, 0), (1, 0), (0, 10**6), (-1, 2), 3, b"\0"])
def test_other_payloads_are_not_encoded(codec: RealMembers | DenseMembers, payload: object) -> None:
    with pytest.raises(ReportError):
        codec.encode(payload)  # type: ignore[arg-type]


@given(codec=st.sampled_from(CODECS), parts=st.lists(st.binary(max_size=9), max_size=4), after=members())
def test_the_kernel_reads_what_the_codec_reads(
    codec: RealMembers | DenseMembers, parts: list[bytes], after: tuple[RealMembers | DenseMembers, tuple[int, ...]]
) -> None:
    parts = [after[0].encode(after[1]), *parts]
    expected, bad = np.zeros(codec.symbols, dtype=np.int64), -1
    for number, part in enumerate(parts):
        try:
            expected[list(codec.decode(part))] += 1  # type: ignore[arg-type]
        except ReportError:
            bad = number
            break
    data = np.frombuffer(b"".join(parts), dtype=np.uint8)
    offsets = np.cumsum([0, *map(len, parts)])
    kernel, last = (
        (rice._count_gaps, codec.shift) if isinstance(codec, RealMembers) else (rice._count_triples, rice._AHEAD)
    )
    for count in (kernel.compiled, kernel.twin):
        counts = np.zeros(codec.symbols, dtype=np.int64)
        assert count(data, offsets, counts, codec.symbols, codec.size, codec.dummies, last) == bad  # type: ignore[arg-type]
        if bad < 0:
            assert (counts == expected).all()


@pytest.mark.parametrize("offsets", [[0, 9], [2, 1], [-1, 2]])
def test_offsets_outside_the_data_are_malformed(offsets: list[int]) -> None:
    _, bad = rice.count_members(np.zeros(4, dtype=np.uint8), np.array(offsets), CODECS[0])
    assert bad == 0
