"""The formulas of the papers on the command line, and hierarchies and coordinates of files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import keyveil as kv
from keyveil.cli.app import run

Output = pytest.CaptureFixture[str]


def told(output: Output, *arguments: str) -> dict[str, object]:
    assert run([*arguments, "--json"]) == 0
    found: dict[str, object] = json.loads(output.readouterr().out)
    return found


def test_budgets_of_key_and_value_are_composed(capsys: Output) -> None:
    found = told(capsys, "compose", "--key", "0.5", "--value", "0.5", "--max-pairs", "3")
    totals = {row["mechanism"]: row["total"] for row in found["mechanisms"]}  # type: ignore[attr-defined]
    assert totals == {
        "privkv": kv.composition.sign_total(0.5, 0.5),
        "pckv-ue": kv.composition.sign_total(0.5, 0.5),
        "pckv-grr": kv.composition.sampled_symbol_total(0.5, 0.5, 3),
        "kv-sw": kv.composition.square_wave_total(0.5, 0.5),
    }
    assert run(["compose", "--key", "0.5", "--value", "0.5", "--mechanism", "kv-sw"]) == 0
    assert "0.760395" in capsys.readouterr().out


def test_bounds_are_those_of_the_functions(capsys: Output) -> None:
    found = told(capsys, "bounds", "--users", "1000000", "--keys", "100", "--epsilon", "1")
    within = [row["within"] for row in found["bounds"]]  # type: ignore[attr-defined]
    assert within[0] == kv.tail_bounds.kvue_count_bound(10_000, 1.0, 0.05) / 10_000
    assert within[2] == kv.tail_bounds.privkv_mean_bound(10_000, 0.5, 0.5, 0.5, 100, 0.05)
    assert run(["bounds", "--users", "1000000", "--keys", "100", "--epsilon", "1"]) == 0
    assert "0.0373" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["compose", "--key", "0.5", "--value", "0.5", "--mechanism", "ssr"], "mechanism/budget"),
        (["compose", "--key", "0.5", "--value", "0.5", "--max-pairs", "0"], "privacy/budget"),
        (["compose", "--key", "x", "--value", "0.5"], "epsilon/invalid"),
        (["bounds", "--users", "5", "--keys", "100", "--epsilon", "1"], "plan/bound"),
        (["bounds", "--users", "5", "--keys", "0", "--epsilon", "1"], "plan/bound"),
        (["bounds", "--users", "500", "--epsilon", "1", "--delta", "1"], "plan/bound"),
    ],
)
def test_mistakes_are_one_sentence(arguments: list[str], code: str, capsys: Output) -> None:
    assert run(arguments) == 2
    said = capsys.readouterr().err
    assert said.endswith(f"[{code}]\n") and said.count("\n") == 1


def test_a_file_is_a_hierarchy_where_one_says_so(tmp_path: Path, capsys: Output) -> None:
    path = tmp_path / "shelf.csv"
    path.write_text("user,key,value\n" + "".join(f"{i},food/{'ab'[i % 2]},{i % 11}\n" for i in range(400)))
    usual = ["simulate", str(path), "--mechanism", "hierarchy", "--epsilon", "4", "--seed", "1"]
    rows = told(capsys, *usual, "--hierarchy")["estimates"]
    assert [row["key"] for row in rows] == ["food", "food/a", "food/b"]  # type: ignore[attr-defined]
    assert [row["true_frequency"] for row in rows] == [1, 0.5, 0.5]  # type: ignore[attr-defined]
    assert run([*usual, "--low", "a=0", "--high", "10"]) == 2
    assert "The coordinate 'b' has no bound. [schema/range]" in capsys.readouterr().err


def test_names_are_certified_with_their_views(capsys: Output) -> None:
    found = told(capsys, "certify", "--mechanism", "coordinates", "--epsilon", "1", "--keys", "a/x,a/y,b/x")
    assert found["certified"] and found["sizes"] == {"keys": 3, "views": 2}
