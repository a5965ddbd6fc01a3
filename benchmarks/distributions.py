"""How far estimated distributions are from the truth, and how long they take.

    python -m benchmarks.distributions [FILE]         errors at ε = 1, also on a file of user, key and value
    python -m benchmarks.distributions --picture OUT  the picture of the guide
    python -m benchmarks.distributions --speed        seconds for a thousand keys with 1 024 cells

EM with the fakes as a known component goes against subtracting the fakes and clipping, as it was published (erratum
D8): on expected counts, on a synthetic set, and on the file, for which it also says how many people would be needed.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from time import perf_counter
from typing import get_args

import numpy as np
from numpy.typing import NDArray

import keyveil as kv
from keyveil.core.tally import Tally
from keyveil.kernels.em import window_em
from keyveil.lab import datasets
from keyveil.lab.aggregate import aggregate
from keyveil.lab.coins import SeededCoins
from keyveil.lab.metrics import most_frequent, wasserstein
from keyveil.learn.distributions import Method, distribution
from keyveil.mechanisms.keyvalue.kv_sw import KVSW

Floats = NDArray[np.float64]

TOP, RUNS, MOST_DOUBLINGS = 20, 40, 24


def subtract_and_clip(mechanism: KVSW, tally: Tally) -> Floats:
    """As published: n(1 - f)c fakes are subtracted evenly, what falls below zero is cut, and EM runs on the rest."""
    counts, outputs = tally.counts.T.astype(np.float64), mechanism.window.outputs
    frequency = np.clip(mechanism.estimate(tally).frequency.values, 0, 1)
    fakes = tally.reports * (1 - frequency) * float(mechanism.fake)
    channel = mechanism.window.channel
    return window_em(
        np.maximum(counts - fakes[:, None] / outputs, 0),
        float(channel.hit),
        float(channel.miss),
        channel.marked,
        tolerance=1e-3 * channel.high / channel.low,
        smooth=False,
    )


def expected(mechanism: KVSW, frequency: Floats, laws: Floats) -> Floats:
    """The probability of every cell, [d, outputs]: a holder's pair is sampled once in ``max_pairs``."""
    sampled = frequency[:, None] / mechanism.max_pairs
    true = laws @ mechanism.window.matrix().T
    return sampled / 2 * true + (1 - sampled) * float(mechanism.fake) / mechanism.window.outputs


def noiseless(mechanism: KVSW, frequency: Floats, laws: Floats, n: int) -> Tally:
    """The counts that are expected of n people."""
    return Tally(mechanism.fingerprint, n, np.rint(n * expected(mechanism, frequency, laws)).astype(np.int64).T)


def drawn(mechanism: KVSW, frequency: Floats, laws: Floats, n: int, rng: np.random.Generator) -> Tally:
    """The tally of n people drawn from a population; right for every key, but keys are independent of each other."""
    said = expected(mechanism, frequency, laws)
    counts = rng.multinomial(n, np.column_stack([said, 1 - said.sum(axis=1)]))[:, :-1]
    return Tally(mechanism.fingerprint, n, counts.T)


def on_points(values: Floats, cells: int) -> Floats:
    """The law of values on [-1, 1], each shared by the two nearest of ``cells`` equidistant points."""
    place = (values + 1) / 2 * (cells - 1)
    floor = np.minimum(place.astype(np.int64), cells - 2)
    rest = place - floor
    weights = np.bincount(floor, 1 - rest, cells) + np.bincount(floor + 1, rest, cells)
    law: Floats = weights / len(values)
    return law


def laws_of(people: kv.Population, schema: kv.Schema, cells: int) -> Floats:
    """``on_points`` for every key."""
    known = people.keyed(schema)
    unit = schema.to_unit(known.keys, known.values)
    order = np.argsort(known.keys, kind="stable")
    parts = np.split(unit[order], np.cumsum(np.bincount(known.keys, minlength=schema.d))[:-1])
    return np.array([on_points(part, cells) if len(part) else np.full(cells, np.nan) for part in parts])


def synthetic(n: int, seed: int = 1) -> tuple[kv.Population, kv.Schema]:
    """Ten keys with frequencies from 0.2 to 0.7 and means from -0.7 to 0.7."""
    people = datasets.independent(n, np.linspace(0.2, 0.7, 10), np.linspace(-0.7, 0.7, 10), seed)
    return people, kv.Schema(keys=10)


def against_published(mechanism: KVSW, tally: Tally, laws: Floats) -> tuple[float, float]:
    """W₁ of EM with a known component, and as published."""
    ours, published = _both(mechanism, tally)
    return wasserstein(ours, laws), wasserstein(published, laws)


