"""``python -m benchmarks.service [--bare] [--quick] [--json]``: durable reports a second, over HTTP, on both databases.

Each row is one collector process that a client on the same machine keeps busy. Ratios are to one commit per report
through the same route: the same collector told to commit every upload alone, given one report at a time. With
``--bare`` they are to a bare route with the same decoder, for each second of the processor (``against_bare``).
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import against_bare
from benchmarks.load import Outcome, closed_loop, open_loop, request
from benchmarks.runner import machine
from keyveil.campaign.rounds import RoundDocument
from keyveil.campaign.wire import Batch
from tests.collector.crowds import cluster, reports, survey
from tests.postgres import PostgreSQL

SIZES = {1: 64, 10: 64, 100: 32, 500: 16}  # reports in an upload, and connections that send them
GOALS = {1: 4, 500: 20}


def fsync_seconds(folder: Path, times: int = 50) -> float:
    """How long the disk takes to make one small write durable; everything else stands on it."""
    waits = []
    with (folder / "probe").open("wb") as file:
        for _ in range(times):
            file.write(b"x" * 4096)
            file.flush()
            begin = time.perf_counter()
            os.fsync(file.fileno())
            waits.append(time.perf_counter() - begin)
    return median(waits)


def uploads(document: RoundDocument, size: int) -> Iterator[bytes]:
    """Requests with ever new ids; payloads are real ones, again and again."""
    payloads = reports(document, 2000, 2000)[0].payloads
    for start in count(0, size):
        ids = os.urandom(16 * size)
        some = tuple(payloads[(start + at) % len(payloads)] for at in range(size))
        batch = Batch(document.number, document.hash, tuple(ids[16 * at : 16 * at + 16] for at in range(size)), some)
        yield request("snacks", batch.to_packed())


def measure(folder: Path, url: str, size: int, connections: int, seconds: float, **environment: str) -> Outcome:
    """One collector, one size of uploads; what was acknowledged must be there."""
    with cluster(folder, url, 1, **environment) as one:
        document, port = one.open(survey()), one.running[0].port
        made = uploads(document, size)
        closed_loop(port, made, size, connections, seconds / 4)
        before = _warm(one)
        outcome = closed_loop(port, made, size, connections, seconds)
        if _stored(one) - before != outcome.reports:
            raise RuntimeError("Acknowledged and stored reports differ.")
    return outcome


def overload(folder: Path, url: str, capacity: float, size: int, seconds: float) -> Outcome:
    """Twice as many uploads as the collector can store, with a queue of two seconds."""
    waiting = str(max(size, int(2 * capacity)))
    with cluster(folder, url, KEYVEIL_QUEUE_REPORTS=waiting) as one:
        document, port = one.open(survey()), one.running[0].port
        prepared = _prepared(document, size, int(2 * capacity / size * seconds) + 1)
        outcome = open_loop(port, prepared, size, 2 * capacity / size, seconds, most=1000)
        if _stored(one) != outcome.reports:
            raise RuntimeError("Acknowledged and stored reports differ.")
    return outcome


def run(quick: bool) -> Iterator[dict[str, Any]]:
    """All rows, one after the other."""
    seconds = 1.0 if quick else 8.0
    server = PostgreSQL(durable=True)
    try:
        for kind in ("sqlite", "postgresql"):
            yield from _rows(kind, server, seconds, SIZES if not quick else {1: 16, 500: 4})
    finally:
        server.remove()


def run_against_bare(quick: bool) -> Iterator[dict[str, Any]]:
    """The collector beside a bare route, on both databases, with one worker and with two."""
    if quick:
        return against_bare.rows(against_bare.QUICK, ("sqlite",), (1,), 1.0, 1)
    return against_bare.rows()


def _rows(kind: str, server: PostgreSQL, seconds: float, sizes: dict[int, int]) -> Iterator[dict[str, Any]]:
    def fresh(folder: Path) -> str:
        return f"sqlite:///{folder / 'keyveil.db'}" if kind == "sqlite" else server.database()

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        disk = fsync_seconds(folder)
        base = measure(folder, fresh(folder), 1, sizes[1], seconds, KEYVEIL_GROUP_REPORTS="1")
    yield _row(f"{kind}, one commit per report", base, base, disk, None)
    capacity = 0.0
    for size, connections in sizes.items():
        with tempfile.TemporaryDirectory() as name:
            outcome = measure(Path(name), fresh(Path(name)), size, connections, seconds)
        capacity = outcome.rate if size == 100 else capacity
        yield _row(f"{kind}, uploads of {size}", outcome, base, disk, GOALS.get(size))
    if capacity:
        with tempfile.TemporaryDirectory() as name:
            outcome = overload(Path(name), fresh(Path(name)), capacity, 100, seconds)
        yield _row(f"{kind}, uploads of 100 at twice that rate", outcome, base, disk, None)


def _row(name: str, outcome: Outcome, base: Outcome, disk: float, goal: float | None) -> dict[str, Any]:
    return {
        "name": name,
        "ratio": round(outcome.rate / base.rate, 2),
        "against": "one commit per report through the same route",
        "goal": goal,
        "reports_per_second": round(outcome.rate),
        "p50_ms": round(1000 * outcome.wait(50), 1),
        "p99_ms": round(1000 * outcome.wait(99), 1),
        "statuses": {str(status): number for status, number in sorted(outcome.statuses.items())},
        "fsync_ms": round(1000 * disk, 2),
    }


def _prepared(document: RoundDocument, size: int, number: int) -> Iterator[bytes]:
    made = uploads(document, size)
    return iter([next(made) for _ in range(number)])


def _warm(one: Any) -> int:
    """Wait for the first fold, which loads and compiles what all later ones use; how many reports there are."""
    while not json.loads(one.ask("GET", "/v1/campaigns/snacks/status").body)["rounds"][0]["folded"]:
        time.sleep(0.2)
    return _stored(one)


def _stored(one: Any) -> int:
    status = json.loads(one.ask("GET", "/v1/campaigns/snacks/status").body)
    return int(status["reports"])


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.service", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a second for each row, and fewer of them")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    parser.add_argument("--bare", action="store_true", help="against a bare route, per second of the processor")
    options = parser.parse_args()
    if options.json:
        found = run_against_bare(options.quick) if options.bare else run(options.quick)
        print(json.dumps({"machine": machine(), "ratios": list(found)}))
        return
    print(machine().replace("one thread", "client and collector share the machine"))
    if options.bare:
        against_bare.table(run_against_bare(options.quick))
        return
    print(
        f"{'name':<48} {'ratio':>6} {'goal':>4} {'reports/s':>9} {'p50 ms':>7} {'p99 ms':>7} {'fsync ms':>8}  answers"
    )
    for row in run(options.quick):
        goal = "" if row["goal"] is None else f"{row['goal']:g}"
        answers = ", ".join(f"{number} × {status}" for status, number in row["statuses"].items())
        print(
            f"{row['name']:<48} {row['ratio']:>6.1f} {goal:>4} {row['reports_per_second']:>9,} {row['p50_ms']:>7} "
            f"{row['p99_ms']:>7} {row['fsync_ms']:>8}  {answers}",
            flush=True,
        )


if __name__ == "__main__":
    main()
