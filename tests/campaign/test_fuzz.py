"""Hostile bytes: whatever arrives, the decoders answer with a batch or with a refusal, never with anything else."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pytest

from keyveil.campaign.wire import Batch, from_json, from_packed, unpad
from keyveil.core.codecs.payloads import FINE, Payloads
from keyveil.core.codecs.symbols import Codec
from keyveil.core.errors import ReportError
from keyveil.lab.coins import SeededCoins
from keyveil.mechanisms import registry
from keyveil.mechanisms.base import Mechanism
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


# -- payloads of every mechanism, guided by what the reader says ------------------------------------------------------


def hunt(inputs: int, seed: int) -> dict[str, tuple[int, int]]:
    """Spoil reports of every mechanism; for each how many inputs were counted, and how many ways it was refused.

    What reaches a new place (another flaw, or another length at which it is found) is spoilt further. Whatever is
    counted must be what a device would have sent, to the byte, and the check and the count must agree.
    """
    chance, told = random.Random(seed), {}
    forms = dict(registry.forms())
    for name, mechanism in forms.items():
        corpus, seen, counted = _honest(mechanism, chance), set(), 0  # type: list[bytes], set[tuple[int, int]], int
        left = inputs // len(forms) + 1
        while left > 0:
            some = [spoilt(chance.choice(corpus), chance)[:400] for _ in range(min(left, 2000))]
            left -= len(some)
            publics = np.frombuffer(chance.randbytes(16 * len(some)), np.uint8).reshape(-1, 16)
            column, words = Payloads.of(some), mechanism.words(publics)
            flaws = mechanism.read_encoded(column, words, keep=False).flaws
            tally, again = mechanism.tally_good(publics, column)
            assert np.array_equal(flaws, again)
            assert tally.reports == np.count_nonzero(flaws == FINE)
            for at, flaw in enumerate(flaws.tolist()):
                place = (flaw, len(some[at]))
                if place not in seen:
                    seen.add(place)
                    corpus.append(some[at])
                if flaw == FINE:
                    counted += 1
                    if counted <= 200:
                        public = publics[at].tobytes()
                        assert mechanism.encode(mechanism.decode(some[at], public)) == some[at]
        told[name] = counted, len({flaw for flaw, _ in seen} - {FINE})
    return told


def _honest(mechanism: Mechanism, chance: random.Random) -> list[bytes]:
    coins = SeededCoins(chance.randrange(1 << 30))
    record = next(iter(mechanism.every_record()))
    return [mechanism.encode(mechanism.perturb_pairs(record, coins)) for _ in range(8)]


def test_readers_of_every_mechanism_survive_hostile_bytes() -> None:
    told = hunt(10_000, seed=3)
    assert all(refused for _, refused in told.values())
    assert sum(counted > 0 for counted, _ in told.values()) > len(told) / 2


@pytest.mark.soak
def test_readers_of_every_mechanism_survive_two_million_inputs(
    record_property: Callable[[str, object], None],
) -> None:
    seed = int.from_bytes(os.urandom(4), "little")
    told = hunt(2_000_000, seed)
    record_property("inputs", 2_000_000)
    record_property("seed", seed)
    record_property("mechanisms", len(told))
    record_property("counted", sum(counted for counted, _ in told.values()))
