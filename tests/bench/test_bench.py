"""``keyveil bench``: rows of the package and of the repository in one form, and a history that notices slow-downs."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from keyveil.bench import history
from keyveil.bench.rows import Benchmark, Race, Ratio, measured
from keyveil.bench.worker import completed, own_rows, rows
from keyveil.cli.app import run
from keyveil.core.errors import KeyveilError

MACHINE = "a machine"


def spin(seconds: float) -> None:
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


def raced(seconds: float) -> dict[str, Any]:
    """A contestant that takes so long, against a rival of a hundredth of a second."""
    entry = Benchmark("spinning", "a rival", 1, lambda quick: Race(lambda: spin(seconds), lambda: spin(0.01), 10))
    return measured(entry, quick=True).document()


def test_one_command_gives_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "--quick", "--json", "--only", "ssr-folding-100"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) >= {"machine", "ratios"}
    assert [row["name"] for row in found["ratios"]] == ["ssr-folding-100", "ssr-folding-1000"]
    assert all({"name", "ratio", "against", "goal"} <= set(row) and row["ratio"] > 0 for row in found["ratios"])


def test_rows_of_the_repository_are_found_beside_those_of_the_package() -> None:
    (row,) = rows(quick=True, only="hard-doc")
    assert row["name"] == "hard-documents" and row["goal"] == 0.5


def test_a_ratio_says_whether_its_goal_is_met() -> None:
    assert [Ratio("a", ratio, "b", goal).verdict for ratio, goal in ((2, 2), (1.9, 2), (1, None))] == [
        "met",
        "missed",
        None,
    ]
    fixed = Benchmark("limit", "20 ms", 1, lambda quick: Race(lambda: spin(0.01), 0.02))
    assert measured(fixed, quick=True).ratio == pytest.approx(2, rel=0.5)


def test_rows_of_other_modules_keep_what_they_say_beyond_the_form() -> None:
    row = completed({"name": "a", "ratio": 3.0, "against": "b", "goal": 2, "p99_ms": 5})
    assert (row["verdict"], row["p99_ms"], row["reports_per_second"]) == ("met", 5, None)
    assert list(own_rows(history)(True)) == []  # its ``runs`` are something else


def test_a_planted_slow_down_of_two_is_noticed_and_the_same_speed_is_not(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    for _ in range(3):
        history.add(path, {"machine": MACHINE, "ratios": [raced(0.005)]})
    same = history.slower(path, {"machine": MACHINE, "ratios": [raced(0.005)]})
    (told,) = history.slower(path, {"machine": MACHINE, "ratios": [raced(0.010)]})
    assert same == [] and told.startswith("spinning is slower: ")
    assert history.slower(path, {"machine": "another", "ratios": [raced(0.010)]}) == []


def test_a_history_that_is_none_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "h").write_text("{no", encoding="utf-8")
    with pytest.raises(KeyveilError) as refusal:
        history.runs(tmp_path / "h")
    assert refusal.value.code == "input/file"
