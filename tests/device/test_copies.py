"""Restored and copied files: the id stays, the device notices and is silent until the next, for every record alike."""

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from keyveil.core.coins import FreshCoins
from keyveil.core.errors import KeyveilError
from keyveil.device import Device
from keyveil.device.vault import Vault
from keyveil.lab.coins import SeededCoins
from tests.device.collector import Collector, Watch, document
from tests.device.owner import GENEROUS, RECORD, agreed, code_of, device, week

MONTHLY = {"renew_days": 28, "renew_from": "2026-11-20"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home" / "device.db"


def backed_up(path: Path) -> Path:
    """A copy as a backup keeps it: without the folder that carries CACHEDIR.TAG."""
    return Path(shutil.copy(path, path.parent.parent / "backup.db"))


def test_a_restored_file_is_silent_and_says_why_until_the_next_campaign(path: Path) -> None:
    collector, watch = Collector(), Watch()
    collector.open(week(0))
    agreed(collector, path, clock=watch, caps=GENEROUS).close()
    backup = backed_up(path)
    for _ in range(5):
        shutil.copy(backup, path)
        with device(collector, path, clock=watch) as one:
            try:
                one.report("snack-survey", RECORD)
            except KeyveilError as refused:
                assert refused.code == "report/restored" and "2026-11-20" in refused.sentence
    assert len(set(collector.reports)) <= 1  # five restores gave five independent reports of one round before

    watch.days_later(7)
    collector.open(week(1))
    with device(collector, path, clock=watch) as one:
        assert one.report("snack-survey", RECORD).state == "sent"
        assert "copied or restored (noticed on 2026-11-20)" in one.explain("snack-survey").text


@pytest.mark.parametrize("record", [{}, RECORD, None], ids=str)
@pytest.mark.parametrize("how", ["older", "copied", "with its mark", "mark lost"])
def test_every_copy_is_noticed_whatever_the_record(path: Path, how: str, record: Any) -> None:
    collector, watch = Collector(), Watch()
    collector.open(week(0, **MONTHLY))
    agreed(collector, path, clock=watch, caps=GENEROUS).close()
    backup = backed_up(path)
    with device(collector, path, clock=watch) as one:
        first = one.report("snack-survey", RECORD)
    if how == "older":
        shutil.copy(backup, path)
    elif how == "copied":
        path = Path(shutil.copy(path, path.with_name("other.db")))
    elif how == "with its mark":
        path = Path(shutil.copytree(path.parent, path.parent.with_name("away"))) / path.name
    else:
        shutil.rmtree(path.with_name("device.db.place"))

    for number in (1, 2, 3):  # campaigns of the period that was running
        watch.days_later(7)
        collector.open(week(number, **MONTHLY))
        with device(collector, path, clock=watch) as one:
            assert code_of(lambda one=one: one.report("snack-survey", record)) == "report/restored"
    assert len(collector.reports) == 1
    watch.days_later(7)
    collector.open(week(4, **MONTHLY))
    with device(collector, path, clock=watch) as one:
        again = one.report("snack-survey", record)
    assert again.state == "sent" and again.used and again.report != first.report


def test_a_file_that_was_moved_or_opened_again_goes_on(path: Path) -> None:
    collector, watch = Collector(), Watch()
    collector.open(week(0, **MONTHLY))
    with agreed(collector, path, clock=watch) as one:
        first = one.report("snack-survey", RECORD)
    path = path.parent.rename(path.parent.with_name("moved")) / path.name
    watch.days_later(7)
    collector.open(week(1, **MONTHLY))
    with device(collector, path, clock=watch) as one:
        again = one.report("snack-survey", {})
    assert not again.used and again.report == first.report


def test_an_unnoticed_restore_has_the_same_id_so_that_an_honest_collector_counts_a_person_once(path: Path) -> None:
    """A copy of the whole disk takes the mark along. The second draw differs, and has the id of the first."""
    collector = Collector()
    collector.open(document(schema={"keys": 400}, protocol={"name": "pckv-ue", "epsilon": "1", "max_pairs": 2}))
    agreed(collector, path).close()
    disk = path.read_bytes(), (path.with_name("device.db.place") / "mark").read_bytes()
    for _ in range(5):
        path.write_bytes(disk[0])
        (path.with_name("device.db.place") / "mark").write_bytes(disk[1])
        with device(collector, path) as one:
            assert one.report("snack-survey", RECORD).state == "sent"

    assert len({public for public, _ in collector.reports}) == 1
    assert len({payload for _, payload in collector.reports}) == 5  # equal ones: once in e^100


def test_nothing_leaves_before_the_mark_is_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collector = Collector()
    collector.open(document())
    with agreed(collector, path) as one:
        folder = path.with_name("device.db.place")
        shutil.rmtree(folder)
        folder.write_text("in the way")
        monkeypatch.setattr(Vault, "copied", False)
        assert code_of(lambda: one.report("snack-survey", RECORD)) == "device/file"
        assert not collector.bodies and len(one.ledger()) == 1  # paid for, and it waits
        folder.unlink()
        assert [outcome.state for outcome in one.flush()] == ["sent"]


def test_a_device_keeps_no_randomness_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that is resumed from a snapshot in which a report was about to be drawn draws another one."""
    asked: list[int] = []
    whole = os.urandom

    def urandom(count: int) -> bytes:
        asked.append(count)
        return whole(count)

    monkeypatch.setattr(os, "urandom", urandom)
    coins = FreshCoins()
    drawn = [coins.bytes(3), coins.bytes(3)]
    assert asked == [3, 3] and len(set(drawn)) == 2
    assert coins.words(2).tolist() != coins.words(2).tolist() and asked[2:] == [32, 32]
    assert isinstance(Device(":memory:", Collector())._coins, FreshCoins)


def test_three_hundred_damaged_files_end_in_one_sentence(path: Path) -> None:
    collector = Collector()
    collector.open(week(0, **MONTHLY))
    with agreed(collector, path) as one:
        one.report("snack-survey", RECORD)
    whole, coins = path.read_bytes(), SeededCoins(1)
    codes = set()
    for number in range(300):
        spoilt = bytearray(whole)
        for _ in range(1 + number % 40):
            spoilt[coins.below(len(spoilt))] = coins.below(256)
        if number % 7 == 0:
            del spoilt[coins.below(len(spoilt)) :]
        path.write_bytes(spoilt)
        try:
            with device(collector, path) as one:
                one.explain("snack-survey")
                one.export()
                one.report("snack-survey", RECORD)
                one.flush()
                one.withdraw("snack-survey")
        except KeyveilError as refused:
            codes.add(refused.code)
        except (AssertionError, sqlite3.Error, TypeError, ValueError) as reason:
            raise AssertionError(f"{reason!r} after damage {number}") from reason
        Path(f"{path}-journal").unlink(missing_ok=True)
    assert "device/file" in codes
