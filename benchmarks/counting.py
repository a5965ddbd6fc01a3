"""Tallies in bulk: rates on one core, what two threads gain, decoding of cohort tables, and the first call.

``python -m benchmarks.counting [rates|threads|cohorts|first]`` prints rows. Rates are reports per second of processor
time; only what two threads gain is measured by the clock, so it needs a machine with nothing else to do.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from time import perf_counter, process_time
from typing import Any, NamedTuple

import numpy as np

from keyveil.core.coins import Coins
from keyveil.core.records import Records
from keyveil.core.report import Reports
from keyveil.core.schema import Schema
from keyveil.core.tally import Tally
from keyveil.kernels.siphash import siphash_many
from keyveil.mechanisms.base import BLOCK, Mechanism
from keyveil.mechanisms.registry import create

N = 1 << 20
COHORTS: dict[str, Any] = {"set_sizes": "5", "cohorts": 1 << 16, "buckets": 64}
FOLDED: list[tuple[str, dict[str, Any]]] = [
    ("grr", {}),
    ("pckv-grr", {"max_pairs": 5}),
    ("wsr", {"max_pairs": 5}),
    ("kvue", {}),
    ("privkv", {}),
    ("topsel", {**COHORTS, "hashing": "hash"}),
]


class Row(NamedTuple):
    """One measurement; a goal of ``None`` is for information."""

    name: str
    value: float
    unit: str
    goal: float | None = None


def rates(n: int = N) -> Iterator[Row]:
    """Reports that ``tally`` counts per second of one core, ids included, at d = 100."""
    publics = _publics(n)
    hashed = n / _least(lambda: [siphash_many(bytes(16), publics[at : at + BLOCK]) for at in range(0, n, BLOCK)])
    yield Row("id hash", hashed, "1/s", 1.5e8)
    for name, options in FOLDED:
        mechanism, reports = _reports(name, options, publics)
        rate = n / _least(lambda m=mechanism, r=reports: m.tally(r, threads=1))  # type: ignore[misc]
        goal = 6e7 if name == "topsel" else 0.9 * hashed if mechanism.reads_words else 3e8
        yield Row(f"tally {name}", rate, "1/s", goal)


def threads(n: int = N) -> Iterator[Row]:
    """How much sooner two threads are done than one, by the clock."""
    publics = _publics(n)
    for name, options in FOLDED:
        mechanism, reports = _reports(name, options, publics)
        yield Row(f"tally {name}", _gain(lambda t, m=mechanism, r=reports: m.tally(r, t)), "×", 1.7)  # type: ignore[misc]
    people = Records(
        np.arange(n + 1), np.zeros(n, dtype=np.int32) + np.arange(n, dtype=np.int32) % 100, np.zeros(n, np.int32), 100
    )
    for name in ("grr", "oue", "ss", "olh", "hr"):
        made, coins = create(name, Schema(keys=100), 1), Coins()
        gain = _gain(lambda t, m=made, c=coins: m.perturb_many(people, c, t))  # type: ignore[misc]
        yield Row(f"perturb {name}", gain, "×", 1.7)


def cohorts(keys: int = 20_000) -> Iterator[Row]:
    """Processor seconds of the estimates of a collection with 65 536 cohorts, and seconds when asked again."""
    for hashing, goal in (("hash", 3.0), ("partition", 6.0)):
        mechanism = create("topsel", Schema(keys=keys), 1, **COHORTS, hashing=hashing)
        counts = np.random.default_rng(1).integers(0, 4, mechanism.tally_shape)
        tally = Tally(mechanism.fingerprint, int(counts.sum()), counts)
        start, begin = process_time(), perf_counter()
        mechanism.estimate(tally)
        yield Row(f"{hashing}, first", process_time() - start, "CPU s", goal)
        yield Row(f"{hashing}, first, by the clock", perf_counter() - begin, "s")
        begin = perf_counter()
        mechanism.estimate(tally)
        yield Row(f"{hashing}, again", perf_counter() - begin, "s", 0.01)


def first() -> Iterator[Row]:
    """Seconds of the first tally of a process: a few reports, which a twin counts, and more than twins count."""
    for n in (1_000, 50_000, 200_000):
        script = (
            "import numpy as np, time\n"
            "from keyveil.core.report import Reports\nfrom keyveil.core.schema import Schema\n"
            "from keyveil.mechanisms.registry import create\n"
            f"m, r = create('kvue', Schema(keys=100), 1), Reports(np.zeros(({n}, 16), np.uint8), np.zeros({n}, int))\n"
            "start = time.perf_counter(); m.tally(r); print(time.perf_counter() - start)\n"
        )
        done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
        yield Row(f"first tally of {n:,}", float(done.stdout), "s")


def _publics(n: int) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 256, (n, 16), dtype=np.uint8)


def _reports(name: str, options: dict[str, Any], publics: np.ndarray) -> tuple[Mechanism, Reports]:
    mechanism: Any = create(name, Schema(keys=100), 1, **options)
    answers = np.random.default_rng(2).integers(0, mechanism.codec.outputs, len(publics))
    return mechanism, Reports(publics, answers)


def _least(work: Callable[[], object], repeats: int = 5, clock: Callable[[], float] = process_time) -> float:
    work()  # compiles
    best = float("inf")
    for _ in range(repeats):
        start = clock()
        work()
        best = min(best, clock() - start)
    return best


def _gain(work: Callable[[int], object]) -> float:
    return _least(lambda: work(1), clock=perf_counter) / _least(lambda: work(2), clock=perf_counter)


PARTS: dict[str, Callable[[], Iterator[Row]]] = {
    "rates": rates,
    "threads": threads,
    "cohorts": cohorts,
    "first": first,
}


def main() -> None:
    for part in sys.argv[1:] or PARTS:
        for row in PARTS[part]():
            goal = "" if row.goal is None else f"goal {row.goal:.3g}"
            print(f"{part:<8} {row.name:<32} {row.value:>10.3g} {row.unit:<6} {goal}", flush=True)


if __name__ == "__main__":
    main()
