"""Hostile bytes: whatever arrives, the decoders answer with a batch or with a refusal, never with anything else."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from keyveil.campaign.wire import Batch, from_json, from_packed, unpad
from keyveil.core.codecs.symbols import Codec
from keyveil.core.errors import ReportError
from tests.campaign.test_wire import CODECS, HASH

JSON_PIECES = [
    b'"',
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b",",
    b"null",
    b"1e999",
    b"-0",
    b"\\u0000",
    b"\xff",
    b"\xed\xa0\x80",
    b"9" * 30,
]


def spoilt(whole: bytes, chance: random.Random) -> bytes:
    """A few cuts, flips, copies and foreign pieces."""
    data = bytearray(whole)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(data) + 1)
        kind = chance.randrange(6)
        if kind == 0 and data:
            data[at % len(data)] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del data[at : at + chance.randint(1, 8)]
        elif kind == 2:
            data[at:at] = chance.randbytes(chance.randint(1, 8))
        elif kind == 3:
            data[at:at] = chance.choice(JSON_PIECES)
        elif kind == 4:
            start = chance.randrange(len(data) + 1)
            data[at:at] = data[start : start + chance.randint(1, 40)]
        else:
            del data[at:]
    return bytes(data)


def batches(chance: random.Random) -> Iterator[Batch]:
    while True:
        size, number = chance.randrange(30), chance.randint(1, 4)
        ids = tuple(chance.randbytes(16) for _ in range(number))
        yield Batch(chance.randint(1, 9), HASH, ids, tuple(chance.randbytes(size) for _ in ids))


def payload(codec: Codec, size: int, padded: bytes) -> object:
    return codec.decode(unpad(padded, size, codec.varies))


def attack(inputs: int, seed: int) -> dict[str, int]:
    """Feed spoilt batches and payloads to every decoder; how often each accepted what it got."""
    chance = random.Random(seed)
    made, taken = batches(chance), {"json": 0, "packed": 0, "payload": 0}

    def attempt(name: str, read: Callable[[bytes], object], data: bytes) -> None:
        try:
            read(data)
            taken[name] += 1
        except ReportError as refused:
            assert refused.code.startswith("report/")

    for _ in range(inputs // 3):
        batch = next(made)
        attempt("json", from_json, spoilt(batch.to_json(), chance))
        attempt("packed", from_packed, spoilt(batch.to_packed(), chance))
        codec = chance.choice(CODECS)
        size = codec.longest + codec.varies
        padded = chance.randbytes(chance.choice((size, size, size, size + 1, max(0, size - 1))))
        attempt("payload", partial(payload, codec, size), padded)
    return taken


def test_decoders_survive_hostile_bytes() -> None:
    taken = attack(60_000, seed=1)

    assert all(taken.values())  # some inputs are harmless, so every decoder was reached to its end


@pytest.mark.soak
def test_decoders_survive_a_million_hostile_inputs(record_property: Callable[[str, object], None]) -> None:
    seed = int.from_bytes(os.urandom(4), "little")
    record_property("inputs", 1_200_000)
    record_property("seed", seed)
    attack(1_200_000, seed)
