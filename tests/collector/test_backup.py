"""Backups: made under load, restored over what a crash left, and refused when damaged."""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from keyveil.collector.backup import backup, restore, verify
from keyveil.collector.service import Service
from tests.collector.campaigns import batch_of, count, merged, refusal, started

OpenService = Callable[..., Service]


@pytest.fixture
def saved(service: Service, url: str, tmp_path: Path) -> Path:
    """A backup of a small campaign."""
    document = started(service)
    service.submit("snacks", batch_of(document, 30)).result(30)
    service.settle()
    backup(url, tmp_path / "one.backup")
    return tmp_path / "one.backup"


def test_a_backup_under_load_and_what_is_sent_again_give_the_same_tally(
    open_service: OpenService, url: str, tmp_path: Path
) -> None:
    """Backup while reports arrive; the collector dies; restore over its files; devices that were cut off send again."""
    one = open_service()
    document = started(one)
    batches = [batch_of(document, 20) for _ in range(12)]
    over = threading.Event()

    def load() -> None:
        for batch in batches[4:]:
            one.submit("snacks", batch).result(30)
            one.tick()
        over.set()

    for batch in batches[:4]:
        one.submit("snacks", batch).result(30)
    loading = threading.Thread(target=load)
    loading.start()
    rows = backup(url, tmp_path / "loaded.backup")
    loading.join(60)
    assert over.is_set() and rows["campaign"] == 1 and rows["report"] >= 80
    crash(one, tmp_path)

    restore(tmp_path / "loaded.backup", url, replace=True)
    again = open_service()
    for batch in batches:
        again.submit("snacks", batch).result(30)
    again.act("snacks", "close")
    again.settle()
    assert again.tally("snacks")[1].to_bytes() == count(document, merged(*batches)).to_bytes()


def crash(service: Service, folder: Path) -> None:
    """Leave what a kill leaves: on SQLite the file of some moment with a write-ahead log that belongs to it."""
    if service.database.postgresql:
        service.close()
        return
    copies = {}
    for path in folder.glob("keyveil.db*"):
        copies[path.name] = shutil.copy(path, folder / f"kept-{path.name}")
    service.close()
    for name, copy in copies.items():
        shutil.copy(copy, folder / name)
    assert (folder / "keyveil.db-wal").stat().st_size > 0


def test_putting_a_file_back_by_hand_over_a_crashed_one_damages_it(
    open_service: OpenService, url: str, tmp_path: Path
) -> None:
    """Why there is a command: an old log beside another file is replayed into it. PostgreSQL keeps its log itself."""
    if not url.startswith("sqlite"):
        return
    one = open_service()
    document = started(one)
    for _ in range(3):
        one.submit("snacks", batch_of(document, 200)).result(30)
    with sqlite3.connect(tmp_path / "by-hand.db") as copy, sqlite3.connect(tmp_path / "keyveil.db") as raw:
        raw.backup(copy)
    for _ in range(20):
        one.submit("snacks", batch_of(document, 200)).result(30)
    crash(one, tmp_path)
    shutil.copy(tmp_path / "by-hand.db", tmp_path / "keyveil.db")
    with sqlite3.connect(tmp_path / "keyveil.db") as mixed:
        try:
            whole = mixed.execute("PRAGMA quick_check").fetchone() == ("ok",)
        except sqlite3.DatabaseError:
            whole = False
    stored = (
        0 if not whole else sqlite3.connect(tmp_path / "keyveil.db").execute("SELECT count(*) FROM report").fetchone()
    )
    assert stored != (600,)  # by no means what was put back


def test_a_restored_database_goes_on(saved: Path, service: Service, url: str, open_service: OpenService) -> None:
    """Numbered rows continue after those of the backup, and both databases take the same file."""
    started(service, name="other")
    service.close()
    restore(saved, url, replace=True)
    again = open_service()
    assert [one["name"] for one in again.campaigns()] == ["snacks"]
    assert again.submit("third", batch_of(started(again, name="third"), 5)).result(30).accepted == 5
    assert len(again.campaigns()) == 2


def test_a_backup_of_one_database_is_restored_into_the_other(saved: Path, service: Service, tmp_path: Path) -> None:
    other = f"sqlite:///{tmp_path / 'elsewhere.db'}"
    expected = service.tally("snacks")[1]
    restore(saved, other)
    moved = Service(other)
    try:
        assert moved.tally("snacks")[1] == expected
    finally:
        moved.close()
    assert (tmp_path / "elsewhere.db").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("damage", ["cut", "flipped", "longer", "no backup", "empty"])
def test_a_damaged_backup_is_refused_and_nothing_is_touched(
    damage: str, saved: Path, service: Service, url: str
) -> None:
    whole = saved.read_bytes()
    middle = len(whole) // 2
    saved.write_bytes(
        {
            "cut": whole[:-40],
            "flipped": whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :],
            "longer": whole + b"\0",
            "no backup": b"SQLite format 3\0" + whole,
            "empty": b"",
        }[damage]
    )
    expected = service.tally("snacks")[1]
    service.close()
    assert refusal(lambda: verify(saved)) == "backup/damaged"
    assert refusal(lambda: restore(saved, url, replace=True)) == "backup/damaged"
    again = Service(url)
    try:
        assert again.tally("snacks")[1] == expected
    finally:
        again.close()


def test_a_database_in_use_or_with_campaigns_is_not_replaced_unasked(saved: Path, service: Service, url: str) -> None:
    assert refusal(lambda: restore(saved, url, replace=True)) == "restore/in-use"
    service.close()
    assert refusal(lambda: restore(saved, url)) == "restore/not-empty"
    restore(saved, url, replace=True)


def test_a_backup_is_for_its_owner_and_replaces_no_file(saved: Path, url: str, tmp_path: Path) -> None:
    assert os.stat(saved).st_mode & 0o077 == 0
    assert refusal(lambda: backup(url, saved)) == "backup/exists"
    assert refusal(lambda: backup(url, tmp_path / "nowhere" / "x")) == "backup/write"
    assert refusal(lambda: backup(f"sqlite:///{tmp_path / 'none.db'}", tmp_path / "x")) == "backup/empty"
    assert refusal(lambda: verify(tmp_path / "x")) == "backup/read"
    assert not list(tmp_path.glob("*.partial"))
