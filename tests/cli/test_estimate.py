from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from keyveil.cli.app import run

Output = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def tally(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tallies") / "snacks.kvt"
    arguments = ["simulate", "synthetic:linear-s:40000", "--mechanism", "moments", "--epsilon", "3", "--seed", "1"]
    assert run([*arguments, "--tally", str(path)]) == 0
    return path


def document(output: Output, *arguments: str) -> dict[str, object]:
    assert run(["estimate", *arguments, "--json"]) == 0
    found: dict[str, object] = json.loads(output.readouterr().out)
    return found


def test_a_tally_becomes_estimates(tally: Path, capsys: Output) -> None:
    found = document(capsys, str(tally))
    assert found["mechanism"] == "moments" and found["n"] == 40000
    assert isinstance(found["estimates"], list) and len(found["estimates"]) == 20


def test_questions_are_answered_beside_them(tally: Path, capsys: Output) -> None:
    found = document(capsys, str(tally), "--given", "19|18", "--given", "19|!18")
    answers = found["given"]
    assert isinstance(answers, list)
    assert [answer["given"] for answer in answers] == [{"18": True}, {"18": False}]
    assert all(answer["frequency"]["low"] <= answer["frequency"]["high"] for answer in answers)


def test_estimates_can_be_made_consistent(tally: Path, capsys: Output) -> None:
    raw = document(capsys, str(tally))["estimates"]
    projected = document(capsys, str(tally), "--postprocess", "base-pos")["estimates"]
    assert isinstance(raw, list) and isinstance(projected, list)
    assert all(after["frequency"] == max(before["frequency"], 0) for before, after in zip(raw, projected, strict=True))


def test_sums_comparisons_and_rankings(tmp_path: Path, capsys: Output) -> None:
    path = str(tmp_path / "kvue.kvt")
    arguments = ["simulate", "synthetic:linear-s:40000", "--mechanism", "kvue", "--epsilon", "3", "--seed", "1"]
    assert run([*arguments, "--tally", path]) == 0
    capsys.readouterr()
    found = document(capsys, path, "--subset", "18,19", "--compare", "19,0", "--rank", "3")
    sums, comparisons, ranking = (found[name] for name in ("sums", "comparisons", "ranking"))
    assert isinstance(sums, list) and isinstance(comparisons, list) and isinstance(ranking, list)
    assert sums[0]["sum"]["low"] < 0.93 < sums[0]["sum"]["high"]
    assert comparisons[0]["p_value"] < 0.001
    assert len(ranking) == 3 and all(one["best"] <= one["rank"] <= one["worst"] for one in ranking)
    assert run(["estimate", path, "--rank", "2", "--subset", "1,2", "--compare", "1,2"]) == 0
    assert "rank" in capsys.readouterr().out
    assert run(["estimate", path, "--compare", "1"]) == 2


def test_pages_and_pictures_are_written(tally: Path, tmp_path: Path, capsys: Output) -> None:
    page, picture = tmp_path / "page.html", tmp_path / "picture.png"
    assert run(["estimate", str(tally), "--report", str(page), "--plot", str(picture)]) == 0
    assert "moments" in capsys.readouterr().out
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "data:image/svg+xml" in page.read_text() and "<script" not in page.read_text()


def test_intervals_follow_the_confidence(tally: Path, capsys: Output) -> None:
    wide, narrow = (document(capsys, str(tally), "--confidence", text)["estimates"] for text in ("0.99", "0.5"))
    assert isinstance(wide, list) and isinstance(narrow, list)
    assert wide[19]["frequency_low"] < narrow[19]["frequency_low"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["missing.kvt"],
        ["."],
        ["--about", "."],
        ["--about", "missing.json"],
        ["--given", "nobody|18"],
        ["--given", "19|18,17"],
        ["--postprocess", "nonsense"],
        ["--confidence", "2"],
        ["--min-reports", "50000"],
        ["--quantiles", "0.5"],
        ["--quantiles", "half"],
    ],
    ids=" ".join,
)
def test_bad_input_ends_with_one_line_and_status_two(arguments: list[str], tally: Path, capsys: Output) -> None:
    named = arguments if not arguments[0].startswith("--") else [str(tally), *arguments]
    assert run(["estimate", *named]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("keyveil: ") and err.count("\n") == 1


def test_damaged_and_foreign_tallies_are_refused(tally: Path, tmp_path: Path, capsys: Output) -> None:
    damaged = tmp_path / "damaged.kvt"
    damaged.write_bytes(tally.read_bytes()[:-10])
    shutil.copy(f"{tally}.json", f"{damaged}.json")
    assert run(["estimate", str(damaged)]) == 2
    assert "tally/malformed" in capsys.readouterr().err
    about = json.loads(Path(f"{tally}.json").read_text())
    foreign = tmp_path / "foreign.json"
    foreign.write_text(json.dumps({**about, "epsilon": "2"}))
    assert run(["estimate", str(tally), "--about", str(foreign)]) == 2
    assert "does not count what" in capsys.readouterr().err
    foreign.write_text(json.dumps({**about, "nonsense": 1}))
    assert run(["estimate", str(tally), "--about", str(foreign)]) == 2
    assert "mechanism/document" in capsys.readouterr().err


def test_keys_one_by_one_cuts_and_choices(tally: Path, capsys: Output) -> None:
    together, alone = (document(capsys, str(tally), *more) for more in ((), ("--per-key",)))
    assert (together["decision"], alone["decision"]) == ("by", "per-key")
    kept = document(capsys, str(tally), "--postprocess", "base-cut", "--keep", "3")["estimates"]
    assert isinstance(kept, list) and sum(row["frequency"] > 0 for row in kept) == 3
    choice = document(capsys, str(tally), "--choose", "--subset", "18,19")["choice"]
    assert isinstance(choice, dict) and choice["best"] in {row["method"] for row in choice["ranking"]}
    assert run(["estimate", str(tally), "--choose", "--raw"]) == 0
    shown = capsys.readouterr().out
    assert "norm-sub" in shown and "160,000" in shown  # the methods, and four times as many people
    for bad in (["--alpha", "1"], ["--postprocess", "base-cut", "--alpha", "-1"], ["--keep", "2"]):
        assert run(["estimate", str(tally), *bad]) == 2
