"""Readers of encoded payloads: compiled or not they accept what the codec writes, nothing else, in linear time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyveil.core.codecs.labelled_keys import LabelledKeys, SignedKeys
from keyveil.core.codecs.members import DenseMembers, Members, RealMembers
from keyveil.core.codecs.padding import Padded, pad, pad_many, unpad, unpad_many
from keyveil.core.codecs.payloads import FINE, RANGE, REFUSED, SIZE, Decoded, Payloads, refusal
from keyveil.core.codecs.rare_bits import RareBits
from keyveil.core.codecs.symbols import BitVector, BulkCodec, Codec, Symbol
from keyveil.core.errors import ReportError
from keyveil.core.report import Payload
from keyveil.kernels.reading import count_labels_of, count_members, fast, read

SHARES = (Fraction(1, 100), Fraction(1, 10), Fraction(1, 4), Fraction(2, 5))
CODECS: list[BulkCodec] = [
    Symbol(1),
    Symbol(5),
    Symbol(70_000),
    BitVector(10),
    BitVector(64),
    RealMembers(6, 2, 2),
    RealMembers(40, 3, 5),
    RealMembers(200, 10, 5),
    RealMembers(9, 5, 1),
    DenseMembers(6, 2, 2),
    DenseMembers(40, 16, 5),
    DenseMembers(9, 5, 1),
    LabelledKeys(7, 5, Fraction(1, 10)),
    LabelledKeys(30, 1, Fraction(1, 3)),
    LabelledKeys(300, 97, Fraction(1, 50)),
    SignedKeys(9, share=Fraction(1, 3)),
    SignedKeys(130, share=Fraction(1, 20)),
    *(RareBits(length, share) for length in (9, 20, 70) for share in SHARES),
]


def payloads_of(codec: Codec, numbers: Sequence[int]) -> Payload:
    """A payload of this codec, chosen by numbers."""
    if isinstance(codec, Symbol):
        return numbers[0] % codec.outputs
    if isinstance(codec, BitVector):
        return BitVector.pack([numbers[place % len(numbers)] >> place & 1 for place in range(codec.length)])
    if isinstance(codec, Members):
        size = codec.fewest + numbers[0] % (codec.size - codec.fewest + 1)
        places = sorted(range(codec.symbols), key=lambda place: (numbers[place % len(numbers)] * (place + 1)) % 997)
        return tuple(sorted(places[:size]))
    assert isinstance(codec, LabelledKeys)
    said = {(number * 7 + place) % codec.keys: number % codec.labels for place, number in enumerate(numbers)}
    return tuple(key * codec.labels + label for key, label in sorted(said.items()))


numbers = st.lists(st.integers(0, 1 << 70), min_size=1, max_size=6)


@given(st.sampled_from(CODECS), st.lists(numbers, max_size=3), st.lists(st.binary(max_size=9), max_size=4), st.data())
def test_plain_and_compiled_readers_agree_with_what_is_written(
    codec: BulkCodec, drawn: list[list[int]], strange: list[bytes], data: st.DataObject
) -> None:
    """What is written is read, and whatever is accepted is exactly what would have been written."""
    sent = {codec.encode(payload): payload for payload in (payloads_of(codec, one) for one in drawn)}
    parts = data.draw(st.permutations([*sent, *strange]))
    payloads = Payloads.of(parts)
    plain, compiled = codec.read(payloads), codec.read(payloads, fast=fast)
    assert np.array_equal(plain.flaws, compiled.flaws)
    good = plain.good
    assert np.array_equal(plain.rows[good], compiled.rows[good])
    assert np.array_equal(codec.read(payloads, keep=False, fast=fast).flaws, plain.flaws)
    for part, fine in zip(parts, good, strict=True):
        assert fine or part not in sent
    said = iter(codec.unstack(plain.rows[good]))
    for part in [part for part, fine in zip(parts, good, strict=True) if fine]:
        payload = next(said)
        assert codec.encode(payload) == part and codec.decode(part) == payload
    if isinstance(codec, Members):
        counts, flaws = count_members(codec, payloads)
        expected = np.bincount(plain.rows[good].reshape(-1), minlength=codec.symbols + 1)[: codec.symbols]
        assert np.array_equal(counts, expected) and np.array_equal(flaws, plain.flaws)
    if isinstance(codec, LabelledKeys):
        counts, flaws = count_labels_of(codec, payloads)
        spoken: list[Any] = codec.unstack(plain.rows[good])
        symbols = [symbol for payload in spoken for symbol in payload]
        expected = np.bincount(np.array(symbols, dtype=np.int64), minlength=codec.keys * codec.labels)
        assert np.array_equal(counts.T.reshape(-1), expected) and np.array_equal(flaws, plain.flaws)


LONG: dict[str, Any] = {
    "gaps": RealMembers(400, 60, 5),
    "wide gaps": RealMembers(90_000, 40, 5),
    "labels": LabelledKeys(300, 97, Fraction(2, 5)),
    "wide labels": LabelledKeys(300, 3000, Fraction(1, 5)),
    "signs": SignedKeys(300, share=Fraction(1, 3)),
    "rare bits": RareBits(300, Fraction(1, 5)),
}


@pytest.mark.parametrize("kind", LONG)
def test_long_payloads_that_were_damaged_are_read_as_somebody_else_would_have_written_them(kind: str) -> None:
    """One byte changed, or some cut off: refused, or exactly the encoding of what is read; and only those count."""
    codec, rng = LONG[kind], np.random.default_rng(5)
    sent = []
    for _ in range(12):
        if isinstance(codec, Members):
            payload: Payload = tuple(
                sorted(rng.permutation(codec.symbols)[: codec.size - int(rng.integers(4))].tolist())
            )
        elif isinstance(codec, BitVector):
            payload = BitVector.pack(rng.random(codec.length) < 0.2)
        else:
            keys = np.flatnonzero(rng.random(codec.keys) < float(codec.share))
            payload = tuple((keys * codec.labels + rng.integers(0, codec.labels, len(keys))).tolist())
        sent.append(codec.encode(payload))
    parts = list(sent)
    for number in range(400):
        part = bytearray(sent[number % len(sent)])
        part[rng.integers(len(part))] ^= 1 << int(rng.integers(8))
        parts.append(bytes(part if number % 4 else part[: rng.integers(len(part))]))
    payloads = Payloads.of(parts)
    plain, compiled = codec.read(payloads), codec.read(payloads, fast=fast)
    assert np.array_equal(plain.flaws, compiled.flaws)
    good = compiled.good
    assert good[: len(sent)].all() and len(sent) < good.sum() < len(parts)
    said = codec.unstack(compiled.rows[good])
    assert said == codec.unstack(plain.rows[good])
    assert [codec.encode(payload) for payload in said] == [part for part, fine in zip(parts, good, strict=True) if fine]
    if not isinstance(codec, BitVector):
        counts = (
            count_members(codec, payloads)[0] if isinstance(codec, Members) else count_labels_of(codec, payloads)[0].T
        )
        symbols = np.array([symbol for payload in said for symbol in payload])
        assert np.array_equal(counts.reshape(-1), np.bincount(symbols, minlength=counts.size))


@pytest.mark.parametrize(
    "codec", [RealMembers(400, 60, 59), SignedKeys(300, share=Fraction(1, 3))], ids=["gaps", "signs"]
)
def test_a_symbol_just_beyond_the_last_one_is_refused_wherever_it_stands(codec: Any) -> None:
    """Sets of every size, all of whose codes are short, so that several are looked up at once."""
    if isinstance(codec, Members):
        last, step, behind = codec.symbols, 1, b""
        wider: Any = replace(codec, symbols=last + 1)
    else:
        last, step, behind = 2 * codec.keys + 1, 4, bytes(8)
        wider = replace(codec, keys=codec.keys + 1)
    assert wider.shift == codec.shift
    parts = [wider.encode(tuple(range(last - step * more, last + 1, step))) + behind for more in range(1, 59)]
    for fast_or_not in (fast, lambda loop: loop):
        assert set(codec.read(Payloads.of(parts), fast=fast_or_not).flaws.tolist()) == {RANGE}


@pytest.mark.parametrize("share", [Fraction(1, 10), Fraction(1, 4), Fraction(2, 5)], ids=str)
def test_every_vector_has_one_encoding_among_all_short_messages(share: Fraction) -> None:
    codec = RareBits(9, share)
    parts = [number.to_bytes(1, "little") for number in range(256)]
    parts += [number.to_bytes(2, "little") for number in range(1 << 16)]
    decoded = read(codec, Payloads.of(parts))
    assert decoded.good.sum() == 1 << 9 == len(np.unique(decoded.rows[decoded.good]))


@given(st.lists(st.binary(max_size=6), max_size=5), st.booleans())
def test_padding_is_put_on_in_bulk_as_it_is_one_by_one(parts: list[bytes], varies: bool) -> None:
    size = 5
    good = [part for part in parts if (len(part) < size if varies else len(part) == size)]
    held = Payloads.of(good + parts)[::-1]  # in another order than they lie in memory
    assert held.joined().tobytes() == b"".join((good + parts)[::-1])
    padded = pad_many(Payloads.of(good)[::-1], size, varies)
    assert [row.tobytes() for row in padded] == [pad(part, size, varies) for part in good[::-1]]
    if len(good) < len(parts):
        with pytest.raises(ReportError):
            pad_many(held, size, varies)


@given(st.sampled_from(CODECS), numbers, st.integers(0, 5), st.binary(max_size=8), st.booleans())
def test_padding_is_taken_off_in_bulk_as_it_is_one_by_one(
    codec: BulkCodec, drawn: list[int], more: int, strange: bytes, varies: bool
) -> None:
    payload = codec.encode(payloads_of(codec, drawn))
    size = len(payload) + varies + (more if varies else 0)
    parts = [pad(payload, size, varies), strange, strange.ljust(size, b"\0"), b"\x80".ljust(size, b"\0")]
    taken, flaws = unpad_many(Payloads.of(parts), size, varies, fast)
    for number, part in enumerate(parts):
        try:
            expected: bytes | None = unpad(part, size, varies)
        except ReportError as refused:
            expected = None
            assert refused.code == refusal(int(flaws[number])).code
        assert (flaws[number] == FINE) == (expected is not None)
        assert taken.one(number) == (expected or b"")


@given(st.sampled_from(CODECS), numbers, st.integers(0, 3), st.lists(st.binary(max_size=12), max_size=3))
def test_a_padded_codec_is_read_in_bulk_as_it_is_one_by_one(
    codec: BulkCodec, drawn: list[int], more: int, strange: list[bytes]
) -> None:
    form = Padded(codec, codec.longest + codec.varies + more)
    parts = [form.encode(payloads_of(codec, drawn)), *(part.ljust(form.size, b"\0")[: form.size] for part in strange)]
    parts += strange
    taken, flaws = form.unfill_many(Payloads.of(parts), fast)
    for number, part in enumerate(parts):
        try:
            expected: bytes | None = form.unfill(part)
        except ReportError:
            expected = None
        assert (flaws[number] == FINE) == (expected is not None)
        assert expected is None or taken.one(number) == expected


def test_a_codec_of_others_is_read_one_by_one() -> None:
    class Foreign:
        """A codec that knows single payloads only."""

        bits, longest, varies = 8.0, 1, False

        def decode(self, data: bytes) -> Payload:
            return Symbol(5).decode(data)

        encode, stack, unstack = Symbol(5).encode, Symbol(5).stack, Symbol(5).unstack

    decoded = read(Foreign(), Payloads.of([b"\x09", b"\x03", b"", b"\x04"]))
    assert decoded.flaws.tolist() == [REFUSED, FINE, REFUSED, FINE]
    assert decoded.rows[decoded.good].tolist() == [3, 4]
    assert read(Foreign(), Payloads.of([b"\x09"])).flaws.tolist() == [REFUSED]


@pytest.mark.parametrize("offsets", [[0, 9], [2, 1], [-1, 2], []])
def test_offsets_outside_the_data_are_refused(offsets: list[int]) -> None:
    with pytest.raises(ReportError, match="offsets"):
        Payloads.end_to_end(bytes(4), np.array(offsets, dtype=np.int64))


def test_flaws_are_told_in_a_sentence() -> None:
    assert refusal(SIZE).code == "report/size"
    with pytest.raises(ReportError, match="other form would be shorter"):
        Decoded(None, np.array([0, 5], dtype=np.int8)).without_flaw()


# -- time ------------------------------------------------------------------------------------------------------------


@dataclass
class Counted:
    """Eights of a payload that count how often a loop looks at one: its work, without a clock."""

    eights: Any
    looks: int = 0

    def __getitem__(self, place: Any) -> Any:
        self.looks += 1
        return self.eights[place]


class Watched(Payloads):
    """Payloads whose loop is watched."""

    def eights(self) -> Any:
        eights, starts, stops = super().eights()
        self.__dict__["counted"] = Counted(eights)
        return self.__dict__["counted"], starts, stops


LARGE: dict[str, Any] = {
    "gaps": lambda d: RealMembers(d, d // 10, 5),
    "triples": lambda d: DenseMembers(d, d // 2, 5),
    "labels": lambda d: LabelledKeys(d, 33, Fraction(1, 20)),
    "signs": lambda d: SignedKeys(d, share=Fraction(1, 4)),
    "rare bits by gaps": lambda d: RareBits(d, Fraction(1, 10)),
    "rare bits by threes": lambda d: RareBits(d, Fraction(2, 5)),
}


def looks(codec: Any, data: bytes) -> int:
    column = Watched(np.frombuffer(data, np.uint8), np.array([0]), np.array([len(data)]))
    codec.read(column, keep=False)
    return int(column.__dict__["counted"].looks)


def measured(codec: Any, made: Callable[[Any, int], bytes], d: int) -> tuple[int, int]:
    data = made(codec, d)
    return len(data), looks(codec, data)


def a_long_one(codec: Any, d: int, seed: int = 1) -> bytes:
    """A payload with about the share of symbols that the codec expects."""
    chosen = np.random.default_rng(seed).permutation(d)[: codec.size if isinstance(codec, Members) else d // 5]
    if isinstance(codec, BitVector):
        bits = np.zeros(d, dtype=np.uint8)
        bits[chosen] = 1
        return codec.encode(np.packbits(bits, bitorder="little").tobytes())
    labels = 1 if isinstance(codec, Members) else codec.labels
    return codec.encode(tuple(sorted(int(key) * labels for key in chosen)))


@pytest.mark.parametrize("kind", LARGE)
def test_work_grows_with_the_length_of_a_payload_and_no_faster(kind: str) -> None:
    """Slope of looks against length at most 1.05 for honest payloads, and for bytes that only mean to cost work."""
    sizes = (3000, 30_000)  # a run of ones is read 32 at a time, and its rest one by one
    for made in (a_long_one, lambda codec, d: b"\xff" * codec.longest, lambda codec, d: bytes(codec.longest)):
        pairs = [
            (len(data), looks(codec, data)) for d in sizes for codec in [LARGE[kind](d)] for data in [made(codec, d)]
        ]
        (short, little), (long, much) = pairs
        assert math.log(max(much, 1) / max(little, 1)) <= 1.05 * math.log(long / short)
        assert much <= 40 * long


@pytest.mark.soak
@pytest.mark.parametrize("kind", [*LARGE, "bits"])
def test_decoding_time_against_payload_length(kind: str, record_property: Callable[[str, object], None]) -> None:
    """Slope at most 1.1 in the compiled reader, and in the encoder; a byte that only means to cost work costs at most
    twice an honest one.

    Every column has the same number of payloads, so that what a call costs by itself is the same at every length; and
    about as many different bits, because a processor learns to foresee a short payload that it meets again and again.
    """
    sizes = [6_000, 25_000, 100_000, 400_000]
    codecs = [{**LARGE, "bits": BitVector}[kind](d) for d in sizes]
    slopes, largest = {}, {}
    for name, made in {"honest": a_long_one, "ones": _all(b"\xff"), "zeros": _all(b"\0")}.items():
        columns = []
        for codec, d in zip(codecs, sizes, strict=True):
            different = min(64, 1_600_000 // d) if name == "honest" else 1
            once = Payloads.of([made(codec, d, seed) for seed in range(different)])
            columns.append(once[np.arange(64)[::-1] % different])  # never in the order of memory: that is faster
        lengths = [int(column.lengths[0]) for column in columns]
        pairs = list(zip(codecs, columns, strict=True))
        seconds = _fastest([partial(_seconds, partial(read, codec, column, keep=False)) for codec, column in pairs])
        slopes[name] = _slope(lengths, seconds)
        largest[name] = seconds[-1] / lengths[-1]
        if name == "honest":
            assert all(read(codec, column, keep=False).good.all() for codec, column in pairs)
            record_property("ms a report at 10^5 keys", round(1000 * seconds[2] / 64, 3))
            payloads = [codec.decode(column.one(0)) for codec, column in pairs]
            encoding = [
                partial(_seconds, partial(codec.encode, one)) for codec, one in zip(codecs, payloads, strict=True)
            ]
            slopes["encoding"] = _slope(lengths, _fastest(encoding))
    record_property("slopes", {name: round(slope, 3) for name, slope in slopes.items()})
    assert slopes["honest"] <= 1.1
    assert slopes["encoding"] <= 1.1
    assert max(largest.values()) <= 2 * largest["honest"]


def _all(octet: bytes) -> Callable[[Any, int, int], bytes]:
    return lambda codec, d, seed: octet * codec.longest


def _fastest(timers: Sequence[Callable[[], float]], repeats: int = 15) -> list[float]:
    """The least time of each, measured in turns, so that a machine that slows down slows all of them."""
    turns = [[timer() for timer in timers] for _ in range(repeats)]
    return [min(times) for times in zip(*turns, strict=True)]


def _slope(lengths: Sequence[int], seconds: Sequence[float]) -> float:
    return float(np.polyfit(np.log(lengths), np.log(seconds), 1)[0])


def _seconds(work: Callable[[], object]) -> float:
    """Seconds of processor for one call, over at least ten milliseconds."""
    calls, begin = 0, time.thread_time()
    while (spent := time.thread_time() - begin) < 0.01:
        work()
        calls += 1
    return spent / calls
