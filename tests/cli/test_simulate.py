from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from keyveil.cli.app import run

Output = pytest.CaptureFixture[str]
FIELDS = {"mechanism", "epsilon", "users", "keys", "seconds", "bits_per_report", "metrics", "estimates"}


@pytest.fixture
def ratings(tmp_path: Path) -> Path:
    """A file with columns of its own names; everybody rates fries, some pepsi."""
    path = tmp_path / "ratings.csv"
    rows = [f"u{i},fries,{1 + i % 5}" for i in range(600)] + [f"u{i},pepsi,5" for i in range(0, 600, 3)]
    path.write_text("\n".join(["who,what,stars", *rows]) + "\n")
    return path


COLUMNS = ("--user", "who", "--key", "what", "--value", "stars")


def simulated(output: Output, *arguments: str) -> dict[str, Any]:
    assert run(["simulate", *arguments, "--json"]) == 0
    document: dict[str, Any] = json.loads(output.readouterr().out)
    return document


def test_a_file_becomes_estimates(ratings: Path, capsys: Output) -> None:
    document = simulated(capsys, str(ratings), *COLUMNS, "--mechanism", "kvue", "--epsilon", "2", "--seed", "1")
    assert set(document) >= FIELDS
    assert (document["users"], document["keys"], document["mechanism"]) == (600, 2, "kvue")
    rows = {row["key"]: row for row in document["estimates"]}
    assert rows["fries"]["true_frequency"] == 1 and rows["fries"]["true_mean"] == pytest.approx(3)
    assert rows["pepsi"]["true_mean"] == 5


def test_what_was_not_given_is_said(ratings: Path, capsys: Output) -> None:
    assert run(["simulate", str(ratings), *COLUMNS, "--mechanism", "pckv-ue", "--epsilon", "2"]) == 0
    shown, said = capsys.readouterr()
    assert "from 1 to 5" in said and "range is that of the data" in said and "max_pairs is 2" in said
    assert "fries" in shown and "Truth against estimates" in shown


def test_keys_are_shown_as_they_are_spelled(tmp_path: Path, capsys: Output) -> None:
    """Brackets are no orders to whoever prints the table."""
    path = tmp_path / "keys.csv"
    path.write_text("user,key,value\n" + "".join(f"{i},[bold]fries[/],{i % 5}\n" for i in range(50)))
    assert run(["simulate", str(path), "--mechanism", "kvue", "--epsilon", "2"]) == 0
    assert "[bold]fries[/]" in capsys.readouterr().out


def test_given_bounds_hold(ratings: Path, capsys: Output) -> None:
    arguments = ["--mechanism", "kvue", "--epsilon", "2", "--low", "0", "--high", "4", "--seed", "1"]
    document = simulated(capsys, str(ratings), *COLUMNS, *arguments)
    rows = {row["key"]: row for row in document["estimates"]}
    assert rows["pepsi"]["true_mean"] == 4


def test_a_seed_fixes_all_but_the_seconds(capsys: Output) -> None:
    arguments = ("synthetic:linear-s:2000", "--mechanism", "kvue", "--epsilon", "1", "--seed", "4", "--repeats", "2")
    one, same = (simulated(capsys, *arguments) for _ in range(2))
    other = simulated(capsys, *arguments, "--threads", "2")
    for document in (one, same, other):
        assert document.pop("seconds") > 0
    assert one == same == other


def test_options_reach_the_recipe(capsys: Output) -> None:
    arguments = ("--mechanism", "kvue", "--epsilon", "1", "--seed", "1")
    document = simulated(capsys, "synthetic:linear-s:300:size=2,keys=6", *arguments)
    assert document["keys"] == 6
    assert sum(row["true_frequency"] for row in document["estimates"]) == pytest.approx(2)


@pytest.mark.parametrize("spelling", ["sizes", "set_sizes", "set-sizes"])
def test_a_law_of_set_sizes_is_taken_in_every_spelling(spelling: str, capsys: Output) -> None:
    arguments = ("synthetic:linear-s:500", "--mechanism", "topsel", "--epsilon", "1", "--seed", "1")
    document = simulated(capsys, *arguments, "--set", f"{spelling}=3:0.5,5:0.5")
    assert document["options"]["set_sizes"] == "3:0.5,5:0.5" and not document["notes"]
    assert simulated(capsys, *arguments)["options"]["set_sizes"] == "5"  # that of the data, and said
    both = ["simulate", *arguments, "--set", "sizes=3", "--set", f"{spelling}=5"]
    assert run(both) == 2  # given twice, in whatever spelling


