from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyveil.core.codecs.members import DenseMembers, RealMembers
from keyveil.core.errors import ReportError

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
