"""``keyveil campaign`` for a series: --every, next, compare, and how many campaigns a device answers."""

from __future__ import annotations

import json
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from keyveil.campaign.documents import Campaign
from keyveil.campaign.series import drawn, next_document, refuse_same_reports
from keyveil.cli.app import run
from keyveil.cli.campaign_series import answered_of_next
from keyveil.core.errors import KeyveilError
from tests.device.collector import Collector, Watch
from tests.device.owner import agreed, code_of, week

Output = pytest.CaptureFixture[str]
CREATE = ["campaign", "create", "--name", "weekly", "--purpose", "To see.", "--keys", "a,b", "--mechanism", "kvue"]
MONTHLY = {"renew_days": 28, "renew_from": "2026-11-20"}


def shown(capsys: Output) -> Any:
    return json.loads(capsys.readouterr().out)


def test_a_weekly_series_is_made_and_goes_on_to_its_end(tmp_path: Path, capsys: Output) -> None:
    database = ["--database", str(tmp_path / "keyveil.db"), "--json"]
    first = [*CREATE, "--every", "week", "--opens", "2030-01-07", "--until", "2030-01-20", "--renew", "28"]
    assert run([*first, *database]) == 0
    made = shown(capsys)["campaign"]
    assert made["rounds"] == [{"opens": "2030-01-07", "closes": "2030-01-13"}]
    assert (made["every_days"], made["series_until"]) == (7, "2030-01-20")
    assert (made["renew_days"], made["renew_from"]) == (28, "2030-01-07")

    assert run(["campaign", "next", "weekly", *database]) == 2  # one campaign at a time
    capsys.readouterr()
    for action in ("open", "stop"):
        assert run(["campaign", action, "weekly", *database]) == 0
    capsys.readouterr()
    assert run(["campaign", "next", "weekly", *database]) == 0
    second = shown(capsys)
    assert second["campaign"]["rounds"] == [{"opens": "2030-01-14", "closes": "2030-01-20"}]
    assert Campaign.from_document(second["campaign"]).terms == Campaign.from_document(made).terms
    assert run(["campaign", "compare", Campaign.from_document(made).hash, second["hash"], *database]) == 2
    said = capsys.readouterr().err
    assert "question/renewed" in said and "2030-02-04" in said  # the day from which it is possible

    for action in ("open", "stop"):
        assert run(["campaign", action, second["hash"], *database]) == 0
    capsys.readouterr()
    assert run(["campaign", "next", second["hash"], *database]) == 2
    assert "campaign/over" in capsys.readouterr().err


@pytest.mark.parametrize("rhythm", ["weekly", "0", "-3", "99999", ""])
def test_a_strange_rhythm_is_refused(rhythm: str, capsys: Output) -> None:
    assert run([*CREATE, "--every", rhythm]) == 2
    assert "campaign/every" in capsys.readouterr().err


def test_check_says_how_many_of_the_next_campaigns_a_device_answers(tmp_path: Path, capsys: Output) -> None:
    path = tmp_path / "weekly.json"
    assert run([*CREATE, "--every", "week", "--enough", "100", "--out", str(path), "--json"]) == 0
    capsys.readouterr()
    assert run(["campaign", "check", str(path), "--json"]) == 0
    found = shown(capsys)["answered_of_next_52"]
    assert found == {"as it is": 8, "drawn anew each time": 8, "one_in 4": 8, "renew_days 28": 32}


@pytest.mark.parametrize("terms", [{}, MONTHLY, {"one_in": 4}], ids=str)
def test_a_device_answers_as_many_as_check_says(terms: dict[str, Any]) -> None:
    collector, watch = Collector(), Watch()
    campaign = collector.open(week(0, **terms))
    one, answered = agreed(collector, clock=watch), 0
    if "one_in" in terms:  # whose turn comes first, as the forecast has it
        row = ("snack-survey", campaign.terms, 0, -1, None)
        one.vault.connection.execute("INSERT INTO turn VALUES (?, ?, ?, ?, ?)", row)
    for number in range(52):
        collector.open(week(number, **terms))
        watch.now = Watch().now + timedelta(days=7 * number)
        try:
            answered += one.report("snack-survey", {}).state == "sent"
        except KeyveilError as refused:
            assert refused.code == "budget/exceeded"
    assert answered == answered_of_next(campaign)["as it is"]


def test_estimates_speak_of_the_days_on_which_reports_were_drawn() -> None:
    third = Campaign.from_document(week(2, **MONTHLY))
    assert str(drawn(third)) == "2026-11-20 to 2026-12-10"
    assert str(drawn(Campaign.from_document(week(2)))) == "2026-12-04 to 2026-12-10"


def test_only_renewed_reports_are_compared() -> None:
    weeks = [Campaign.from_document(week(number, **MONTHLY)) for number in range(6)]
    for pair in ((0, 1), (1, 0), (0, 3), (4, 5), (2, 2)):
        assert code_of(lambda pair=pair: refuse_same_reports(*(weeks[at] for at in pair))) == "question/renewed"
    refuse_same_reports(weeks[3], weeks[4])
    refuse_same_reports(weeks[5], weeks[0])
    plain = [Campaign.from_document(week(number)) for number in range(2)]
    refuse_same_reports(*plain)  # every campaign is drawn anew
    with pytest.raises(KeyveilError, match="2026-12-18"):
        refuse_same_reports(weeks[0], weeks[1])


def test_a_campaign_without_a_rhythm_has_no_next_one() -> None:
    assert code_of(lambda: next_document(Campaign.from_document(week(0)))) == "campaign/every"
    weekly = Campaign.from_document(week(0, every_days=7))
    assert Campaign.from_document(next_document(weekly)).dates == (date(2026, 11, 27), date(2026, 12, 3))
