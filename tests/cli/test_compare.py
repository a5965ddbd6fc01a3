from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from keyveil.cli.app import run

Output = pytest.CaptureFixture[str]
SMALL = ["synthetic:linear-s:1000", "--mechanisms", "kvue,pckv-ue,grr"]


def compared(output: Output, *arguments: str) -> dict[str, Any]:
    assert run(["compare", *arguments, "--json"]) == 0
    document: dict[str, Any] = json.loads(output.readouterr().out)
    return document


def test_json_has_every_mechanism_and_the_reasons_of_the_others(capsys: Output) -> None:
    document = compared(capsys, *SMALL, "--epsilon", "0.5,1,2", "--repeats", "2")
    assert document["epsilons"] == [0.5, 1, 2]
    assert len(document["mechanisms"]) == 6
    assert set(document["not_applicable"]) == {"grr"}
    assert set(document["baselines"]) == {"truth", "average"}


def test_the_table_marks_the_best_of_each_column(capsys: Output) -> None:
    assert run(["compare", *SMALL, "--epsilon", "1"]) == 0
    shown, said = capsys.readouterr()
    assert shown.count("*") == 3  # one for frequencies, one for means, one in the caption
    assert "everyone's average" in shown and "grr: " in shown
    assert "1,000 people" in said


def test_several_sets_make_several_comparisons(capsys: Output) -> None:
    document = compared(capsys, *SMALL, "synthetic:grid:200", "--epsilon", "1")
    assert [one["data"] for one in document["comparisons"]] == ["linear-s", "grid"]


def test_a_page_and_a_picture_are_written(tmp_path: Path, capsys: Output) -> None:
    page, picture = tmp_path / "comparison.md", tmp_path / "errors.png"
    assert run(["compare", *SMALL, "--epsilon", "1,2", "--page", str(page), "--plot", str(picture)]) == 0
    assert capsys.readouterr().out == ""
    assert "| linear-s | 1 |" in page.read_text() and "**" in page.read_text()
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "arguments",
    [
        ["nowhere.parquet", "--epsilon", "1"],
        ["synthetic:nobody", "--epsilon", "1"],
        ["synthetic:linear-s:100", "--epsilon", "1,x"],
        ["synthetic:linear-s:100", "--epsilon", ","],
        ["synthetic:linear-s:100", "--epsilon", "1;2"],
        ["synthetic:linear-s:100", "--epsilon", "1", "--mechanisms", "kvue,kvu"],
        ["synthetic:linear-s:100", "--epsilon", "1", "--repeats", "0"],
        ["--epsilon", "1"],
    ],
    ids=" ".join,
)
def test_bad_input_ends_with_one_line_and_status_two(arguments: list[str], capsys: Output) -> None:
    assert run(["compare", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("keyveil: ") and err.count("\n") == 1
