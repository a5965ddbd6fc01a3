"""Tallies add up like numbers, survive a trip through bytes, and refuse strangers and damage."""

from __future__ import annotations

import struct
import tracemalloc
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from keyveil.core.errors import TallyError
from keyveil.core.tally import Tally

MINE = bytes(range(32))
OTHER = bytes(reversed(range(32)))
SMALL = st.integers(-(2**60), 2**60)

GOLDEN = bytes.fromhex(
    "4b565401"  # "KVT", version 1
    "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"  # fingerprint
    "0700000000000000"  # seven reports
    "02"  # two dimensions: 1 × 3
    "01000000000000000300000000000000"
    "0100000000000000feffffffffffffff0000000001000000"  # 1, -2, 2**32
)
GOLDEN += struct.pack("<I", 0xEA7D15B0)  # CRC-32


def tally(*counts: int, reports: int = 1, fingerprint: bytes = MINE) -> Tally:
    return Tally(fingerprint, reports, np.array(counts, dtype=np.int64))


def tallies(shape: tuple[int, ...] = (2, 3)) -> st.SearchStrategy[Tally]:
    counts = hnp.arrays(np.int64, shape, elements=SMALL)
    return st.builds(Tally, st.just(MINE), st.integers(0, 2**60), counts)


@given(tallies(), tallies(), tallies())
def test_merging_is_commutative_and_associative_with_the_empty_tally_as_identity(a: Tally, b: Tally, c: Tally) -> None:
    assert a + b == b + a
    assert (a + b) + c == a + (b + c) == sum([a, b, c])
    assert a + Tally.empty(MINE, (2, 3)) == a


@given(hnp.array_shapes(min_dims=0, max_dims=4, max_side=4).flatmap(tallies))
def test_bytes_round_trip(a: Tally) -> None:
    back = Tally.from_bytes(a.to_bytes())
    assert back == a
    assert back.counts.shape == a.counts.shape


def test_addition_adds_counts_and_reports() -> None:
    total = tally(1, 2, reports=3) + tally(10, -20, reports=4)
    assert total == tally(11, -18, reports=7)
    assert total != tally(11, -18, reports=8)
    assert total != tally(11, -17, reports=7)
    assert total != tally(11, -18, reports=7, fingerprint=OTHER)
    assert total != 7


def test_strangers_are_refused_by_name() -> None:
    with pytest.raises(TallyError, match=r"1f1e1d1c….*00010203…") as caught:
        tally(1) + tally(1, fingerprint=OTHER)
    assert caught.value.code == "tally/foreign"
    with pytest.raises(TallyError, match=r"shape \(2,\).*\(1,\)") as caught:
        tally(1) + tally(1, 2)
    assert caught.value.code == "tally/foreign"
    with pytest.raises(TypeError):
        tally(1) + 3  # type: ignore[operator]
    with pytest.raises(TypeError):
        3 + tally(1)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (tally(0, 2**63 - 1), tally(0, 1)),
        (tally(-(2**63)), tally(-1)),
        (tally(0, reports=2**63 - 1), tally(0, reports=1)),
        (Tally(MINE, 1, np.array(2**62)), Tally(MINE, 1, np.array(2**62))),
    ],
)
@pytest.mark.filterwarnings("error")
def test_overflow_is_an_error_and_never_wraps(a: Tally, b: Tally) -> None:
    with pytest.raises(TallyError) as caught:
        a + b
    assert caught.value.code == "tally/overflow"


def test_the_largest_counts_still_add() -> None:
    assert (tally(2**63 - 2, -(2**63)) + tally(1, 2**63 - 1)).counts.tolist() == [2**63 - 1, -1]


def test_counts_belong_to_the_tally_alone() -> None:
    mine = np.array([1, 2], dtype=np.int64)
    kept = Tally(MINE, 1, mine)
    view = mine[:]
    view.setflags(write=False)
    kept_view = Tally(MINE, 1, view)
    mine[0] = 99
    assert kept.counts.tolist() == kept_view.counts.tolist() == [1, 2]
    for frozen in (kept, kept + kept, Tally.from_bytes(kept.to_bytes()), Tally.empty(MINE, (2,))):
        with pytest.raises(ValueError, match="read-only"):
            frozen.counts[0] = 5


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.uint64, ">i8"])
def test_other_integers_are_widened(dtype: str) -> None:
    widened = Tally(MINE, 1, np.array([1, 2], dtype=dtype))
    assert widened == tally(1, 2)
    assert widened.counts.dtype == np.int64


