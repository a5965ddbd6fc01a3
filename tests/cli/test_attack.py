from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from keyveil.cli.app import run
from keyveil.core.records import Records
from keyveil.core.schema import Schema
from keyveil.lab import datasets
from keyveil.mechanisms.registry import create
from keyveil.planning.robust import shift_by

Output = pytest.CaptureFixture[str]
DATA = "synthetic:survey:800"


def test_attacks_are_simulated_beside_the_bound(tmp_path: Path, capsys: Output) -> None:
    picture = tmp_path / "gains.png"
    arguments = [
        "attack",
        "synthetic:survey:300",
        "--mechanism",
        "kvue",
        "--epsilon",
        "2",
        "--share",
        "0.02",
        "--target",
        "1",
    ]
    assert run([*arguments, "--plot", str(picture), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["target"] == "1" and found["mechanism"] == "kvue" and picture.stat().st_size > 1000
    assert {one["attack"] for one in found["gains"]} >= {"maximal", "hidden", "random pairs", "random messages"}
    for one in found["gains"]:
        assert one["bound_kind"] == "bound" and one["gain"] <= one["bound"] + 1e-9
    assert run(["attack", "synthetic:survey:60", *arguments[2:]]) == 0
    assert "kind of bound" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        (["--share", "1.5"], "attack/share"),
        (["--share", "much"], "attack/share"),
        (["--target", "nobody"], "schema/unknown-key"),
        (["--round", "2"], "attack/round"),
        (["--mechanism", "kvu"], "mechanism/unknown"),
    ],
)
def test_bad_input_is_one_sentence(changed: list[str], code: str, capsys: Output) -> None:
    assert run(["attack", "synthetic:survey:60", "--mechanism", "kvue", "--epsilon", "1", *changed]) == 2
    told = capsys.readouterr().err
    assert told.splitlines()[-1].endswith(f"[{code}]") and "Traceback" not in told


