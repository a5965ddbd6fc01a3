"""Following a campaign: line by line where output is piped, in place on a terminal, and no longer than it lasts."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from keyveil.cli import campaign_watch
from keyveil.cli.app import run
from keyveil.cli.terminal import Terminal
from keyveil.collector.service import Service
from tests.cli.test_campaign import OPTIONS, batch

Output = pytest.CaptureFixture[str]


@pytest.fixture
def opened(tmp_path: Path) -> list[str]:
    """Where an open campaign without reports lies.

    Nobody tells what the cap hides: a few answers about it widen intervals now and then, and here widths must shrink.
    """
    where = ["--database", str(tmp_path / "collector.db")]
    assert run(["campaign", "create", *OPTIONS, "--set", "overflow=off", *where]) == 0
    assert run(["campaign", "open", "snack-survey", *where]) == 0
    return where


def send(where: list[str], people: int) -> None:
    service = Service(f"sqlite:///{where[1]}")
    service.submit("snack-survey", batch(service.view("snack-survey"), people)).result(60)
    service.close()


def scripted(monkeypatch: pytest.MonkeyPatch, where: list[str], *steps: int) -> None:
    """Between two looks so many people report; after the last step the round is closed."""
    left = list(steps)

    def pause(_: float) -> None:
        if left:
            send(where, left.pop(0))
        else:
            assert run(["campaign", "close", "snack-survey", *where]) == 0

    monkeypatch.setattr(campaign_watch, "pause", pause)


def test_lines_tell_counts_and_widths_that_shrink_until_it_is_over(
    opened: list[str], monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    scripted(monkeypatch, opened, 300, 1200)
    capsys.readouterr()
    assert run(["campaign", "watch", "snack-survey", *opened]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("snack-survey is ")]

    assert "0 reports, 0 counted. 0 reports counted; nothing is shown below 100." in lines[0]
    widths = [float(found[1]) for line in lines if (found := re.search(r"frequency ± ([\d.]+)", line))]
    assert widths[-1] < 0.6 * widths[0]  # five times the reports: a factor of about 0.45
    assert lines[-1].startswith("snack-survey is estimated") and "1,500 reports, 1,500 counted" in lines[-1]
    assert len(set(lines)) == len(lines)


def test_one_look_ends_and_an_interrupt_is_no_error(
    opened: list[str], monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    capsys.readouterr()
    assert run(["campaign", "watch", "snack-survey", "--once", *opened]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1

    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(campaign_watch, "pause", interrupted)
    assert run(["campaign", "watch", "snack-survey", *opened]) == 0


def test_a_terminal_shows_every_key_at_first_and_now(
    opened: list[str], monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    page = io.StringIO()
    monkeypatch.setattr(campaign_watch, "screen", lambda: Terminal(file=page, force_terminal=True, width=140))
    scripted(monkeypatch, opened, 300, 1200)
    assert run(["campaign", "watch", "snack-survey", *opened]) == 0
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", page.getvalue())

    assert "± at first" in shown and "Duplicates: 0. Refused: none." in shown
    last = shown.rpartition("key ")[2]
    row = next(line for line in last.splitlines() if "burger" in line)
    at_first, now = (float(cell) for cell in row.split("│")[3:5])
    assert now < 0.6 * at_first
    assert re.search(r"Median half-width: [\d.]+ at 300 reports, [\d.]+ now\. \S+", shown)


def test_what_is_not_there_is_refused_in_one_line(opened: list[str], capsys: Output) -> None:
    capsys.readouterr()
    assert run(["campaign", "watch", "another", "--once", *opened]) == 2
    assert capsys.readouterr().err.count("\n") == 1
