"""Privacy labels and registry entries: from a file or a collector, as YAML, whatever the texts hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from keyveil.campaign.documents import Campaign
from keyveil.cli import campaign_label
from keyveil.cli.app import run
from tests.cli.test_campaign import OPTIONS, refused, said

Output = pytest.CaptureFixture[str]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "snacks.json"
    assert run(["campaign", "create", *OPTIONS, "--contact", "privacy@example.org", "--out", str(path)]) == 0
    return path


def test_a_label_says_the_proved_epsilon_and_who_sees_what(file: Path, capsys: Output) -> None:
    capsys.readouterr()
    assert run(["campaign", "label", "--campaign", str(file)]) == 0
    told = yaml.safe_load(capsys.readouterr().out)
    campaign = Campaign.from_document(json.loads(file.read_text()))
    certificate = campaign.protocol.certificate()

    assert told["epsilon"]["at_most"] == "3" and told["epsilon"]["proved"] == str(certificate.exact_epsilon)
    assert told["document"]["sha256"] == campaign.hash
    assert told["contact"] == "privacy@example.org" and "burger, fries, pepsi" in told["asks"]["keys"]
    assert "from 100 reports on" in told["who_sees_what"]["analysts"] and len(told["not_protected"]) == 4
    assert told["returns"] is None and told["days"] is None


def test_an_entry_has_what_the_registry_asks_of_its_third_tier(file: Path, tmp_path: Path, capsys: Output) -> None:
    out = tmp_path / "entry.yaml"
    asked = ["campaign", "label", "--campaign", str(file), "--registry", "--curator", "Example", "--out", str(out)]
    assert run(asked) == 0
    entry = yaml.safe_load(out.read_text())
    parts = entry["deployment"]

    assert entry["tier"] == 3 and entry["status"] == "Draft"
    assert parts["product"]["data_curators"] == ["Example"]
    assert parts["dp_flavor"]["name"] == "Pure DP" and parts["model"]["model_name"] == "Local"
    assert parts["privacy_loss"]["privacy_parameters"] == {"epsilon": 3.0}
    assert set(parts) == {
        "product", "dp_flavor", "privacy_loss", "model", "accounting", "implementation", "resources"
    }  # fmt: skip


def test_a_series_says_how_often_and_what_adds_up(tmp_path: Path, capsys: Output) -> None:
    for more, told in (
        ([], "Every 7 days, a device draws a new report each time, and epsilon adds up."),
        (["--renew", "28"], "Every 7 days, one report of a device stands for 28 days."),
    ):
        path = tmp_path / "series.json"
        dates = ["--opens", "2030-01-07", "--closes", "2030-01-13", "--every", "week"]
        assert run(["campaign", "create", *OPTIONS, *dates, *more, "--out", str(path)]) == 0
        capsys.readouterr()
        document = said(capsys, "campaign", "label", "--campaign", str(path))
        assert document["returns"] == told and document["days"] == ["2030-01-07", "2030-01-13"]
        entry = said(capsys, "campaign", "label", "--campaign", str(path), "--registry")
        assert entry["deployment"]["privacy_loss"]["privacy_unit"] == "User-campaign-level"


def test_a_protocol_of_several_rounds_has_odds_of_all_together(tmp_path: Path, capsys: Output) -> None:
    path = tmp_path / "rounds.json"
    plain = [word for word in OPTIONS if word not in ("--max-pairs", "2")]
    assert run(["campaign", "create", *plain, "--mechanism", "pilot", "--out", str(path)]) == 0
    capsys.readouterr()
    assert "in all rounds" in said(capsys, "campaign", "label", "--campaign", str(path))["epsilon"]["in_words"]


@pytest.mark.parametrize(
    "document",
    [
        {"a": 'x"\n- y: #{}[]&*!|>%@`', "b": {"c": [1, "two: three", None]}, "d": [], "e": {}, "f": True},
        {"purpose": "\u2028 yes \x85 no\x07", "n": "null"},
    ],
)
def test_texts_stay_texts(document: dict[str, Any]) -> None:
    assert yaml.safe_load(campaign_label.yaml(document)) == document


def test_what_is_wrong_is_said_in_one_line(file: Path, capsys: Output) -> None:
    capsys.readouterr()
    assert "[campaign/label]" in refused(capsys, "campaign", "label")
    assert "[campaign/label]" in refused(capsys, "campaign", "label", "snacks", "--campaign", str(file))


def test_a_collector_is_asked_by_name(tmp_path: Path, capsys: Output) -> None:
    where = ["--database", str(tmp_path / "collector.db")]
    assert run(["campaign", "create", *OPTIONS, *where]) == 0
    capsys.readouterr()
    assert said(capsys, "campaign", "label", "snack-survey", *where)["name"] == "snack-survey"