def test_simulations_and_estimates_say_what_attackers_could_have_done(tmp_path: Path, capsys: Output) -> None:
    tally, page, picture = (tmp_path / name for name in ("a.kvt", "a.html", "a.svg"))
    simulated = ["simulate", DATA, "--mechanism", "kvue", "--epsilon", "2", "--seed", "1", "--attackers", "8"]
    assert run([*simulated, "--tally", str(tally), "--plot", str(picture), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["attacked"]["attackers"] == 8 and told["attacked"]["frequency_kind"] == "bound"
    assert "what attackers could have done" in picture.read_text()
    assert run(["estimate", str(tally), "--attackers", "8", "--report", str(page), "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["attacked"]["frequency_high"] == told["attacked"]["frequency_high"]
    assert 'fill-opacity=".15"' in page.read_text() and "8 crafted reports" in page.read_text()
    assert run(["estimate", str(tally), "--attackers", "8"]) == 0
    assert "frequency with 8 attackers" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--mechanism", "privkvm", "--attackers", "61"], "attack/attackers"),
        (["--mechanism", "privkvm", "--detect"], "simulate/rounds"),
        (["--mechanism", "privkvm", "--recover", "constrained"], "simulate/rounds"),
        (["--mechanism", "kvue", "--recover", "magic"], "recover/unknown"),
        (["--mechanism", "kvue", "--recover", "removal"], "detect/no-sketch"),
        (["--mechanism", "pckv-ue", "--max-pairs", "3", "--recover", "removal"], "recover/no-sketch"),
        (["--mechanism", "kvue", "--attackers", "5000"], "attack/attackers"),
        (
            ["--mechanism", "pckv-ue", "--set", "estimator=published", "--max-pairs", "3", "--attackers", "5"],
            "attack/no-bound",
        ),
    ],
)
def test_what_has_no_bound_is_one_sentence(arguments: list[str], code: str, capsys: Output) -> None:
    assert run(["simulate", "synthetic:survey:60", "--epsilon", "2", "--seed", "1", *arguments]) == 2
    assert capsys.readouterr().err.splitlines()[-1].endswith(f"[{code}]")


def test_limits_after_postprocessing_are_proved_or_named_otherwise(tmp_path: Path, capsys: Output) -> None:
    tally = tmp_path / "a.kvt"
    assert run(["simulate", DATA, "--mechanism", "kvue", "--epsilon", "2", "--seed", "1", "--tally", str(tally)]) == 0
    capsys.readouterr()
    assert run(["estimate", str(tally), "--attackers", "8", "--postprocess", "norm-sub", "--json"]) == 0
    proved = json.loads(capsys.readouterr().out)
    assert proved["attacked"]["frequency_kind"] == "bound" and proved["postprocess"]["method"] == "norm-sub"
    for row in proved["estimates"]:
        assert row["frequency_attacked_low"] <= row["frequency"] <= row["frequency_attacked_high"]
    assert run(["estimate", str(tally), "--attackers", "8", "--postprocess", "gauss", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["attacked"]["frequency_kind"] == "largest found"


def test_several_rounds_have_the_largest_change_that_was_found(capsys: Output) -> None:
    asked = ["simulate", "synthetic:survey:600", "--mechanism", "privkvm", "--set", "rounds=2", "--epsilon", "2"]
    assert run([*asked, "--seed", "1", "--attackers", "12", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["attacked"]["frequency_kind"] == found["attacked"]["mean_kind"] == "largest found"
    assert any(row["frequency_attacked_high"] > row["frequency"] + 0.01 for row in found["estimates"])


def test_recovery_is_labelled_and_detection_is_said(tmp_path: Path, capsys: Output) -> None:
    asked = ["simulate", DATA, "--mechanism", "kvue", "--epsilon", "2", "--seed", "1", "--detect"]
    assert run([*asked, "--recover", "constrained", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["postprocess"]["method"] == "recovery by constrained" and found["suspicion"]["alarm"] is False
    assert any("Recovered by constrained inference" in note for note in found["notes"])
    assert run([*asked[:-1], "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert "postprocess" not in plain and "suspicion" not in plain, "never the default"


def test_conditionals_and_quantiles_have_proved_limits_or_the_largest_change_that_was_found(
    tmp_path: Path, capsys: Output
) -> None:
    moments, cells = tmp_path / "m.kvt", tmp_path / "c.kvt"
    made = ["simulate", "synthetic:survey:2000", "--epsilon", "4", "--seed", "1"]
    assert run([*made, "--mechanism", "moments", "--tally", str(moments)]) == 0
    assert run([*made, "--mechanism", "kvue", "--set", "bins=5", "--tally", str(cells)]) == 0
    capsys.readouterr()
    assert run(["estimate", str(moments), "--given", "1|2", "--attackers", "40", "--json"]) == 0
    frequency = json.loads(capsys.readouterr().out)["given"][0]["frequency"]
    assert frequency["attacked"]["low"] < frequency["value"] < frequency["attacked"]["high"]
    assert frequency["attacked"]["kind"] == "bound"
    question = ["estimate", str(cells), "--quantiles", "0.5", "--keys", "1", "--attackers", "40"]
    assert run([*question, "--json"]) == 0
    median = json.loads(capsys.readouterr().out)["quantiles"][0]["value"]
    assert median["attacked"]["low"] <= median["value"] <= median["attacked"]["high"]
    assert median["attacked"]["kind"] == "bound"
    assert run([*made, "--mechanism", "kv-sw", "--tally", str(cells)]) == 0
    capsys.readouterr()
    assert run(question) == 0
    assert "largest found" in capsys.readouterr().out


def test_what_a_search_did_not_look_at_is_unknown_and_no_error(tmp_path: Path, capsys: Output) -> None:
    """The search is about the 20 most frequent keys; a question may be about others."""
    tally = tmp_path / "a.kvt"
    data = ["synthetic:plaw:400", "--mechanism", "kvue", "--epsilon", "4"]
    assert run(["simulate", *data, "--seed", "1", "--tally", str(tally)]) == 0
    capsys.readouterr()
    asked = ["--postprocess", "norm-cut", "--attackers", "4", "--subset", "98,99"]
    assert run(["estimate", str(tally), *asked, "--json"]) == 0
    attacked = json.loads(capsys.readouterr().out)["sums"][0]["sum"]["attacked"]
    assert attacked["low"] is None and attacked["kind"] == "largest found"
    assert run(["estimate", str(tally), *asked]) == 0
    assert "largest found … to …" in " ".join(capsys.readouterr().out.split())


def test_where_there_is_no_bound_it_is_said(capsys: Output) -> None:
    asked = ["--mechanism", "privkv", "--set", "estimator=published", "--epsilon", "2", "--share", "0.05"]
    assert run(["attack", "synthetic:survey:80", *asked]) == 0
    assert "There is no bound" in " ".join(capsys.readouterr().out.split())


def test_ranks_sums_and_differences_have_proved_limits(tmp_path: Path, capsys: Output) -> None:
    tally = tmp_path / "a.kvt"
    assert run(["simulate", DATA, "--mechanism", "kvue", "--epsilon", "2", "--seed", "1", "--tally", str(tally)]) == 0
    capsys.readouterr()
    asked = ["--rank", "3", "--subset", "1,2", "--compare", "1,2", "--attackers", "8", "--json"]
    assert run(["estimate", str(tally), *asked]) == 0
    found = json.loads(capsys.readouterr().out)
    for row in found["ranking"]:
        assert row["attacked"]["best"] <= row["rank"] <= row["attacked"]["worst"]
        assert row["attacked"]["low"] < row["value"] < row["attacked"]["high"]
    for numbers in (found["sums"][0]["sum"], found["comparisons"][0]["difference"]):
        assert numbers["attacked"]["kind"] == "bound"
        assert numbers["attacked"]["low"] < numbers["value"] < numbers["attacked"]["high"]


def test_plans_say_how_far_attackers_move_frequencies(capsys: Output) -> None:
    asked = ["plan", "--users", "20000", "--keys", "10", "--pairs", "2", "--epsilon", "1"]
    asked += ["--mechanisms", "kvue,wsr,apart,topsel"]
    assert run([*asked, "--attackers", "200", "--json"]) == 0
    robust = json.loads(capsys.readouterr().out)["robustness"]
    rows = robust["over_epsilon"]
    for name, shift in robust["shifts"].items():
        own = {row["epsilon"]: row["shift"] for row in rows if row["name"] == name}
        assert len(own) == 4 and own["1"] == pytest.approx(shift, rel=0.1), "what people are asked stays at another ε"
    by_epsilon = [row["shift"] for row in rows if row["name"] == "kvue"]
    assert by_epsilon == sorted(by_epsilon, reverse=True)
    without, crowd = create("wsr", Schema(keys=10), 1, max_pairs=2, overflow="off"), crowd_of_ten()
    assert shift_by(without, 0.01, crowd) < robust["shifts"]["kvue"] < robust["shifts"]["wsr"], "the group is a lever"
    asked[-1] = "kvue"
    assert run([*asked, "--attackers", "200"]) == 0
    assert "moved by attackers" in " ".join(capsys.readouterr().out.split())
    assert run([*asked, "--attackers", "20001"]) == 2
    assert capsys.readouterr().err.splitlines()[-1].endswith("[attack/attackers]")


def crowd_of_ten() -> Records:
    """People who hold two of ten keys on average."""
    return datasets.independent(4000, np.full(10, 0.2), np.zeros(10), 1).records(Schema(keys=10))
