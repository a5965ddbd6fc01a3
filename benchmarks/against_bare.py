"""The collector beside a bare route with the same decoder: reports for each second of the server's processor.

Both servers get the same uploads in turns within one run, so the ratio does not depend on the day. Processor time is
that of the server and its workers, user and system, with the folds that follow the load; the client's is not in it.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.load import Outcome, closed_loop, request
from keyveil.campaign.rounds import RoundDocument
from keyveil.campaign.wire import Batch
from keyveil.core.coins import Coins
from keyveil.lab.datasets import independent
from tests.collector.crowds import cluster, encoded, survey
from tests.collector.processes import COMPILED, Served, served
from tests.postgres import PostgreSQL

BARE = ("-m", "benchmarks.bare_route")
CONNECTIONS = {1: 64, 500: 16}  # by the reports in an upload
GOALS = {1: 0.5, 500: 0.7}
LATE = 5.0  # p99 of single uploads, as a multiple of p50: at most this
_KINDS = 500  # different payloads that are sent again and again, under ever new ids
_TICKS = 2.5  # seconds after a load in which the last folds of it run
_ROUNDS = 3  # times that each server gets its turn


@dataclass(frozen=True)
class Case:
    """A mechanism at a number of keys, and the share of the bare route that is asked of it in uploads of a size."""

    mechanism: str
    keys: int
    size: int
    goal: float | None

    @property
    def name(self) -> str:
        return f"{self.mechanism}, d = {self.keys}, uploads of {self.size}"

    def campaign(self) -> dict[str, Any]:
        cap = {} if self.mechanism == "kvue" else {"max_pairs": 5}
        asked = {"name": self.mechanism, "epsilon": "1", **cap}
        return survey(protocol=asked, schema={"keys": self.keys, "low": -1, "high": 1})


CASES = (
    *(Case(name, keys, size, goal) for size, goal in GOALS.items() for name in ("kvue", "ssr") for keys in (20, 1000)),
    Case("pckv-ue", 1000, 500, 0.3),
    Case("kv-sw", 1000, 500, None),
)
QUICK = (Case("ssr", 20, 1, 0.5), Case("ssr", 20, 500, 0.7))


def rows(
    cases: Sequence[Case] = CASES,
    databases: Sequence[str] = ("sqlite", "postgresql"),
    workers: Sequence[int] = (1, 2),
    seconds: float = 3.0,
    turns: int = _ROUNDS,
) -> Iterator[dict[str, Any]]:
    """One row for each case, database and number of workers."""
    server = PostgreSQL(durable=True) if "postgresql" in databases else None
    try:
        for kind in databases:
            for number in workers:
                for case in cases:
                    yield row(case, kind, server, number, seconds, turns)
    finally:
        if server is not None:
            server.remove()


def row(
    case: Case, kind: str, server: PostgreSQL | None, workers: int, seconds: float, turns: int = _ROUNDS
) -> dict[str, Any]:
    """The collector and the bare route by turns; medians of both, and of their ratio."""

    def fresh(folder: Path) -> str:
        return f"sqlite:///{folder / 'reports.db'}" if server is None or kind == "sqlite" else server.database()

    connections = CONNECTIONS[case.size]
    with (
        tempfile.TemporaryDirectory() as one,
        tempfile.TemporaryDirectory() as other,
        collector(Path(one), fresh(Path(one)), workers, case) as (ours, document),
        served(Path(other), "--database", fresh(Path(other)), "--workers", str(workers), program=BARE) as theirs,
    ):
        made = uploads(document, case.size)
        next(made)  # makes the payloads
        for door in (ours, theirs):
            closed_loop(door.port, made, case.size, connections, seconds)
        time.sleep(_TICKS)  # the first fold compiles
        pairs = [
            (
                loaded(ours, made, case.size, connections, seconds, _TICKS),
                loaded(theirs, made, case.size, connections, seconds, 0.0),
            )
            for _ in range(turns)
        ]
    ratio = median(mine.per_cpu_second / bare.per_cpu_second for mine, bare in pairs)
    p50, p99 = (median(mine.outcome.wait(percent) for mine, _ in pairs) for percent in (50, 99))
    return {
        "name": f"{kind}, {workers} worker{'s' * (workers > 1)}, {case.name}",
        "ratio": round(ratio, 3),
        "against": "a bare ASGI route with the same decoder and one insert per group, per CPU-second of the server",
        "goal": case.goal,
        "reports_per_cpu_second": round(median(mine.per_cpu_second for mine, _ in pairs)),
        "bare_per_cpu_second": round(median(bare.per_cpu_second for _, bare in pairs)),
        "p50_ms": round(1000 * p50, 1),
        "p99_ms": round(1000 * p99, 1),
        "p99_over_p50": round(p99 / p50, 2),
        "bare_p99_over_p50": round(median(bare.outcome.wait(99) / bare.outcome.wait(50) for _, bare in pairs), 2),
        "late_goal": LATE if case.size == 1 else None,
    }


@contextmanager
def collector(folder: Path, url: str, workers: int, case: Case) -> Iterator[tuple[Served, RoundDocument]]:
    """A collector whose campaign takes reports."""
    with cluster(folder, url, 1, **COMPILED, KEYVEIL_WORKERS=str(workers)) as one:
        yield one.running[0], one.open(case.campaign())


@dataclass(frozen=True)
class Loaded:
    """What a server did under a load, and the seconds of processor that it took."""

    outcome: Outcome
    cpu_seconds: float

    @property
    def per_cpu_second(self) -> float:
        return self.outcome.reports / self.cpu_seconds


def loaded(
    door: Served, made: Iterator[bytes], size: int, connections: int, seconds: float, afterwards: float
) -> Loaded:
    """A load in a closed loop; work that the server does ``afterwards`` counts too."""
    before = cpu_seconds(door.process.pid)
    outcome = closed_loop(door.port, made, size, connections, seconds)
    time.sleep(afterwards)
    if set(outcome.statuses) != {200}:
        raise RuntimeError(f"Not all uploads were taken: {dict(outcome.statuses)}.")
    return Loaded(outcome, cpu_seconds(door.process.pid) - before)


def cpu_seconds(pid: int) -> float:
    """User and system seconds of a process and of all processes below it (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    below = [
        int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    ]
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") + sum(cpu_seconds(child) for child in below)


def uploads(document: RoundDocument, size: int) -> Iterator[bytes]:
    """Requests with ever new ids; the payloads are real ones."""
    mechanism = document.mechanism
    shares = np.full(mechanism.schema.d, min(0.5, 5 / mechanism.schema.d))
    people = independent(_KINDS, shares, np.zeros(mechanism.schema.d), 1)
    blocks = mechanism.reports(people.records(mechanism.schema), Coins())
    payloads = [payload for block in blocks for payload in encoded(document, mechanism, block.payloads)]
    for start in count(0, size):
        ids = os.urandom(16 * size)
        some = tuple(payloads[(start + at) % len(payloads)] for at in range(size))
        batch = Batch(document.number, document.hash, tuple(ids[16 * at : 16 * at + 16] for at in range(size)), some)
        yield request("snacks", batch.to_packed())


def table(found: Iterator[dict[str, Any]], say: Callable[[str], None] = print) -> None:
    """The rows as they come, in columns for people."""
    say(f"{'name':<58} {'ratio':>6} {'goal':>5} {'ours/CPU-s':>10} {'bare/CPU-s':>10} {'p50 ms':>7} {'p99/p50':>7}")
    for one in found:
        goal = "" if one["goal"] is None else f"{one['goal']:g}"
        say(
            f"{one['name']:<58} {one['ratio']:>6.2f} {goal:>5} {one['reports_per_cpu_second']:>10,} "
            f"{one['bare_per_cpu_second']:>10,} {one['p50_ms']:>7} {one['p99_over_p50']:>7}"
        )
