"""Collectors and databases that are killed under load: what was acknowledged is counted once; no round is stuck."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from keyveil.campaign.rounds import RoundDocument
from keyveil.campaign.wire import Batch
from keyveil.core.chain import verify
from tests.collector.crowds import Cluster, Killer, Patience, cluster, direct, reports, send_all, survey
from tests.collector.processes import COMPILED
from tests.postgres import PostgreSQL

PLACES = ["sqlite-1", "postgresql-2"]
ALL_PLACES = ["sqlite-1", "sqlite-3", "postgresql-1", "postgresql-3"]  # at full size


@dataclass(frozen=True)
class Place:
    """A database, how many processes use it, and the server that may be restarted."""

    url: str
    processes: int
    server: PostgreSQL | None = None


@contextmanager
def at(name: str, folder: Path) -> Iterator[Place]:
    kind, _, processes = name.partition("-")
    if kind == "sqlite":
        yield Place(f"sqlite:///{folder / 'keyveil.db'}", int(processes))
        return
    server = PostgreSQL()
    try:
        yield Place(server.database(), int(processes), server)
    finally:
        server.remove()


def killed_under_load(one: Cluster, killer: Killer) -> int:
    """Kill collectors while batches arrive, then compare tallies; how many reports there were."""
    document = one.open(survey())
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
    assert verify(one.journal())[0] >= 5
    return tally.reports


def rounds_under_load(one: Cluster, killer: Killer, times: int, rounds: int = 3, people: int = 1000) -> int:
    """The same through several rounds, each of which closes when enough have reported."""
    protocol = {"name": "privkvm", "epsilon": "4", "rounds": rounds}
    document = one.open(survey(protocol=protocol, rounds=[{"enough": people}]))
    killer.start()
    asked: list[tuple[RoundDocument, list[Batch]]] = []
    for number in range(1, rounds + 1):
        batches = reports(document, people, 20, seed=number)
        asked.append((document, batches))
        send_all(one, "snacks", batches[:-1])
        while not killer.done and killer.kills < times * number // rounds:
            send_all(one, "snacks", batches[:-1:5])
        send_all(one, "snacks", batches[-1:], late=True)
        document = following(one, number) if number < rounds else document
    killer.stop()

    one.tally("snacks", patience=300)
    for document, batches in asked:
        folded = one.ask("GET", f"/v1/campaigns/snacks/tally?round={document.number}").body
        assert folded == direct(document, document.mechanism, batches).to_bytes()
    return rounds * people


def following(one: Cluster, number: int) -> RoundDocument:
    """The round after this one, once it has been made."""
    waiting = Patience(one.restarts, 300, "The round is stuck.")
    while (document := one.round("snacks")).number == number:
        waiting.pause()
    return document


@pytest.mark.parametrize("place", PLACES[:1])  # and the other one below
def test_killed_collectors_lose_and_double_nothing(place: str, tmp_path: Path) -> None:
    with at(place, tmp_path) as here, cluster(tmp_path, here.url, here.processes) as one:
        assert killed_under_load(one, Killer(one, 2, here.server)) >= 2000


@pytest.mark.soak
@pytest.mark.parametrize("place", ALL_PLACES)
def test_twenty_kills_lose_and_double_nothing(
    place: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    with at(place, tmp_path) as here, cluster(tmp_path, here.url, here.processes) as one:
        killer = Killer(one, 20, here.server)
        record_property("reports", killed_under_load(one, killer))
        record_property("kills", killer.kills)
        record_property("restarts of the database", killer.restarts)


@pytest.mark.soak
@pytest.mark.parametrize("place", ALL_PLACES)
def test_twenty_kills_in_several_rounds_lose_double_and_stop_nothing(
    place: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    with at(place, tmp_path) as here, cluster(tmp_path, here.url, here.processes) as one:
        killer = Killer(one, 20, here.server)
        record_property("reports", rounds_under_load(one, killer, 20))
        record_property("kills", killer.kills)
        record_property("restarts of the database", killer.restarts)


def restored_after_kills(place: str, folder: Path, times: int, people: int) -> int:
    """Back up under load, kill everything, restore over what is left, and send again; how many reports there were.

    Devices that were cut off or whose reports came after the backup send again, as they do until they are answered in
    the same round. In the end every report is counted once.
    """
    with at(place, folder) as here, cluster(folder, here.url, here.processes) as one:
        document = one.open(survey())
        batches: list[Batch] = []
        for turn in range(times):
            fresh = reports(document, people, 20, seed=turn)
            send_all(one, "snacks", fresh[::4])
            saved = folder / f"{turn}.backup"
            with ThreadPoolExecutor(1) as loading:
                sent = loading.submit(send_all, one, "snacks", fresh)
                with one.restarts.one():
                    command("backup", str(saved), "--database", here.url)
                    for number in range(here.processes):
                        one.end(number)
                    if here.server is not None:
                        here.server.stop("immediate")
                        here.server.start()
                    command("restore", str(saved), "--database", here.url, "--replace")
                    for number in range(here.processes):
                        one.start(number)
                sent.result()
            batches += fresh
            told = send_all(one, "snacks", batches)
            assert all(answer["accepted"] + answer["duplicates"] == 20 for answer in told)
        tally = one.tally("snacks")
        assert tally.to_bytes() == direct(document, document.mechanism, batches).to_bytes()
        verify(one.journal())
    return tally.reports


def command(*words: str) -> None:
    """A command of Keyveil in a process of its own, as an operator gives it."""
    done = subprocess.run([sys.executable, "-m", "keyveil", *words], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("place", PLACES[1:])
def test_a_backup_restored_over_what_a_kill_left_counts_everything_once(place: str, tmp_path: Path) -> None:
    assert restored_after_kills(place, tmp_path, 1, 2000) == 2000


@pytest.mark.soak
@pytest.mark.parametrize("place", ALL_PLACES)
def test_five_backups_restored_over_what_kills_left_count_everything_once(
    place: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    record_property("reports", restored_after_kills(place, tmp_path, 5, 4000))
    record_property("backups, kills and restores", 5)


@pytest.mark.parametrize("place", PLACES)
def test_reports_end_to_end(place: str, tmp_path: Path) -> None:
    end_to_end(place, tmp_path, 5000)


@pytest.mark.soak
@pytest.mark.parametrize("place", PLACES)
def test_a_million_reports_end_to_end(
    place: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    record_property("reports", end_to_end(place, tmp_path, 1_000_000, **COMPILED))


def end_to_end(place: str, tmp_path: Path, people: int, **environment: str) -> int:
    """Send batches over HTTP, fold, and compare with the tally of the same reports, byte for byte."""
    with at(place, tmp_path) as here, cluster(tmp_path, here.url, here.processes, **environment) as one:
        document = one.open(survey())
        batches = reports(document, people, 500)
        told = send_all(one, "snacks", batches)
        assert sum(answer["accepted"] + answer["duplicates"] for answer in told) == people
        tally = one.tally("snacks", patience=600)
    assert tally.to_bytes() == direct(document, document.mechanism, batches).to_bytes()
    return tally.reports
