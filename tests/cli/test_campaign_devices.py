"""A campaign that devices would refuse is refused before it is written; what it will tell is said by then, too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from keyveil.cli.app import run
from keyveil.mechanisms.registry import find
from keyveil.protocols.catalogue import catalogue

Output = pytest.CaptureFixture[str]

SNACKS = ("--name", "snacks", "--purpose", "Snacks.", "--keys", "a,b,c")


@pytest.mark.parametrize("mechanism", [one.name for one in catalogue() if not one.devices])
def test_what_no_device_answers_makes_no_campaign(mechanism: str, tmp_path: Path, capsys: Output) -> None:
    file, draft = tmp_path / "c.json", tmp_path / "kvue.json"
    plain = [*SNACKS, "--epsilon", "1"]
    assert run(["campaign", "create", *plain, "--mechanism", mechanism, "--out", str(file)]) == 2
    assert "campaign/unanswerable" in capsys.readouterr().err and not file.exists()

    assert run(["campaign", "create", *plain, "--mechanism", "kvue", "--out", str(draft)]) == 0
    document = json.loads(draft.read_text())
    file.write_text(json.dumps({**document, "protocol": {**document["protocol"], "name": mechanism}}))
    for command in (["check", str(file)], ["create", str(file), "--database", str(tmp_path / "c.db")]):
        assert run(["campaign", *command]) == 2
        assert "campaign/unanswerable" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "options"),
    [(one.name, options) for one in catalogue() if one.devices for options in find(one.name).examples],
    ids=str,
)
def test_what_devices_answer_makes_a_campaign(
    name: str, options: dict[str, Any], tmp_path: Path, capsys: Output
) -> None:
    given = [word for option, value in options.items() for word in ("--set", f"{option}={value}")]
    assert run(["campaign", "create", *SNACKS, "--mechanism", name, *given, "--out", str(tmp_path / "c.json")]) == 0
    assert "It will tell how many people have each key;" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("mechanism", "keys", "option", "said"),
    [
        ("kvue", "100000", [], "100000 keys are more than a device reads (65536)"),
        ("ssr", "300", ["--max-pairs", "300"], "300 for max_pairs is more than a device computes"),
        ("kvue", "40000", ["--set", "bins=256"], "1 pairs of 40000 keys with 256 values each"),
        ("pilot", "300", ["--set", "most=300"], "300 for most is more than a device computes"),
        ("pilot", "65536", ["--set", "then=kv-sw"], "Devices would refuse round 2 of snacks: A report of"),
    ],
)
def test_what_is_too_large_for_devices_makes_no_campaign(
    mechanism: str, keys: str, option: list[str], said: str, tmp_path: Path, capsys: Output
) -> None:
    file = tmp_path / "c.json"
    asked = ["--name", "snacks", "--purpose", "Snacks.", "--keys", keys, "--mechanism", mechanism]
    assert run(["campaign", "create", *asked, *option, "--out", str(file)]) == 2
    told = capsys.readouterr().err
    assert said in told and "[campaign/unanswerable]" in told and told.count("\n") == 1 and not file.exists()


def test_check_lists_what_is_too_large_for_devices(tmp_path: Path, capsys: Output) -> None:
    file = tmp_path / "c.json"
    assert run(["campaign", "create", *SNACKS, "--mechanism", "kvue", "--out", str(file)]) == 0
    document = json.loads(file.read_text())
    file.write_text(json.dumps({**document, "schema": {**document["schema"], "keys": 70_000}}))
    capsys.readouterr()

    assert run(["campaign", "check", str(file), "--json"]) == 2
    (problem,) = json.loads(capsys.readouterr().out)["problems"]
    assert problem["code"] == "campaign/unanswerable" and "70000 keys" in problem["sentence"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--set", "epsilon=3"], "kvue has no option 'epsilon'; say --epsilon."),
        (["--set", "name=ssr"], "kvue has no option 'name'; say --mechanism."),
        (["--set", "bins=3", "--set", "bins=4"], "The option bins is given twice."),
        (["--set", "max-pairs=3", "--max-pairs", "4"], "The option max_pairs is given twice."),
    ],
)
def test_an_option_overrides_nothing_that_was_said_elsewhere(given: list[str], said: str, capsys: Output) -> None:
    assert run(["campaign", "create", *SNACKS, "--mechanism", "kvue", *given]) == 2
    assert capsys.readouterr().err == f"keyveil: {said} [mechanism/option]\n"


def test_a_campaign_says_what_it_will_and_will_not_tell(tmp_path: Path, capsys: Output) -> None:
    file = str(tmp_path / "c.json")
    assert run(["campaign", "create", *SNACKS, "--mechanism", "kvue", "--epsilon", "1", "--out", file]) == 0
    told = capsys.readouterr().err
    assert "It will tell how many people have each key; the mean value of each key;" in told
    assert "It will not tell of the people who have one key, how many have another; that takes" in told

    assert run(["campaign", "check", file, "--people", "1000", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"frequency", "mean", "top"} <= set(found["answers"])
    assert "moments" in found["not_answered"]["conditional"]
    assert set(found["answers"]).isdisjoint(found["not_answered"])
