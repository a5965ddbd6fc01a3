"""Killed at any moment: the ledger never shows less than what left the device, and a retry sends the same bytes.

A child process reports once and is killed (SIGKILL) at a chosen moment: before each statement that its database runs,
while coins are drawn, before an upload, or after the upload arrived but before it is marked. Then the device is opened
again, as after a crash, and reports again.
"""

from __future__ import annotations

import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from keyveil.campaign.documents import Campaign
from keyveil.campaign.rounds import RoundDocument
from keyveil.core.coins import Coins
from keyveil.core.errors import DeviceError
from keyveil.device import Device
from keyveil.device.identity import Identity
from keyveil.device.ledger import Ledger
from keyveil.device.outbox import Outbox
from keyveil.device.schedule import Pauses
from tests.device.collector import Collector, Sleeper, Watch, document

RECORD = {"fries": 4, "pepsi": 5}

# Forks a child for every moment, so that the interpreter starts once. Prints what happened to each.
CRASHES = """
import json, os, signal, sys
from pathlib import Path
from keyveil.core.coins import Coins
from keyveil.device import Device
from tests.device.collector import Collector, Sleeper, Watch, document

where, hasty = Path(sys.argv[1]), sys.argv[2] == "hasty"


def die():
    os.kill(os.getpid(), signal.SIGKILL)


class Dying(Coins):
    def __init__(self, left):
        super().__init__()
        self.left = left

    def bytes(self, count):
        self.left -= 1
        return die() if self.left < 0 else super().bytes(count)


class Wire(Collector):
    moment = None

    def request(self, method, path, body=b"", headers={}):
        if method == "POST" and self.moment == "before sending":
            die()
        answer = super().request(method, path, body, headers)
        if method == "POST":
            with open(self.log, "ab") as log:
                log.write(body.hex().encode() + b"\\n")
                log.flush()
                os.fsync(log.fileno())
            if self.moment == "before marking":
                die()
        return answer


def live(folder, moment, at):
    wire = Wire()
    wire.log, wire.moment = folder / "received", moment
    wire.open(document(protocol={"name": "ssr", "epsilon": "1", "max_pairs": 3}))
    device = Device(folder / "device.db", wire, clock=Watch(), sleep=Sleeper())
    device.consent("snack-survey")
    if moment == "statement":
        seen = [0]

        def count(statement):
            seen[0] += 1
            if seen[0] == at:
                (folder / "statement").write_text(statement)
                die()

        device.vault.connection.set_trace_callback(count)
    if moment == "coins":
        device._coins = Dying(at)
    device.report("snack-survey", {"fries": 4, "pepsi": 5})


def crash(moment, at=0):
    folder = where / f"{moment}-{at}".replace(" ", "-")
    folder.mkdir()
    child = os.fork()
    if child == 0:
        live(folder, moment, at)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    print(json.dumps({"folder": str(folder), "moment": moment, "killed": os.WIFSIGNALED(status)}), flush=True)
    return os.WIFSIGNALED(status)


if hasty:  # a device that sends before its transaction is on the disk
    whole = Device._answer

    def answer(self, *arguments):
        parcel, spent = whole(self, *arguments)
        self._uploader.deliver(parcel)
        return parcel, spent

    Device._answer = answer

for at in range(1, 200):
    if not crash("statement", at):
        break
for at in range(3):
    crash("coins", at)
crash("before sending")
crash("before marking")
"""


