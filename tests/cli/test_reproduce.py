from __future__ import annotations

import csv
import json
import re
import resource
from pathlib import Path
from typing import Any

import pytest

from keyveil.cli.app import run
from keyveil.lab.experiments import runner
from keyveil.lab.experiments.cells import measure

Output = pytest.CaptureFixture[str]
QUICK = ["li-fig2", "sun-table4"]  # the two that take no time


def reproduced(output: Output, *arguments: str) -> dict[str, Any]:
    assert run(["reproduce", *arguments, "--json"]) == 0
    document: dict[str, Any] = json.loads(output.readouterr().out)
    return document


def test_the_list_names_43_with_paper_title_and_claims(capsys: Output) -> None:
    figures = reproduced(capsys, "--list")["figures"]
    assert len(figures) == 43 and len({one["id"] for one in figures}) == 43
    assert all(one["paper"] and one["title"] and one["claims"] for one in figures)
    assert sum(len(one["claims"]) for one in figures) >= 60
    assert run(["reproduce", "--list", "dong"]) == 0
    assert "4 tables and figures" in capsys.readouterr().out


def test_every_experiment_leaves_numbers_pictures_and_verdicts(tmp_path: Path, capsys: Output) -> None:
    page = tmp_path / "page.md"
    document = reproduced(capsys, *QUICK, "--out", str(tmp_path), "--processes", "1", "--page", str(page))
    assert [one["id"] for one in document["figures"]] == QUICK
    assert sum(document["score"].values()) == sum(len(one["verdicts"]) for one in document["figures"]) == 6
    for id in QUICK:
        rows = list(csv.DictReader((tmp_path / "quick" / f"{id}.csv").open()))
        assert rows and all(row["value"] for row in rows)
        assert (tmp_path / "quick" / f"{id}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (tmp_path / "quick" / f"{id}.svg").read_text()
        told = json.loads((tmp_path / "quick" / f"{id}.json").read_text())
        assert {one["verdict"] for one in told["verdicts"]} <= set(document["score"])
    text = page.read_text()
    linked = re.findall(r"\]\((pictures/reproduction/[\w-]+\.png)\)", text)
    assert linked and all((tmp_path / one).is_file() for one in linked)
    assert "not confirmed" in text and max(map(len, text.splitlines())) <= 120


def test_the_page_as_one_html_file_holds_all_claims_and_pictures(tmp_path: Path, capsys: Output) -> None:
    page = tmp_path / "page.html"
    document = reproduced(capsys, "li-fig2", "--out", str(tmp_path), "--processes", "1", "--page", str(page))
    text = page.read_text(encoding="utf-8")
    claims = [one for figure in document["figures"] for one in figure["verdicts"]]
    assert all(text.count(one["claim"]) == 2 for one in claims)  # in the index, and below the picture
    assert text.count("data:image/png;base64,") == 1 and "default-src 'none'" in text
    assert not re.findall(r"<script|(?:src|href)=\"(?!#|data:)", text)
    for id in re.findall(r'href="#([\w-]+)"', text):
        assert f'id="{id}"' in text


def test_the_claims_of_formulas_are_settled(tmp_path: Path, capsys: Output) -> None:
    document = reproduced(capsys, "li-fig2", "--out", str(tmp_path), "--processes", "1")
    assert document["score"] == {"confirmed": 3, "confirmed only as published": 0, "not confirmed": 0}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["ye-fgi9"], "did you mean ye-fig9?"),
        (["--quick", "--full"], "Choose --quick or --full"),
        (["wang-fig8", "--data", "nowhere"], "There is no folder nowhere"),
    ],
)
def test_mistakes_are_one_sentence(arguments: list[str], sentence: str, tmp_path: Path, capsys: Output) -> None:
    assert run(["reproduce", *arguments, "--out", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert sentence in said and said.count("\n") == 1 and "[reproduce/" in said


def test_a_folder_without_the_data_says_which_files_were_looked_for(tmp_path: Path, capsys: Output) -> None:
    assert run(["reproduce", "wang-fig8", "sun-fig1", "--data", str(tmp_path), "--out", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "emoji_sentiment.parquet" in said and "ratings.csv" in said and said.count("\n") == 1


@pytest.mark.parametrize("content", ["", "user,key\n1,a\n", "user,key,value\n1,a,high\n"])
def test_a_file_that_is_no_data_says_what_was_expected(content: str, tmp_path: Path, capsys: Output) -> None:
    (tmp_path / "jdata.csv").write_text(content)
    arguments = ["ye-fig3", "--data", str(tmp_path), "--out", str(tmp_path), "--processes", "1"]
    assert run(["reproduce", *arguments]) == 2
    said = capsys.readouterr().err
    assert "Expected are the columns user, key and value" in said and said.count("\n") == 1


def test_a_full_disk_leaves_no_half_picture_and_the_cells(tmp_path: Path, capsys: Output) -> None:
    command = ["reproduce", "sun-table4", "--out", str(tmp_path), "--processes", "1"]
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16_384, before[1]))  # a picture is larger, the cells are not
    try:
        assert run(command) == 2
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    said = capsys.readouterr().err
    assert "cannot be written" in said and "finished cells are kept" in said and "Traceback" not in said
    left = {path.name for path in (tmp_path / "quick").iterdir()}
    assert left == {"cells.jsonl", "sun-table4.csv", "sun-table4.json"}
    cells = (tmp_path / "quick" / "cells.jsonl").read_bytes()
    assert run(command) == 0 and (tmp_path / "quick" / "cells.jsonl").read_bytes() == cells


def test_a_wrong_data_file_says_which_columns_were_expected(tmp_path: Path, capsys: Output) -> None:
    (tmp_path / "emoji_sentiment.csv").write_text("person,emoji,mood\n1,a,1\n")
    arguments = ["wang-fig8", "--data", str(tmp_path), "--out", str(tmp_path), "--processes", "1"]
    assert run(["reproduce", *arguments]) == 2
    said = capsys.readouterr().err
    assert "user" in said and "person" in said and said.count("\n") == 1


def test_a_full_run_can_be_priced_interrupted_and_taken_up_again(
    tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = ["--full", "--out", str(tmp_path), "--processes", "1"]
    costs = reproduced(capsys, *QUICK, *full, "--cost")["costs"]
    assert [one["id"] for one in costs] == QUICK and costs[1]["cells"] == 4
    assert all(0 <= one["least"] <= one["seconds"] <= one["most"] for one in costs)
    assert not (tmp_path / "full").exists()  # a price leaves nothing behind
    calls = 0

    def stopped(*arguments: Any) -> dict[str, Any]:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt
        return measure(*arguments)

    monkeypatch.setattr(runner, "measure", stopped)
    assert run(["reproduce", "sun-table4", *full]) == 130
    assert "2 of 4 cells were finished and are kept" in capsys.readouterr().err
    cells = (tmp_path / "full" / "cells.jsonl").read_text().splitlines()
    document = reproduced(capsys, "sun-table4", *full)
    assert document["size"] == "full" and calls == 5
    spent = sum(json.loads(line)["seconds"] for line in (tmp_path / "full" / "cells.jsonl").read_text().splitlines())
    assert document["figures"][0]["seconds"] == pytest.approx(spent, abs=0.01)  # also of the cells from before
    assert len(cells) == 2
    assert reproduced(capsys, "sun-table4", *full, "--cost")["costs"][0]["cells"] == 0


def test_an_interruption_says_what_is_kept(tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    def stopped(*arguments: Any) -> dict[str, Any]:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt
        return measure(*arguments)

    monkeypatch.setattr(runner, "measure", stopped)
    command = ["reproduce", "sun-table4", "--out", str(tmp_path), "--processes", "1"]
    assert run(command) == 130
    said = capsys.readouterr().err
    assert "2 of 4 cells were finished and are kept" in said and "Traceback" not in said
    assert run(command) == 0
    assert calls == 5  # the third and fourth cell
