"""``keyveil campaign compare`` on reports of real devices: figures of renewed reports, else the date of the next."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from keyveil.cli.app import run
from keyveil.collector.app import make_app
from keyveil.collector.inprocess import AppTransport
from keyveil.collector.service import Service
from keyveil.collector.settings import Settings
from keyveil.device import Device
from tests.device.collector import Sleeper, document
from tests.device.owner import GENEROUS

Output = pytest.CaptureFixture[str]
FIRST = date(2026, 1, 5)
SERIES: dict[str, Any] = {
    "name": "weekly",
    "schema": {"keys": ["fries"], "low": 1, "high": 5},
    "protocol": {"name": "kvue", "epsilon": "8"},
    "min_reports": 10,
    "every_days": 7,
    "renew_days": 28,
    "renew_from": FIRST.isoformat(),
}
PEOPLE = 24


@dataclass
class Weeks:
    """Devices and a collector that live through a weekly series."""

    file: Path
    now: datetime = datetime(2026, 1, 5, 12, tzinfo=UTC)
    hashes: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        url = f"sqlite:///{self.file}"
        self.service = Service(url, clock=lambda: self.now, steady=lambda: self.now.timestamp())
        self.transport = AppTransport(make_app(self.service, Settings(database_url=url, tick_seconds=0)))
        self.devices = [
            Device(":memory:", self.transport, clock=lambda: self.now, sleep=Sleeper(), caps=GENEROUS)
            for _ in range(PEOPLE)
        ]

    def ask(self, week: int, records: list[Mapping[str, float]]) -> None:
        """The campaign of a week from its first to its last day; everybody answers."""
        opens = FIRST + timedelta(days=7 * week)
        self.now = datetime.combine(opens, self.now.timetz())
        window = {"opens": opens.isoformat(), "closes": (opens + timedelta(days=6)).isoformat()}
        self.hashes[week] = self.service.create(document(**SERIES, rounds=[window]))["hash"]
        self.service.act(self.hashes[week], "open")
        for device, record in zip(self.devices, records, strict=True):
            if week == 0:
                device.consent("weekly")
            assert device.report("weekly", record).state == "sent"
        self.service.settle()
        self.service.act(self.hashes[week], "stop")

    def close(self) -> None:
        self.transport.close()
        self.service.close()


@pytest.fixture(scope="module")
def weeks(tmp_path_factory: pytest.TempPathFactory) -> Weeks:
    """In week 0 half of the people hold the key, at its highest value; from week 1 on all do, at its lowest."""
    made = Weeks(tmp_path_factory.mktemp("weeks") / "keyveil.db")
    try:
        made.ask(0, [{"fries": 5} if number % 2 else {} for number in range(PEOPLE)])
        for week in (1, 4):
            made.ask(week, [{"fries": 1}] * PEOPLE)
    finally:
        made.close()
    return made


def compared(weeks: Weeks, capsys: Output, pair: tuple[int, int], *options: str) -> tuple[int, str, str]:
    command = ["campaign", "compare", *(weeks.hashes[week] for week in pair), "--database", str(weeks.file), *options]
    status = run(command)
    told = capsys.readouterr()
    return status, told.out, told.err


def estimated(weeks: Weeks, capsys: Output, week: int) -> dict[str, Any]:
    assert run(["campaign", "estimates", weeks.hashes[week], "--database", str(weeks.file), "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize(("of", "change"), [("frequency", 0.5), ("mean", -4.0)])
def test_what_has_changed_between_renewed_reports_is_shown(
    weeks: Weeks, capsys: Output, of: str, change: float
) -> None:
    """A report is wrong with probability 2 / (e^8 + 2) = 7e-4.

    The estimate is off by half of the change only if at least six of 48 reports are wrong: probability below 1e-11.
    """
    status, told, _ = compared(weeks, capsys, (0, 4), "--of", of, "--json")
    assert status == 0
    found = json.loads(told)
    (row,) = found["changes"]
    before, after = (estimated(weeks, capsys, week)["estimates"][0] for week in (0, 4))

    assert found["of"] == of and row["key"] == "fries"
    assert row["change"]["value"] == pytest.approx(after[of] - before[of], abs=1e-9)
    assert abs(row["change"]["value"] - change) < abs(change) / 2
    assert row["change"]["low"] < row["change"]["value"] < row["change"]["high"]
    assert not row["change"]["low"] <= 0 <= row["change"]["high"] and row["p_value"] < 0.05
    assert found["as_of"] == [
        {"first": "2026-01-05", "last": "2026-01-11"},
        {"first": "2026-02-02", "last": "2026-02-08"},
    ]

    status, table, _ = compared(weeks, capsys, (0, 4), "--of", of)
    assert status == 0 and f"{row['change']['value']:.4g}" in table


def test_two_campaigns_of_one_period_are_refused_with_the_day_from_which_it_is_possible(
    weeks: Weeks, capsys: Output
) -> None:
    for pair in ((0, 1), (1, 0)):
        status, told, said = compared(weeks, capsys, pair)
        assert status == 2 and not told
        assert "question/renewed" in said and "2026-02-02" in said


def test_reports_of_one_period_tell_the_day_of_their_draw_and_estimates_say_so(weeks: Weeks, capsys: Output) -> None:
    """All records changed after week 0, and not one report did: a comparison would have found no change."""
    first, second = (estimated(weeks, capsys, week) for week in (0, 1))
    assert first["estimates"] == second["estimates"]
    assert second["as_of"] == {"first": "2026-01-05", "last": "2026-01-18"}


def test_files_of_estimates_say_of_which_days_they_speak(weeks: Weeks, capsys: Output, tmp_path: Path) -> None:
    rows, page = tmp_path / "rows.csv", tmp_path / "page.html"
    files = ["--csv", str(rows), "--report", str(page)]
    assert run(["campaign", "estimates", weeks.hashes[1], "--database", str(weeks.file), *files]) == 0
    (row,) = csv.DictReader(rows.read_text().splitlines())
    assert (row["as_of_first"], row["as_of_last"]) == ("2026-01-05", "2026-01-18")
    assert "drawn from 2026-01-05 to 2026-01-18" in page.read_text()