def make(schema: kv.Schema, max_pairs: int) -> KVSW:
    mechanism = kv.mechanism("kv-sw", schema, 1, max_pairs=max_pairs)
    assert isinstance(mechanism, KVSW)
    return mechanism


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.distributions", description="Errors of distributions at ε = 1.")
    parser.add_argument("file", nargs="?", type=Path, help="a Parquet or CSV file of user, key and value")
    parser.add_argument("--picture", type=Path, help="where the guide's picture goes")
    parser.add_argument("--speed", action="store_true", help="seconds for a thousand keys with 1 024 cells")
    options = parser.parse_args()
    if options.picture:
        picture(options.picture)
        return
    if options.speed:
        speed()
        return
    print(f"{'':<42}{'known component':>16}{'as published':>14}{'ratio':>8}")
    people, schema = synthetic(1_000_000)
    mechanism = make(schema, 5)
    laws, frequency = laws_of(people, schema, mechanism.points), people.truth(schema).frequency
    _show("expected counts, cap 5", *against_published(mechanism, noiseless(mechanism, frequency, laws, 10**9), laws))
    tally = aggregate(mechanism, people.records(schema), SeededCoins(1))
    _show("synthetic, n = 10⁶, d = 10, cap 5", *against_published(mechanism, tally, laws))
    if options.file:
        from_file(options.file)


def from_file(path: Path) -> None:
    """A real file, over its most frequent keys; then with ever more people until a blind guess is clearly beaten."""
    data = datasets.real(path)
    mechanism = make(data.schema, max(round(float(np.quantile(data.population.sizes, 0.9))), 1))
    frequency = data.population.truth(data.schema).frequency
    top = most_frequent(frequency, TOP)
    all_laws = laws_of(data.population, data.schema, mechanism.points)
    laws = all_laws[top]
    errors, records = [], data.population.records(data.schema)
    for seed in range(RUNS):
        tally = aggregate(mechanism, records, SeededCoins(seed))
        errors.append([wasserstein(found[top], laws) for found in _both(mechanism, tally)])
    _show(f"{data.name}, n = {data.population.n:,}, top {TOP}", *np.mean(errors, axis=0).tolist())
    gaps = np.subtract(*np.transpose(errors))
    print(f"Difference over {RUNS} runs: {gaps.mean():+.4f}, standard error {gaps.std(ddof=1) / np.sqrt(RUNS):.4f}.")
    blind = wasserstein(np.full(laws.shape, 1 / mechanism.points), laws)
    small = make(kv.Schema(keys=len(top)), min(mechanism.max_pairs, len(top)))
    rng, n, error = np.random.default_rng(1), data.population.n, np.inf
    for _ in range(MOST_DOUBLINGS):
        error = wasserstein(distribution(small, drawn(small, frequency[top], laws, n, rng)).law, laws)
        if error < blind / 4:
            break
        n *= 2
    print(f"A uniform guess has {blind:.3f}; a quarter of that takes about n = {n:,} people (W₁ {error:.3f}).")


def picture(path: Path) -> None:
    """Three keys of the synthetic set."""
    people, schema = synthetic(300_000)
    mechanism = make(schema, 5)
    found = distribution(mechanism, aggregate(mechanism, people.records(schema), SeededCoins(1)))
    found.plot(["4", "6", "8"]).savefig(path, dpi=110)


def speed() -> None:
    """A thousand keys with 1 024 cells and a million people; frequencies fall like one over the rank."""
    mechanism = kv.mechanism("kv-sw", kv.Schema(keys=1000), 1, max_pairs=5, cells=1024)
    assert isinstance(mechanism, KVSW)
    at = np.linspace(-1, 1, mechanism.points)
    shape = np.exp(-(((at - np.linspace(-0.6, 0.6, 1000)[:, None]) / 0.2) ** 2))
    frequency, laws = np.minimum(0.5, 2 / np.arange(1, 1001)), shape / shape.sum(axis=1, keepdims=True)
    tally = drawn(mechanism, frequency, laws, 1_000_000, np.random.default_rng(1))
    mechanism.distribution(tally, "0")  # compiles
    for method in get_args(Method)[:2]:
        start = perf_counter()
        found = distribution(mechanism, tally, method)
        error = wasserstein(found.law[:10], laws[:10])
        print(f"{method:<4}{perf_counter() - start:6.1f} s, W₁ of the ten most frequent keys {error:.3f}")


def _both(mechanism: KVSW, tally: Tally) -> tuple[Floats, Floats]:
    return distribution(mechanism, tally).law, subtract_and_clip(mechanism, tally)


def _show(name: str, ours: float, published: float) -> None:
    print(f"{name:<42}{ours:>16.4f}{published:>14.4f}{published / ours:>8.1f}", flush=True)


if __name__ == "__main__":
    main()
