"""Hostile payloads in bulk, as kernels read them: what is counted is what a device would have sent, to the byte."""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import numpy as np
import pytest

from keyveil.core.codecs.payloads import FINE, Payloads
from keyveil.lab.coins import SeededCoins
from keyveil.mechanisms import registry
from keyveil.mechanisms.base import Mechanism
from tests.fuzzing.engine import spoilt


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
