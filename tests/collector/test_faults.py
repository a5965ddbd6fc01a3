"""Collectors that are killed under load: what was acknowledged is counted, once, and no round is stuck."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from keyveil.campaign.wire import Batch
from tests.collector.crowds import Cluster, Killer, cluster, direct, reports, send_all, survey
from tests.postgres import PostgreSQL


@pytest.fixture(params=["sqlite", "postgresql"])
def collectors(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, int]:
    """A database and how many processes use it."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'keyveil.db'}", 1
    server: PostgreSQL = request.getfixturevalue("postgres")
    return server.database(), 2


def killed_under_load(one: Cluster, times: int) -> int:
    """Kill collectors that often while batches arrive, then compare tallies; how many reports there were."""
    document = one.open(survey())
    killer = Killer(one, times)
    killer.start()
    sent: list[Batch] = []
    while not killer.done:
        batches = reports(document, 2000, 20, seed=len(sent))
        told = send_all(one, "snacks", batches)
        assert all(answer["accepted"] + answer["duplicates"] == 20 for answer in told)
        sent += batches
    killer.stop()
    again = send_all(one, "snacks", sent[::3])
    assert all(answer["duplicates"] == 20 for answer in again)  # what was acknowledged is there

    tally = one.tally("snacks")
    assert tally.to_bytes() == direct(document, document.mechanism, sent).to_bytes()
    return tally.reports


def test_killed_collectors_lose_and_double_nothing(collectors: tuple[str, int], tmp_path: Path) -> None:
    with cluster(tmp_path, *collectors) as one:
        assert killed_under_load(one, 3) >= 2000


@pytest.mark.soak
def test_twenty_kills_lose_and_double_nothing(
    collectors: tuple[str, int], tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    with cluster(tmp_path, *collectors) as one:
        record_property("reports", killed_under_load(one, 20))


def test_reports_end_to_end(collectors: tuple[str, int], tmp_path: Path) -> None:
    end_to_end(collectors, tmp_path, 20_000)


@pytest.mark.soak
def test_a_million_reports_end_to_end(
    collectors: tuple[str, int], tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    record_property("reports", end_to_end(collectors, tmp_path, 1_000_000))


def end_to_end(collectors: tuple[str, int], tmp_path: Path, people: int) -> int:
    """Send batches over HTTP, fold, and compare with the tally of the same reports, byte for byte."""
    with cluster(tmp_path, *collectors) as one:
        document = one.open(survey())
        batches = reports(document, people, 500)
        told = send_all(one, "snacks", batches)
        assert sum(answer["accepted"] + answer["duplicates"] for answer in told) == people
        tally = one.tally("snacks", patience=600)
    assert tally.to_bytes() == direct(document, document.mechanism, batches).to_bytes()
    return tally.reports
