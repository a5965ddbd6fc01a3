"""Writers of many payloads: the bytes of ``encode``, compiled or not."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from keyveil.core.codecs.labelled_keys import LabelledKeys, SignedKeys
from keyveil.core.codecs.members import DenseMembers, RealMembers
from keyveil.core.codecs.padding import Padded
from keyveil.core.codecs.payloads import plainly
from keyveil.core.codecs.rare_bits import RareBits
from keyveil.core.codecs.symbols import BitVector, Codec, Symbol
from keyveil.core.report import Payload
from keyveil.kernels import writing
from keyveil.kernels.writing import write

CODECS: list[Codec] = [
    Symbol(1),
    Symbol(5),
    Symbol(70_000),
    BitVector(10),
    BitVector(130),
    RealMembers(40, 3, 5),
    RealMembers(200, 10, 5),
    RealMembers(5000, 2, 1),
    DenseMembers(40, 16, 5),
    LabelledKeys(70, 1, Fraction(1, 100)),
    LabelledKeys(70, 5, Fraction(1, 4)),
    LabelledKeys(900, 64, Fraction(1, 1000)),
    SignedKeys(130, share=Fraction(1, 10)),
    RareBits(100, Fraction(1, 10)),
    RareBits(100, Fraction(2, 5)),
    Padded(RealMembers(40, 3, 5), 30),
    Padded(Symbol(300), 5),
]


def _payloads(codec: Codec, count: int = 60) -> list[Payload]:
    """Payloads of all densities, the emptiest and the fullest among them."""
    draws = np.random.default_rng(3)
    made: list[Payload] = []
    for number in range(count):
        share = number / (count - 1)
        match codec:
            case Padded():
                return _payloads(codec.inner, count)
            case Symbol():
                made.append(int(share * (codec.outputs - 1)))
            case BitVector():
                made.append(BitVector.pack(draws.random(codec.length) < share))
            case LabelledKeys():
                keys = np.flatnonzero(draws.random(codec.keys) < share)
                made.append(tuple((keys * codec.labels + draws.integers(codec.labels, size=len(keys))).tolist()))
            case RealMembers() | DenseMembers():
                members = codec.fewest + round(share * (codec.size - codec.fewest))
                made.append(tuple(sorted(draws.choice(codec.symbols, members, replace=False).tolist())))
    return made


@pytest.mark.parametrize("codec", CODECS, ids=str)
@pytest.mark.parametrize("way", ["compiled", "plain", "one by one"])
def test_many_are_written_as_one(codec: Codec, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    payloads = _payloads(codec)
    if way == "plain":
        monkeypatch.setattr(writing, "fast", plainly)
    if way == "one by one":
        monkeypatch.setenv("KEYVEIL_KERNELS", "numpy")
    written = write(codec, codec.stack(payloads))
    assert [written.one(number) for number in range(len(payloads))] == [codec.encode(each) for each in payloads]


def test_rows_are_written_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    codec = LabelledKeys(70, 5, Fraction(1, 4))
    rows = codec.stack(_payloads(codec))
    whole = write(codec, rows)
    monkeypatch.setattr(writing, "_CELLS", 200)
    parts = write(codec, rows)
    assert [parts.one(number) for number in range(60)] == [whole.one(number) for number in range(60)]
    assert not len(write(codec, rows[:0]))
