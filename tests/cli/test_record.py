"""``keyveil compare --record``: from the command line to the table, a mechanism of one's own, and every mistake."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from keyveil.cli.app import run
from keyveil.core.errors import ContractError
from keyveil.lab.record import runner
from keyveil.lab.record.cells import TOLD_OF_TIME, measure
from keyveil.mechanisms import registry
from keyveil.privacy.audit import Audit, audit
from keyveil.testing import admission
from keyveil.testing.suite import CheckedContract, CheckRun

Output = pytest.CaptureFixture[str]
DATA = "synthetic:zipf:300:keys=8"
SMALL = ["compare", DATA, "--epsilon", "1,4", "--mechanisms", "grr,kvue", "--repeats", "8"]

PAGE = Path(__file__).parents[2] / "docs" / "record.md"
MINE = PAGE.read_text(encoding="utf-8").partition("```python\n")[2].partition("```")[0]


@pytest.fixture
def mine(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    yield path
    if "mine" in registry.names():
        registry.unregister("mine")


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Who was held to the contract; the contract itself takes long and has tests of its own."""
    asked: list[str] = []

    def check(name: str, **options: Any) -> CheckedContract:
        asked.append(name)
        return CheckedContract(name, options, (CheckRun("members", "are there", 0.0),))

    monkeypatch.setattr(admission, "SECONDS", 0.2)
    monkeypatch.setattr(admission, "check_mechanism", check)
    return asked


def rows(folder: Path) -> list[dict[str, Any]]:
    found = json.loads((folder / "record.json").read_text())["rows"]
    return [{name: value for name, value in row.items() if name not in TOLD_OF_TIME} for row in found]


