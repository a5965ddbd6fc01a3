from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from keyveil.cli.app import run
from tests.commands import shown_command

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


def test_files_may_have_levels(tmp_path: Path, capsys: Output) -> None:
    data = tmp_path / "ratings.csv"
    data.write_text("user,key,value\n" + "".join(f"{user},fries,5\n" for user in range(200)))
    arguments = [str(data), "--mechanisms", "kvue,kv-sw", "--epsilon", "4"]
    document = compared(capsys, *arguments, "--levels", "1,2,3,4,5")
    assert document["data"] == "ratings" and document != compared(capsys, *arguments)
    for wrong in ("1,3,2", "6,7", "1"):
        assert run(["compare", *arguments, "--levels", wrong, "--low", "1", "--high", "5"]) == 2
        assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_decoders_have_tables_of_their_own(capsys: Output) -> None:
    arguments = ["synthetic:linear-s:300", "--mechanisms", "kvue,pckv-ue", "--epsilon", "1", "--caps", "best"]
    document = compared(capsys, *arguments, "--decoders", "raw,bayes")
    assert [entry["decoder"] for entry in document["mechanisms"]] == ["raw", "bayes"] * 4
    assert run(["compare", *arguments, "--decoders", "raw,norm-sub"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "over keys as estimated" in shown and "over keys with Norm-Sub" in shown


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
        [
            *[
                "the ratings/of 2024.csv",
                "--user",
                "who",
                "--key",
                "what",
                "--value",
                "stars",
                "--low",
                "0",
                "--high",
                "6",
            ],
            *[
                "--mechanisms",
                "kvue,pckv-ue:split=paper,topsel:sizes=1:0.5,2:0.5,privkvm:rounds=2",
                "--epsilon",
                "0.5,2",
            ],
            *["--max-pairs", "1", "--set", "estimator=published", "--repeats", "2", "--seed", "5", "--reports"],
        ],
        [
            "synthetic:linear-s:200",
            "synthetic:grid:100",
            "--mechanisms",
            "ssr,split:groups=ssr:1,kvue:1",
            "--epsilon",
            "1",
            *["--decoders", "raw,norm-sub", "--caps", "best"],
        ],
    ],
    ids=["file", "synthetic"],
)
def test_the_command_on_a_page_writes_that_page(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("the ratings").mkdir()
    rows = [f"u{i},fries,{1 + i % 5}" for i in range(200)] + [f"u{i},pepsi,5" for i in range(0, 200, 3)]
    Path("the ratings", "of 2024.csv").write_text("\n".join(["who,what,stars", *rows]) + "\n")
    assert run(["compare", *arguments, "--page", "pages/mine.md"]) == 0
    first = Path("pages", "mine.md").read_text()
    words = shown_command(first)
    assert words[:2] == ["keyveil", "compare"] and set(arguments) <= set(words)
    assert ("was given" in first) == ("--max-pairs" in arguments)
    Path("pages", "mine.md").unlink()
    assert run(words[1:]) == 0
    assert Path("pages", "mine.md").read_text() == first
    assert capsys.readouterr().out == ""


def test_protocols_take_part(capsys: Output) -> None:
    document = compared(capsys, "synthetic:linear-s:300", "--mechanisms", "kvue,privkvm,pilot", "--epsilon", "1")
    assert [entry["mechanism"] for entry in document["mechanisms"]] == ["kvue", "privkvm", "pilot"]
    assert all(0.999 < entry["exact_epsilon"] <= 1 for entry in document["mechanisms"])


@pytest.mark.parametrize("name", ["name", "schema", "epsilon", "repeats", "cap"])
def test_an_option_that_nobody_has_is_a_mistake(name: str, capsys: Output) -> None:
    assert run(["compare", *SMALL, "--epsilon", "1", "--set", f"{name}=3"]) == 2
    assert f"has the option {name!r}" in capsys.readouterr().err


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
        ["synthetic:linear-s:100", "--epsilon", "1", "--decoders", "raw,bays"],
        ["synthetic:linear-s:100", "--epsilon", "1", "--decoders", ","],
        ["synthetic:linear-s:100", "--epsilon", "1", "--caps", "good"],
        ["synthetic:linear-s:100", "--epsilon", "1", "--mechanisms", "ssr:max_pairs=best"],
        ["--epsilon", "1"],
    ],
    ids=" ".join,
)
def test_bad_input_ends_with_one_line_and_status_two(arguments: list[str], capsys: Output) -> None:
    assert run(["compare", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("keyveil: ") and err.count("\n") == 1


def test_the_command_on_the_page_of_the_documentation_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    """With few people, one run and one mechanism: its data, options and spelling as they stand."""
    written = (Path(__file__).parents[2] / "docs" / "comparison.md").read_text(encoding="utf-8")
    words = shown_command(written)
    monkeypatch.chdir(tmp_path)
    for name in (word for word in words if word.endswith(".parquet")):
        columns = {"user": ["a", "b", "c"], "key": ["x", "y", "x"], "value": [1.0, 0.5, 1.0]}
        pyarrow.parquet.write_table(pyarrow.table(columns), name)
    monkeypatch.setattr("keyveil.cli.compare.SUITE", ["synthetic:linear-s:50"])
    monkeypatch.setattr("keyveil.cli.compare.usual", lambda: ["kvue"])
    assert run(words[1:]) == 0, capsys.readouterr().err
    assert shown_command(Path("docs", "comparison.md").read_text(encoding="utf-8")) == words
