"""What a device pays: the time of one report, of the first one of a process, and of wire bytes in both directions.

``python -m benchmarks.device`` prints all of it; the functions return rows, so that others can print them in their
way. Times are processor time, the best of several runs, so that other work on the machine counts for little.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import process_time
from typing import Any

import numpy as np

from keyveil.core.coins import Coins
from keyveil.core.errors import MechanismError
from keyveil.core.records import Records
from keyveil.core.schema import Schema
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.registry import create, find_mechanism, mechanism_names

PAIRS, CAP = 5, 8  # pairs of a person, and how many a mechanism takes


@dataclass(frozen=True)
class Row:
    """One measurement: what, at how many keys, how much of which unit, and what is wished for (``None``: nothing)."""

    name: str
    keys: int
    figure: float
    unit: str
    goal: float | None = None


def single_reports(keys: int, names: Sequence[str] = ()) -> Iterator[Row]:
    """Microseconds of one ``perturb``, for every name of the registry that takes so many keys.

    ``KEYVEIL_KERNELS=numpy`` measures a device without a compiler.
    """
    for name in names or mechanism_names():
        try:
            mechanism = at(name, keys)
        except MechanismError:
            continue  # so many keys are not for it
        record, coins = record_for(mechanism), Coins()
        seconds = each(lambda: mechanism.perturb(record, coins))  # noqa: B023
        yield Row(f"perturb {name}", keys, round(1e6 * seconds, 1), "µs", 0.2 * keys)


def first_report(repeats: int = 7) -> Row:
    """Processor time of a process that makes one report, over one that only imports what a device needs."""
    report = (
        "from keyveil.core.schema import Schema\n"
        "from keyveil.core.coins import Coins\n"
        "from keyveil.mechanisms.registry import create\n"
        "m = create('ssr', Schema(keys=1000), 1, max_pairs=8)\n"
        "m.encode(m.perturb({3: 1, 5: 0}, Coins()))\n"
    )
    needed = (
        "import numpy, msgspec, cryptography.hazmat.primitives.ciphers\n"
        "from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes\n"
        "Cipher(algorithms.AES256(bytes(32)), modes.CTR(bytes(16))).encryptor()\n"
    )
    turns = [(_process(report), _process(needed)) for _ in range(repeats)]
    mine, theirs = (min(side) for side in zip(*turns, strict=True))
    return Row("first report of a process", 1000, round(mine / theirs, 2), "× its imports", 1.5)


def wire_bytes(names: Sequence[str] = ("ssr", "pckv-ue", "kv-sw"), keys: int = 1000, n: int = 4000) -> Iterator[Row]:
    """Reports a second of one core that become bytes, that are counted from bytes, and that are checked only."""
    goals = {"ssr": 2e6, "pckv-ue": 2e5, "kv-sw": 2e5}
    for name in names:
        mechanism = at(name, keys)
        reports = mechanism.perturb_many(_people(n, keys), Coins())
        payloads, words = mechanism.encode_many(reports), mechanism.words(reports.publics)
        sides: dict[str, tuple[Callable[[], object], float | None]] = {
            "write": (lambda: mechanism.encode_many(reports), None),  # noqa: B023
            "count": (lambda: mechanism.count_encoded(payloads, words), goals.get(name)),  # noqa: B023
            "check": (lambda: mechanism.read_encoded(payloads, words, keep=False), None),  # noqa: B023
        }
        for verb, (side, goal) in sides.items():
            yield Row(f"{verb} {name}", keys, round(n / each(side, 0.2, 3)), "reports/s", goal)


def at(name: str, keys: int, epsilon: int = 1) -> Mechanism:
    """The mechanism with so many keys and its usual options."""
    needs = {option for example in find_mechanism(name).examples[:1] for option in example}
    options: dict[str, Any] = {"max_pairs": CAP} if "max_pairs" in needs else {}
    if "set_sizes" in needs:
        options["set_sizes"] = str(PAIRS)
    return create(name, Schema(keys=keys, low=-1, high=1), epsilon, **options)


def record_for(mechanism: Mechanism) -> dict[int, float]:
    """A record that the mechanism takes: some pairs, or one key, or all keys."""
    keys = mechanism.schema.d
    if mechanism.takes == "every key":
        return {key: (key % 21 - 10) / 10 for key in range(keys)}
    if mechanism.takes == "one key":
        return {keys // 3: 1.0}
    return {keys // PAIRS * number + number: (number - 2) / 2 for number in range(PAIRS)}


def _people(n: int, keys: int) -> Records:
    room = keys // PAIRS  # each pair has its own stretch of keys, so that keys rise
    draws = np.random.default_rng(1).integers(room, size=(n, PAIRS)) + room * np.arange(PAIRS)
    values = np.zeros(n * PAIRS, dtype=np.int32)
    return Records(np.arange(n + 1) * PAIRS, draws.reshape(-1).astype(np.int32), values, keys)


def each(side: Callable[[], object], budget: float = 0.05, repeats: int = 5) -> float:
    """Seconds of one call: the best of several runs that last a while."""
    side()
    start = process_time()
    side()
    calls = max(1, int(budget / max(process_time() - start, 1e-6)))
    return min(_loop(side, calls) for _ in range(repeats))


def _loop(side: Callable[[], object], calls: int) -> float:
    start = process_time()
    for _ in range(calls):
        side()
    return (process_time() - start) / calls


def _process(program: str) -> float:
    before = os.times()
    subprocess.run([sys.executable, "-c", program], check=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def main() -> None:
    parser = argparse.ArgumentParser(description="What a device pays.")
    parser.add_argument("--keys", type=int, default=1000)
    parser.add_argument("names", nargs="*", help="names of the registry; all if none is given")
    given = parser.parse_args()
    rows = [*single_reports(given.keys, given.names)]
    if not given.names:
        rows += [first_report(), *wire_bytes(keys=given.keys)]
    for row in rows:
        goal = "" if row.goal is None else f"  (goal {row.goal:g})"
        print(f"{row.name:28} {row.keys:>6} {row.figure:>12g} {row.unit}{goal}")


if __name__ == "__main__":
    main()