def test_a_record_is_written_shown_and_not_run_twice(
    tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "record"
    assert run([*SMALL, "--record", str(folder), "--processes", "1", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "keyveil-record" and len(document["rows"]) == 4
    assert {path.name for path in folder.iterdir()} >= {"cells.jsonl", "record.json", "record.parquet", "record.md"}
    assert (folder / "regret-mse_frequency.png").read_bytes().startswith(b"\x89PNG")
    page = (folder / "record.md").read_text()
    assert "won alone" in page and "Distance to the information limit" in page and "](regret-mse_frequency.png)" in page
    monkeypatch.setattr(runner, "measure", None)  # nothing is left to measure
    assert run([*SMALL, "--record", str(folder), "--processes", "1"]) == 0
    assert "typical regret" in capsys.readouterr().out


def test_an_interruption_says_what_is_kept(tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    def stopped(*arguments: Any) -> dict[str, Any]:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt
        return measure(*arguments)

    monkeypatch.setattr(runner, "measure", stopped)
    command = [*SMALL, "--record", str(tmp_path), "--processes", "1"]
    assert run(command) == 130
    said = capsys.readouterr().err
    assert "2 of 4 cells were finished and are kept" in said and "Traceback" not in said
    assert run(command) == 0 and calls == 5


def test_a_mechanism_of_ones_own_is_checked_and_ranked_whatever_the_number_of_processes(
    mine: Path, tmp_path: Path, capsys: Output, held: list[str]
) -> None:
    command = [*SMALL[:5], "kvue", "--repeats", "8", "--submit", str(mine)]
    assert run([*command, "--record", str(tmp_path / "one"), "--processes", "1"]) == 0
    said = capsys.readouterr().err
    assert "mine: ε = 1.00000 proved (enumeration), attacked: at least" in said and held == ["mine"]
    assert run([*command, "--record", str(tmp_path / "two"), "--processes", "2"]) == 0
    assert rows(tmp_path / "one") == rows(tmp_path / "two")
    proofs = {row["mechanism"]: row["proof"] for row in rows(tmp_path / "one")}
    assert proofs == {"kvue": "certified", "mine": "submitted"}


def test_who_does_not_keep_epsilon_is_not_ranked(mine: Path, tmp_path: Path, capsys: Output) -> None:
    mine.write_text(MINE.replace("high, low = levels(self.epsilon)", "high, low = levels(2 * self.epsilon)"))
    assert run([*SMALL, "--submit", str(mine), "--record", str(tmp_path / "record")]) == 2
    said = capsys.readouterr().err
    assert "mine is not ranked: at ε = 1 its certificate finds 2.0" in said and said.count("\n") == 1
    assert not (tmp_path / "record").exists()


def test_who_breaks_the_contract_is_not_ranked(
    mine: Path, tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(name: str, **options: Any) -> CheckedContract:
        raise ContractError("contract/estimate", f"{name} is biased.")

    monkeypatch.setattr(admission, "check_mechanism", broken)
    assert run([*SMALL, "--submit", str(mine), "--record", str(tmp_path / "record")]) == 2
    assert "mine is not ranked: mine is biased. [contract/estimate]" in capsys.readouterr().err


def test_whom_an_audit_refutes_is_not_ranked(
    mine: Path, tmp_path: Path, capsys: Output, held: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuted(subject: Any, **how: Any) -> Audit:
        return replace(audit(subject, draws=2000), lower_bound=1.5)

    monkeypatch.setattr(admission, "audit", refuted)
    assert run([*SMALL, "--submit", str(mine), "--record", str(tmp_path / "record")]) == 2
    assert "an audit finds ε of at least 1.5 where 1 is promised" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("import nowhere_at_all\n", "mine.py cannot be run (ModuleNotFoundError: No module named 'nowhere_at_all')"),
        ("answer = 42\n", "mine.py defines no mechanism"),
        (MINE.replace('"mine"', '"kvue"'), "The name kvue belongs to Keyveil itself"),
        (MINE.replace("supports = ", "nothing = "), "supports"),
    ],
)
def test_a_file_that_brings_no_mechanism_is_one_sentence(
    text: str, sentence: str, mine: Path, tmp_path: Path, capsys: Output
) -> None:
    mine.write_text(text)
    assert run([*SMALL, "--submit", str(mine), "--record", str(tmp_path / "record")]) == 2
    said = capsys.readouterr().err
    assert sentence in said and said.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--preset", "single-itm", "--record", "x"], "did you mean single-item?"),
        (["--preset", "small"], "--preset belongs to a record: say where with --record FOLDER"),
        ([DATA, "--epsilon", "1", "--people", "10"], "--people belongs to a record"),
        ([DATA, "--epsilon", "1", "--people", "1.5", "--record", "x"], "--people takes whole numbers"),
        (["--epsilon", "1", "--record", "x"], "Say on which data, or which --preset"),
        (["--epsilon", "1"], "Say on which data"),
        ([DATA, "--record", "x"], "--epsilon takes one or several numbers"),
        ([DATA, "--epsilon", "1", "--submit", "no.py", "--record", "x"], "a Python file that is there, not no.py"),
        ([DATA, "--epsilon", "1", "--mechanisms", "kvuee", "--record", "x"], "did you mean kvue"),
        ([DATA, "--epsilon", "1", "--page", "a.md", "--record", "x"], "A record writes its own page"),
    ],
)
def test_mistakes_are_one_sentence(
    arguments: list[str], sentence: str, tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["compare", *arguments]) == 2
    said = capsys.readouterr().err
    assert sentence in said and said.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_damaged_lines_are_told_and_a_folder_that_is_a_file_is_refused(tmp_path: Path, capsys: Output) -> None:
    folder = tmp_path / "record"
    folder.mkdir()
    (folder / "cells.jsonl").write_text("this is not a cell\n")
    assert run([*SMALL, "--record", str(folder), "--processes", "1"]) == 0
    assert "1 line of" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert run([*SMALL, "--record", str(tmp_path / "file"), "--processes", "1"]) == 2
    said = capsys.readouterr().err
    assert "cannot be" in said and "[compare/file]" in said