@pytest.mark.parametrize("name", ["name", "schema", "epsilon", "seed"])
def test_options_of_the_command_are_no_options_of_the_mechanism(name: str, capsys: Output) -> None:
    arguments = ["synthetic:linear-s:100", "--mechanism", "kvue", "--epsilon", "1", "--set", f"{name}=3"]
    assert run(["simulate", *arguments]) == 2
    assert f"kvue has no option {name!r}" in capsys.readouterr().err


def test_options_reach_the_mechanism(capsys: Output) -> None:
    document = simulated(
        capsys, "synthetic:linear-s:500", "--mechanism", "kvue", "--epsilon", "1", "--set", "bins=4", "--seed", "1"
    )
    assert document["options"]["bins"] == 4 and document["metrics"]["mse_mean"] is not None
    arguments = "--mechanism", "kvue", "--epsilon", "1", "--set", "bins=4", "--set", "rounding=cell", "--seed", "1"
    document = simulated(capsys, "synthetic:linear-s:500", *arguments)
    assert document["metrics"]["mse_mean"] is None and document["estimates"][0]["mean"] is None


def test_the_picture_is_written(tmp_path: Path, capsys: Output) -> None:
    picture = tmp_path / "new" / "intervals.png"
    arguments = [
        "synthetic:linear-s:500",
        "--mechanism",
        "kvue",
        "--epsilon",
        "1",
        "--plot",
        str(picture),
        "--top",
        "5",
    ]
    assert run(["simulate", *arguments]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr().out.count("│") > 5


@pytest.mark.parametrize(
    "arguments",
    [
        ["nowhere.csv"],
        ["nowhere.xlsx"],
        ["{file}"],  # its columns are called otherwise
        ["{file}", *COLUMNS, "--low", "5", "--high", "1"],
        ["{file}", *COLUMNS, "--low", "few"],
        ["{empty}"],
        ["synthetic:nobody"],
        ["synthetic:"],
        ["synthetic:gauss:many"],
        ["synthetic:gauss:0"],
        ["synthetic:linear-s:100:size=many"],
        ["synthetic:linear-s:100:sizes=2"],
        ["synthetic:linear-s:100:size=nan"],
        ["synthetic:gauss:100", "--low", "0"],
        ["synthetic:linear-s:100", "--set", "nonsense"],
        ["synthetic:linear-s:100", "--set", "size=3"],
        ["synthetic:linear-s:100", "--max-pairs", "3"],
        ["synthetic:linear-s:100", "--epsilon", "x"],
        ["synthetic:linear-s:100", "--epsilon", "0"],
        ["synthetic:linear-s:100", "--mechanism", "kvu"],
        ["synthetic:linear-s:100", "--mechanism", "grr"],  # five keys each are too many for it
        ["synthetic:linear-s:100", "--repeats", "0"],
        ["synthetic:linear-s:100", "--seed", "-1"],
        [],
    ],
    ids=" ".join,
)
def test_bad_input_ends_with_one_line_and_status_two(arguments: list[str], ratings: Path, capsys: Output) -> None:
    empty = ratings.with_name("empty.csv")
    empty.write_text("user,key,value\n")
    given = [one.format(file=ratings, empty=empty) for one in arguments]
    for option, usual in (("--mechanism", "kvue"), ("--epsilon", "1")):
        given += [] if option in given else [option, usual]
    assert run(["simulate", *given]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("keyveil: ") and err.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "said"), [("a.xyz", ".png, .svg or .pdf"), ("plain", ".png, .svg or .pdf"), ("a.png", "output/file")]
)
def test_an_impossible_picture_is_one_line_too(name: str, said: str, tmp_path: Path, capsys: Output) -> None:
    (tmp_path / "a.png").mkdir()
    arguments = ["synthetic:linear-s:100", "--mechanism", "kvue", "--epsilon", "1", "--plot", str(tmp_path / name)]
    assert run(["simulate", *arguments]) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("keyveil: ") and said in last


def test_levels_on_the_command_line(tmp_path: Path, capsys: Output) -> None:
    data = tmp_path / "ratings.csv"
    data.write_text("user,key,value\n" + "".join(f"{user},fries,5\n" for user in range(400)))
    arguments = (str(data), "--mechanism", "kvue", "--epsilon", "4", "--seed", "1")
    document = simulated(capsys, *arguments, "--levels", "1,2,3,4,5")
    (row,) = document["estimates"]
    assert document["options"] == {"bins": 5, "rounding": "grid"} and row["mean_low"] <= 5 <= row["mean_high"]
    for wrong in ("1,3,2", "1,,2", "1"):
        assert run(["simulate", *arguments, "--levels", wrong]) == 2
        assert len(capsys.readouterr().err.strip().splitlines()) == 1