@pytest.fixture(scope="module")
def crashes(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return crash_everywhere(tmp_path_factory.mktemp("crashes"), "patient")


def crash_everywhere(where: Path, how: str) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-c", CRASHES, str(where), how],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_every_moment_was_tried(crashes: list[dict[str, Any]]) -> None:
    statements = [one for one in crashes if one["moment"] == "statement"]
    killed = [Path(one["folder"], "statement").read_text() for one in statements if one["killed"]]
    assert len(killed) > 15 and not statements[-1]["killed"]  # the last one lived: no statement was left out
    assert sum(one == "COMMIT" for one in killed) == 2 and any(one.startswith("INSERT INTO entry") for one in killed)
    assert sum(one["killed"] for one in crashes if one["moment"] != "statement") >= 3


def test_the_ledger_covers_what_left_and_a_retry_is_byte_equal(crashes: list[dict[str, Any]]) -> None:
    check_books(crashes)


def test_a_device_that_sends_before_it_has_written_is_caught(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        check_books(crash_everywhere(tmp_path, "hasty"))


def check_books(crashes: list[dict[str, Any]]) -> None:
    campaign = Campaign.from_document(document(protocol={"name": "ssr", "epsilon": "1", "max_pairs": 3}))
    first = campaign.protocol.next_round([])
    assert first is not None
    price = RoundDocument.of(campaign, first).cost
    left_before_the_crash = 0
    for one in crashes:
        folder = Path(one["folder"])
        log = folder / "received"
        before = log.read_text().split() if log.exists() else []
        left_before_the_crash += bool(before) and one["killed"]
        collector = Collector()
        collector.open(document(protocol={"name": "ssr", "epsilon": "1", "max_pairs": 3}))
        with Device(folder / "device.db", collector, clock=Watch(), sleep=Sleeper()) as device:
            spent = sum((entry.epsilon for entry in device.ledger()), Fraction(0))
            assert spent >= price * len(set(before)), folder
            device.flush()
            device.consent("snack-survey")
            device.report("snack-survey", {"burger": 1})
            after = [body.hex() for body in collector.bodies]
            assert len({*before, *after}) == 1, folder
            assert sum(entry.epsilon for entry in device.ledger()) == price, folder
    assert left_before_the_crash >= 2  # there were crashes after the report had left


@pytest.mark.parametrize(
    ("place", "method"),
    [
        (Ledger, "lines"),
        (Ledger, "debit"),
        (Outbox, "find"),
        (Outbox, "put"),
        (Identity, "of_round"),
        (Pauses, "refuse"),
        (Device, "_pay"),
        (Device, "_draw"),
        (Device, "_hold"),
    ],
)
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("kind", [RuntimeError, KeyboardInterrupt, MemoryError])
def test_whatever_fails_inside_leaves_nothing_behind(
    place: Any, method: str, after: bool, kind: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    collector = Collector()
    collector.open(document())
    device = Device(":memory:", collector, clock=Watch(), sleep=Sleeper())
    device.consent("snack-survey")
    before = "\n".join(device.vault.connection.iterdump())
    whole = getattr(place, method)

    def failing(*arguments: Any, **named: Any) -> Any:
        if after:
            whole(*arguments, **named)
        raise kind

    with monkeypatch.context() as patch:
        patch.setattr(place, method, failing)
        with pytest.raises(kind):
            device.report("snack-survey", RECORD)

    assert not collector.bodies
    assert "\n".join(device.vault.connection.iterdump()) == before
    assert device.report("snack-survey", RECORD).state == "sent"
    assert len(device.ledger()) == 1


def test_a_full_disk_makes_no_report(tmp_path: Path) -> None:
    collector = Collector()
    collector.open(document(schema={"keys": 20_000}, protocol={"name": "kvoh", "epsilon": "1"}))
    with Device(tmp_path / "device.db", collector, clock=Watch(), sleep=Sleeper()) as device:
        device.consent("snack-survey")
        pages = device.vault.connection.execute("PRAGMA page_count").fetchone()[0]
        device.vault.connection.execute(f"PRAGMA max_page_count = {pages}")
        collector.open(document(schema={"keys": 60_000}, protocol={"name": "pckv-ue", "epsilon": "1", "max_pairs": 1}))
        device.consent("snack-survey")
        with pytest.raises(DeviceError, match="full"):
            device.report("snack-survey", {})
        assert not collector.bodies and not device.ledger()


def test_two_processes_with_one_file_make_one_report(tmp_path: Path) -> None:
    collector = Collector()
    collector.open(document())
    path = tmp_path / "device.db"
    with Device(path, collector, clock=Watch()) as one, Device(path, collector, clock=Watch()) as other:
        one.consent("snack-survey")
        one.report("snack-survey", RECORD)
        other.report("snack-survey", {"burger": 2})
        assert len(set(collector.bodies)) == 1 and len(other.ledger()) == 1


def test_the_file_is_opened_for_durability(tmp_path: Path) -> None:
    with Device(tmp_path / "device.db", Collector(), coins=Coins()) as device:
        ask = device.vault.connection.execute
        assert ask("PRAGMA synchronous").fetchone()[0] == 2  # FULL
        assert ask("PRAGMA secure_delete").fetchone()[0] == 1
