"""A device's file of an earlier version: nothing that it holds is lost on the way to this one, whatever happens."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from keyveil.device import Device, migrations
from tests.device.collector import Collector, Watch
from tests.device.owner import RECORD, code_of, device, week

VERSION_1 = Path(__file__).with_name("device_v1.sql")  # written by the code that knew no other version
HERE = "https://here.example"
KEPT = ("entry", "outbox", "seat", "consent", "caps", "dictionary")

Rows = dict[str, list[Any]]


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "device.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(VERSION_1.read_text())
    connection.close()
    return path


def contents(path: Path) -> Rows:
    """All rows of all tables, as SQLite has them, and the version."""
    connection = sqlite3.connect(path)
    names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    rows = {name: connection.execute(f'SELECT rowid, * FROM "{name}"').fetchall() for name in names}
    rows["version"] = connection.execute("PRAGMA user_version").fetchall()
    connection.close()
    return rows


def opened(path: Path, served: Collector | None = None, days: int = 7) -> Device:
    watch = Watch()
    watch.days_later(days)
    return device(served or Collector(), path, clock=watch, collector=HERE)


def test_everything_in_a_file_of_version_1_is_there_afterwards(old: Path) -> None:
    before = contents(old)
    with opened(old) as one:
        assert len(one.ledger()) == 6 and one.vault.since.isoformat() == "2026-11-20"
    after = contents(old)

    assert after["version"] == [(migrations.VERSION,)] != before["version"] == [(1,)]
    assert {name: after[name] for name in KEPT} == {name: before[name] for name in KEPT}
    assert after["met_round"] == before["asked"]
    assert [row[:3] for row in after["device"]] == before["device"]
    assert before["memo"] and "memo" not in after and after["standing"] == []


def test_the_device_goes_on_where_it_was(old: Path) -> None:
    waiting = [row for row in contents(old)["outbox"] if "waiting" in row]
    served = Collector()
    with opened(old, served) as one:
        (sent,) = one.flush()
        assert sent.state == "sent" and sent.epsilon == 0
        assert [(public, payload) in served.reports for *_, public, payload, _, _, _, _ in waiting] == [True]

        served.open(week(1))
        assert one.report("snack-survey", RECORD).epsilon == 0  # this round was answered before
        served.open(week(0))
        assert code_of(lambda: one.report("snack-survey", RECORD)) == "campaign/changed"  # and goes on to be known
        assert one.caps.document()["life"] == "40"
        assert one.consents()[f"{HERE}/withdrawn-survey"] == "withdrawn"
    served.open(week(2))
    with opened(old, served, days=14) as one:
        assert one.report("snack-survey", RECORD).epsilon > 0  # no earlier report became a standing one


def test_a_new_file_has_the_tables_of_a_migrated_one(old: Path, tmp_path: Path) -> None:
    def tables(path: Path) -> set[Any]:
        with sqlite3.connect(path) as connection:
            return set(connection.execute("SELECT name, sql FROM sqlite_master"))

    opened(old).close()
    opened(tmp_path / "new.db").close()

    assert tables(old) == tables(tmp_path / "new.db")


def test_a_step_that_fails_leaves_the_file_as_it_was(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def spoilt(connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM entry")
        connection.execute("SELECT nothing FROM nowhere")

    before = contents(old)
    with monkeypatch.context() as patched:
        patched.setattr(migrations, "STEPS", (*migrations.STEPS, spoilt))
        assert code_of(lambda: opened(old)) == "device/file"
    assert contents(old) == before

    with opened(old) as one:
        assert len(one.ledger()) == 6


KILLED = """
import os, signal, sys
from keyveil.core.clock import system_clock
from keyveil.core.coins import Coins
from keyveil.device import migrations
from keyveil.device.vault import Vault

def killed(connection):
    connection.execute("PRAGMA cache_size = 1")  # so that changed pages go to the file before the end
    connection.execute("DELETE FROM entry")
    connection.execute("CREATE TABLE large AS WITH RECURSIVE n(i) AS "
        "(SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200) SELECT i, randomblob(4096) AS rest FROM n")
    os.kill(os.getpid(), signal.SIGKILL)

migrations.STEPS = (*migrations.STEPS, killed)
Vault(sys.argv[1], system_clock, Coins())
"""


def test_a_kill_in_the_middle_leaves_a_file_that_can_be_read(old: Path) -> None:
    before = contents(old)
    done = subprocess.run([sys.executable, "-c", KILLED, str(old)], check=False)

    assert done.returncode == -signal.SIGKILL
    assert old.with_name("device.db-journal").exists()  # it did happen in the middle
    with opened(old) as one:
        assert len(one.ledger()) == 6
    after = contents(old)
    assert {name: after[name] for name in KEPT} == {name: before[name] for name in KEPT}


def test_a_file_of_a_later_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "device.db"
    opened(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {migrations.VERSION + 1}")
    connection.close()
    before = path.read_bytes()

    assert code_of(lambda: opened(path)) == "device/newer"
    assert path.read_bytes() == before


@pytest.mark.parametrize("version", [0, 1, -1])
def test_somebody_elses_database_is_refused_and_left_alone(version: int, tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE note (text TEXT)")
        connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    before = path.read_bytes()

    assert code_of(lambda: opened(path)) == "device/file"
    assert path.read_bytes() == before
