"""``auto`` resolves to a concrete mechanism before anything is asked."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import keyveil as kv
from keyveil.campaign.documents import Campaign
from keyveil.cli.app import run
from keyveil.core.errors import KeyveilError
from keyveil.lab.datasets import independent
from keyveil.planning.auto import planned_for, resolve

SCHEMA = kv.Schema(keys=12)
PLAIN = ["campaign", "create", "--name", "snacks", "--purpose", "Snacks.", "--keys", "12", "--epsilon", "2"]


def test_auto_is_the_best_mechanism_of_a_plan() -> None:
    made = kv.mechanism("auto", SCHEMA, 2, users=5_000, pairs=3)
    found = kv.plan(5_000, 12, 3, epsilon=2)
    assert made.fingerprint == found.best.mechanism.fingerprint
    assert made.name != "auto"


def test_other_names_are_made_as_ever() -> None:
    assert kv.mechanism("ssr", SCHEMA, 1, max_pairs=2).options["max_pairs"] == 2
    assert "least predicted error" in (kv.mechanism.__doc__ or "")


@pytest.mark.parametrize(
    ("told", "code"), [({}, "plan/people"), ({"users": 10}, "plan/people"), ({"max_pairs": 3}, "plan/auto")]
)
def test_auto_guesses_nothing(told: dict[str, int], code: str) -> None:
    with pytest.raises(KeyveilError) as refused:
        kv.mechanism("auto", SCHEMA, 1, **told)
    assert refused.value.code == code


def test_a_campaign_names_what_auto_chose_and_why(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    assert run([*PLAIN, "--people", "5000", "--pairs", "3", "--out", str(file)]) == 0
    document = json.loads(file.read_text())
    chosen = resolve(SCHEMA, 2, users=5_000, pairs=3)
    campaign = Campaign.from_document(document)
    assert campaign.protocol.single is not None
    assert campaign.protocol.single == chosen.mechanism
    assert document["reason"] == campaign.reason == chosen.reason
    assert campaign.document() == document


def test_a_campaign_without_a_reason_keeps_its_hash(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    assert run([*PLAIN, "--mechanism", "kvue", "--out", str(file)]) == 0
    assert "reason" not in json.loads(file.read_text())


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ([], "campaign/people"),
        (["--mechanism", "auto"], "campaign/people"),
        (["--people", "1000"], "campaign/people"),
        (["--people", "1000", "--pairs", "2", "--max-pairs", "2"], "campaign/auto"),
        (["--people", "1000", "--pairs", "2", "--mechanism", "kvue"], "campaign/auto"),
        (["--people", "1000", "--pairs", "2", "--hierarchy"], "campaign/auto"),
        (["--people", "1000", "--pairs", "2", "--goal", "joy"], "plan/goal"),
        (["--people", "1000", "--sample", "none.csv"], "population/"),
    ],
)
def test_who_gives_too_little_or_too_much_is_told(
    given: list[str], code: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "c.json"
    assert run([*PLAIN, *given, "--out", str(file)]) == 2
    told = capsys.readouterr().err
    assert code in told and told.count("\n") == 1 and not file.exists()


def test_as_many_people_as_are_enough_are_planned_for(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    assert run([*PLAIN, "--enough", "3000", "--pairs", "3", "--out", str(file)]) == 0
    assert "3,000 people" in json.loads(file.read_text())["reason"]


def test_a_reason_tells_for_whom_it_was_chosen() -> None:
    """Of numbers and of a sample; a reason that somebody wrote tells what it tells."""
    found = resolve(kv.Schema(keys=9), 1, users=54_321, pairs=2.5)
    assert planned_for(found.reason) == (54_321, 2.5)
    of_sample = resolve(kv.Schema(keys=4), 1, sample=independent(300, np.full(4, 0.5), np.zeros(4), 1))
    people, pairs = planned_for(of_sample.reason) or (0, 0.0)
    assert people == 300 and pairs == pytest.approx(2, abs=0.2)
    assert planned_for("Because we like it.") is None
    assert planned_for("Planned for 1,000 people of mine with e.e pairs on average") is None
    assert (
        "for the goal frequency after bayes"
        in resolve(kv.Schema(keys=9), 1, users=54_321, pairs=2.5, goal="frequency", postprocess="bayes").reason
    )
