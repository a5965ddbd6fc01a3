"""The whole system as people first meet it: real processes, real devices, real HTTP."""

from __future__ import annotations

import http.client
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from keyveil.cli.app import run
from keyveil.cli.demo import SNACKS
from keyveil.cli.device_processes import AT_ONCE

Output = pytest.CaptureFixture[str]
PEOPLE = 1000


@pytest.fixture(scope="module")
def stayed(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, list[str | int]]:
    """What a run of the demo says that stays until it is interrupted, where it wrote, and what its pages answered."""
    out = tmp_path_factory.mktemp("demo") / "out"
    command = [sys.executable, "-u", "-m", "keyveil", "demo", "--people", str(PEOPLE), "--out", str(out), "--stay"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        said = ""
        for line in process.stdout:
            said += line
            if "Sign in with the token" in line:
                break
        where = re.search(r"http://127.0.0.1:(\d+)/campaigns/snacks", said)
        token = re.search(r"the token (\S+);", said)
        assert where is not None and token is not None, said
        answered = _asked(int(where[1]), token[1])
        process.send_signal(signal.SIGINT)
        answered.append(process.wait(60))
        with pytest.raises(OSError):
            _asked(int(where[1]), token[1])
        return said, out, answered
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def _asked(port: int, token: str) -> list[str | int]:
    """What the API says to the token, and where a page sends somebody who has not signed in."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/v1/campaigns", headers={"Authorization": f"Bearer {token}"})
    known = connection.getresponse().status
    connection.close()
    connection.request("GET", "/campaigns/snacks")
    sent = connection.getresponse().headers["Location"]
    connection.close()
    return [known, sent]


@pytest.fixture(scope="module")
def shown(stayed: tuple[str, Path, list[str | int]]) -> tuple[str, Path]:
    return stayed[:2]


def test_it_stays_until_it_is_interrupted_and_then_leaves_nothing_running(
    stayed: tuple[str, Path, list[str | int]],
) -> None:
    assert stayed[2] == [200, "../sign-in?next=%2Fcampaigns%2Fsnacks", 0]


def test_it_shows_consent_report_ledger_and_truth(shown: tuple[str, Path]) -> None:
    text, _ = shown
    for part in ("epsilon 2 for the whole campaign", "payload", "Their ledger", "estimated frequency", "round 2 (ssr)"):
        assert part in text
    assert all(key in text for key in SNACKS)


def test_it_leaves_a_picture_a_page_and_a_database(shown: tuple[str, Path]) -> None:
    _, out = shown
    assert (out / "estimates.png").read_bytes().startswith(b"\x89PNG")
    assert "coffee" in (out / "report.html").read_text()
    assert (out / "collector.db").stat().st_size > 0


def test_nobody_is_lost_and_nobody_counts_twice(shown: tuple[str, Path], capsys: Output) -> None:
    assert run(["campaign", "status", "snacks", "--database", str(shown[1] / "collector.db"), "--json"]) == 0
    status = json.loads(capsys.readouterr().out)
    pilot, main = (one["reports"] for one in status["rounds"])
    refused = status["refused"]

    assert pilot >= PEOPLE // 25  # then the round closes by itself
    assert all(one["folded"] == one["reports"] and one["state"] == "folded" for one in status["rounds"])
    assert set(refused) <= {"round/closed"} and status["duplicates"] == 0
    assert sum(refused.values()) < AT_ONCE  # on their way while the pilot closed, and told so
    # Each of those who did not answer the pilot has a seat in the main group with probability 0.8, or in the pilot's:
    # a normal bound of six standard deviations, so a false alarm happens once in 10^8 runs.
    waited = PEOPLE - pilot
    assert abs(main - 0.8 * PEOPLE) <= 6 * math.sqrt(PEOPLE * 0.16) and main <= waited


def test_estimates_are_near_what_was_invented(shown: tuple[str, Path], capsys: Output) -> None:
    assert run(["campaign", "estimates", "snacks", "--database", str(shown[1] / "collector.db"), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["estimates"]

    for row in rows:
        share = SNACKS[row["key"]][0]
        error = math.hypot(row["frequency_se"], math.sqrt(share * (1 - share) / (0.7 * PEOPLE)))
        assert abs(row["frequency"] - share) <= 7 * error  # 8 keys: a false alarm happens once in 10^10 runs


@pytest.mark.parametrize("kind", [pytest.param(signal.SIGINT, marks=pytest.mark.soak), signal.SIGTERM])
def test_an_interruption_also_ends_the_collector(kind: signal.Signals, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "keyveil", "demo", "--people", "20000", "--out", str(tmp_path / "out")]
    demo = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert demo.stdout is not None
        address = next(line for line in demo.stdout if "A collector runs at" in line).split()[4].rstrip(",")
        collector = _listener(int(address.rpartition(":")[2]))
        time.sleep(1.0)  # into the first round
        demo.send_signal(kind)
        demo.communicate(timeout=60)
        assert demo.returncode == 130
        assert not _alive(collector)
    finally:
        demo.kill()
        demo.wait()


def test_a_collector_that_does_not_start_is_one_line(tmp_path: Path, capsys: Output) -> None:
    out = tmp_path / "out"
    (out / "collector.db").mkdir(parents=True)  # where the database should be
    assert run(["demo", "--people", "1000", "--out", str(out)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("keyveil: ") and error.count("\n") == 1


def _listener(port: int) -> int:
    """The process that listens on a port of this machine."""
    inodes = {
        line.split()[9]
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]
        if line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A"
    }
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            links = {os.readlink(link) for link in Path(f"/proc/{process}/fd").iterdir()}
        except OSError:
            continue
        if links & {f"socket:[{inode}]" for inode in inodes}:
            return int(process)
    raise AssertionError(f"nobody listens on {port}")


def _alive(process: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except FileNotFoundError:
        return False
