"""Collectors under more load than they can take, and for longer than a leak could hide."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import mean

import pytest

from benchmarks.load import Outcome, closed_loop, open_loop
from benchmarks.service import uploads
from tests.collector.crowds import Cluster, cluster, survey


def stored(one: Cluster) -> int:
    return int(json.loads(one.ask("GET", "/v1/campaigns/snacks/status").body)["reports"])


def overloaded(folder: Path, seconds: float) -> tuple[Outcome, Outcome, int]:
    """What a collector stores when asked as fast as it answers, and when asked twice as much as that."""
    url = f"sqlite:///{folder / 'keyveil.db'}"
    with cluster(folder, url, KEYVEIL_QUEUE_REPORTS="2000") as one:
        document, port = one.open(survey()), one.running[0].port
        busy = closed_loop(port, uploads(document, 100), 100, 16, seconds)  # fewer than the queue holds
        before = stored(one)
        assert before == busy.reports
        ready = uploads(document, 100)
        rate = 2 * busy.rate / 100
        prepared = iter([next(ready) for _ in range(int(rate * seconds) + 1)])
        too_much = open_loop(port, prepared, 100, rate, seconds, most=300)
        return busy, too_much, stored(one) - before


def test_twice_what_a_collector_can_take_is_refused_in_part_and_what_is_acknowledged_is_stored(tmp_path: Path) -> None:
    _, too_much, kept = overloaded(tmp_path, 2)

    assert kept == too_much.reports > 0
    assert set(too_much.statuses) <= {200, 429}


@pytest.mark.soak
def test_latency_stays_bounded_at_twice_the_capacity(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    busy, too_much, kept = overloaded(tmp_path, 30)
    record_property("reports/s", round(busy.rate))
    record_property("answers at twice that", dict(too_much.statuses))
    record_property("p99 s at twice that", round(too_much.wait(99), 2))

    assert kept == too_much.reports > 0
    assert set(too_much.statuses) == {200, 429}
    assert too_much.wait(99) < 10  # of thirty seconds; an unbounded queue would be at fifteen and growing


@pytest.mark.soak
def test_memory_stays_flat_for_ten_minutes(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    with cluster(tmp_path, f"sqlite:///{tmp_path / 'keyveil.db'}") as one:
        document, served = one.open(survey()), one.running[0]
        made = uploads(document, 10)
        sizes, begin = [], time.monotonic()
        while time.monotonic() - begin < 600:
            closed_loop(served.port, made, 10, 8, 5)
            sizes.append(resident(served.process.pid))
    third = len(sizes) // 3
    early, late = mean(sizes[third : 2 * third]), mean(sizes[2 * third :])
    record_property("MB after a third", round(early))
    record_property("MB in the last third", round(late))

    assert late < 1.1 * early + 10


def resident(pid: int) -> float:
    """Megabytes that a process holds."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("The process is gone.")