@pytest.mark.parametrize(
    ("fingerprint", "reports", "counts"),
    [
        (b"short", 1, np.zeros(1, np.int64)),
        (MINE, -1, np.zeros(1, np.int64)),
        (MINE, 2**63, np.zeros(1, np.int64)),
        (MINE, 1, np.zeros(1)),
        (MINE, 1, np.array([2**63], np.uint64)),
        (MINE, 1, np.zeros((3, 0), np.int64)),
        (MINE, 1, np.zeros((1,) * 9, np.int64)),
    ],
)
def test_what_cannot_be_a_tally_is_refused(fingerprint: bytes, reports: int, counts: np.ndarray) -> None:
    with pytest.raises(TallyError) as caught:
        Tally(fingerprint, reports, counts)
    assert caught.value.code == "tally/malformed"


def test_version_1_is_written_and_read_as_it_always_was() -> None:
    golden = Tally(MINE, 7, np.array([[1, -2, 2**32]]))
    assert golden.to_bytes() == GOLDEN
    assert Tally.from_bytes(GOLDEN) == golden


def sealed(body: bytes) -> bytes:
    """A body with a checksum that fits, so that only its content can be wrong."""
    return body + struct.pack("<I", zlib.crc32(body))


def header(*sizes: int, dimensions: int | None = None, reports: int = 1) -> bytes:
    count = len(sizes) if dimensions is None else dimensions
    return struct.pack("<3sB32sqB", b"KVT", 1, MINE, reports, count) + struct.pack(f"<{len(sizes)}q", *sizes)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "not a Keyveil tally"),
        (sealed(b"PAR1" + GOLDEN[4:-4]), "not a Keyveil tally"),
        (sealed(b"KVT\x02" + GOLDEN[4:-4]), "format version 2"),
        (b"KVT", "header"),
        (GOLDEN[:40], "header"),
        (GOLDEN[:50], "2 sizes"),
        (GOLDEN[:-1], "cut off"),
        (GOLDEN + b"\0", "followed by 1 bytes"),
        (GOLDEN[:-5] + b"\x02" + GOLDEN[-4:], "checksum"),
        (GOLDEN[:-1] + bytes([GOLDEN[-1] ^ 1]), "checksum"),
        (sealed(header(-1) + bytes(8)), "positive, not -1"),
        (sealed(header(0, 2**62)), "positive, not 0"),
        (sealed(header(2) + bytes(8)), "cut off"),
        (sealed(header(1) + bytes(16)), "followed by 8 bytes"),
        (sealed(header(1, dimensions=255) + bytes(3000)), "at most 8 dimensions"),
        (sealed(header(1, reports=-5) + bytes(8)), "-5 reports"),
    ],
)
def test_malformed_bytes_say_what_is_wrong(data: bytes, sentence: str) -> None:
    with pytest.raises(TallyError, match=sentence) as caught:
        Tally.from_bytes(data)
    assert caught.value.code == "tally/malformed"
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


@given(st.data())
def test_every_cut_and_every_flipped_bit_is_noticed(data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(GOLDEN) - 1))
    bit = data.draw(st.integers(0, 8 * len(GOLDEN) - 1))
    flipped = bytearray(GOLDEN)
    flipped[bit // 8] ^= 1 << bit % 8
    for damaged in (GOLDEN[:cut], bytes(flipped)):
        with pytest.raises(TallyError):
            Tally.from_bytes(damaged)


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_but_a_tally_error(noise: bytes) -> None:
    for data in (noise, header(2, 2) + noise, sealed(b"KVT\x01" + MINE + noise)):
        try:
            Tally.from_bytes(data)
        except TallyError:
            pass


def test_a_huge_declared_shape_allocates_nothing() -> None:
    claims = sealed(header(2**62, 2**62, 2**62))
    tracemalloc.start()
    try:
        with pytest.raises(TallyError, match="cut off"):
            Tally.from_bytes(claims)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_repr_is_short() -> None:
    assert repr(Tally.empty(MINE, (3, 1024))) == "Tally(00010203…, reports=0, counts=3×1024)"
