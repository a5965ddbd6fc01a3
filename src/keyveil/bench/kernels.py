"""The hot loops against plain NumPy, at d = 1024 keys and n = 100 000 people."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from keyveil.bench.rows import REGISTRY, Benchmark, Race, benchmark
from keyveil.core.coins import Coins
from keyveil.core.schema import Schema
from keyveil.kernels.bernoulli import perturb_unary
from keyveil.kernels.bits import count_bits
from keyveil.kernels.em import window_em
from keyveil.kernels.hashing import count_support, hash_many
from keyveil.kernels.subsets import count_symbols
from keyveil.mechanisms.capabilities import Windows, need
from keyveil.mechanisms.registry import create

D = 1024
BLOCK = 1024
OUE = 1155094610  # 1 / (e + 1) in units of 2**-32


def _people(quick: bool) -> int:
    return 20_000 if quick else 100_000


def _olh_counting(quick: bool, block: int) -> Race:
    generator = np.random.default_rng(1)
    n, g = _people(quick), 4
    seeds = generator.integers(0, 1 << 64, n, dtype=np.uint64)
    symbols = generator.integers(0, g, n).astype(np.uint32)
    values = np.arange(D, dtype=np.uint32)

    def rival() -> None:
        counts = np.zeros(D, dtype=np.int64)
        for i in range(0, n, block):
            hashes = hash_many(seeds[i : i + block, None], values, g)
            counts += (hashes == symbols[i : i + block, None]).sum(axis=0, dtype=np.uint16)

    return Race(lambda: count_support(seeds, symbols, g, D), rival)


@benchmark("olh-counting", against=f"NumPy with the same hash in blocks of {BLOCK} people", goal=20)
def olh_counting(quick: bool) -> Race:
    return _olh_counting(quick, BLOCK)


@benchmark("olh-counting-tuned", against="NumPy with the same hash in blocks of 64 people, where it is fastest")
def olh_counting_tuned(quick: bool) -> Race:
    return _olh_counting(quick, 64)


@benchmark("unary-perturbation", against="rng.random((block, d)) < p in doubles", goal=20)
def unary_perturbation(quick: bool) -> Race:
    generator = np.random.default_rng(2)
    n, coins = _people(quick), Coins()
    hot = generator.integers(0, D, n)

    def rival() -> None:
        for first in range(0, n, BLOCK):
            _ = generator.random((min(BLOCK, n - first), D)) < OUE / (1 << 32)

    return Race(lambda: perturb_unary(hot, D, 1 << 31, OUE, coins), rival)


def _words(quick: bool) -> NDArray[np.uint64]:
    return np.random.default_rng(3).integers(0, 1 << 64, (_people(quick), D // 64), dtype=np.uint64)


@benchmark("bit-counting", against=f"unpackbits sums in blocks of {BLOCK} people", goal=8)
def bit_counting(quick: bool) -> Race:
    words = _words(quick)

    def rival() -> None:
        counts = np.zeros(D, dtype=np.uint64)
        for first in range(0, len(words), BLOCK):
            counts += np.unpackbits(words[first : first + BLOCK].view(np.uint8), axis=1).sum(axis=0)

    return Race(lambda: count_bits(words), rival)


@benchmark("bit-counting-tuned", against="unpackbits sums in sixteen bits, the fastest way to put it in NumPy")
def bit_counting_tuned(quick: bool) -> Race:
    words = _words(quick)
    return Race(lambda: count_bits(words), lambda: count_bits.twin(words))


@benchmark("keystream", against="PCG64 words")
def keystream(quick: bool) -> Race:
    coins, generator = Coins(), np.random.default_rng(4)
    buffer = np.empty(1 << 17, dtype=np.uint64)
    rounds = 20 if quick else 100

    def contestant() -> None:
        for _ in range(rounds):
            coins.fill(buffer)

    def rival() -> None:
        for _ in range(rounds):
            generator.integers(0, 1 << 64, len(buffer), dtype=np.uint64)

    return Race(contestant, rival)


@benchmark("subset-counting", against="np.bincount")
def subset_counting(quick: bool) -> Race:
    rows = np.random.default_rng(5).integers(0, 2 * D, (_people(quick), 100)).astype(np.int32)
    return Race(lambda: count_symbols(rows, 2 * D), lambda: np.bincount(rows.reshape(-1), minlength=2 * D))


def _distributions(many: int, quick: bool) -> Race:
    """So many steps of EM for ``many`` collections of square wave with 1024 cells, against dense matrix products."""
    steps = 10 if quick else 50
    wave = create("square-wave", Schema(keys=1, low=-1, high=1), 1)
    window = need(wave, Windows).window_counts(wave.tally([])).window
    matrix, channel = window.matrix(), window.channel
    bell = np.exp(-(np.linspace(-3, 3, window.inputs) ** 2) / 2)
    counts = np.random.default_rng(6).multinomial(1_000_000, matrix @ (bell / bell.sum()), many).astype(np.float64)

    def contestant() -> None:
        hit, miss = float(channel.hit), float(channel.miss)
        window_em(counts, hit, miss, channel.marked, tolerance=-np.inf, smooth=False, limit=steps)

    def rival() -> None:
        shares = np.full((many, window.inputs), 1 / window.inputs)
        for _ in range(steps):
            shares *= (counts / (shares @ matrix.T)) @ matrix
            shares /= shares.sum(axis=1, keepdims=True)

    return Race(contestant, rival)


for _name, _many, _goal in (("square-wave-em", 1, 50), ("square-wave-em-16", 16, None)):
    _told = f"EM with dense matrix products of NumPy, {_many} at a time"
    REGISTRY.append(Benchmark(_name, _told, _goal, partial(_distributions, _many)))
