from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

import keyveil as kv
from keyveil.cli.app import run as command
from keyveil.core.errors import ProtocolError
from keyveil.lab import datasets
from keyveil.lab.rounds import Run, run
from keyveil.lab.rounds_chart import over_rounds
from keyveil.lab.simulate import simulate
from keyveil.protocols.base import Part, Protocol, Round
from keyveil.protocols.privkvm import PrivKVM
from keyveil.protocols.registry import names

PEOPLE = datasets.independent(3000, [0.4, 0.6], [0.3, -0.5], 1)
SCHEMA = kv.Schema(keys=2)
FAMILY = [name for name in names() if name.startswith("privkvm")]


@pytest.mark.parametrize("name", FAMILY)
def test_protocols_run_by_name_like_mechanisms(name: str) -> None:
    result = simulate(name, PEOPLE, SCHEMA, 2, seed=3)
    assert isinstance(result, Run)
    assert result.mechanism.name == name and result.estimates.mechanism == name
    assert result.spent <= 2 and result.truth.n == 3000
    document = result.document()
    assert [one["round"] for one in document["rounds"]] == list(range(1, len(result.history) + 1))
    assert document["exact_epsilon"] == document["rounds"][-1]["spent"] <= 2
    assert json.dumps(document)


def test_a_seed_fixes_all_but_the_seconds() -> None:
    one, same, other = (simulate("privkvm", PEOPLE, SCHEMA, 2, seed=seed, rounds=2).document() for seed in (3, 3, 4))
    for document in (one, same, other):
        document.pop("seconds")
    assert one == same != other


def test_runs_are_averaged_and_differ() -> None:
    single = [simulate("privkvm", PEOPLE, SCHEMA, 2, seed=3, rounds=2).metrics["mse_frequency"]]
    several = simulate("privkvm", PEOPLE, SCHEMA, 2, seed=3, rounds=2, repeats=3)
    assert several.repeats == 3 and several.metrics["mse_frequency"] != single[0]
    with pytest.raises(kv.KeyveilError):
        simulate("privkvm", PEOPLE, SCHEMA, 2, repeats=0)


def test_progress_is_told_round_by_round() -> None:
    heard: list[tuple[int, int]] = []
    protocol = PrivKVM(SCHEMA, Fraction(2), rounds=3)
    run(protocol, PEOPLE, seed=1, progress=lambda asked, people: heard.append((asked.number, people)))
    assert heard == [(1, 3000), (2, 3000), (3, 3000)]


def test_a_protocol_that_never_stops_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    free = Round(1, kv.mechanism("kvue", SCHEMA, 1), Part(), Fraction(0))

    class Endless(PrivKVM):
        def plan(self, finished: object) -> Round:
            return Round(len(finished) + 1, free.mechanism, cost=free.cost)  # type: ignore[arg-type]

    monkeypatch.setattr("keyveil.lab.rounds.MOST_ROUNDS", 5)
    endless: Protocol = Endless(SCHEMA, Fraction(1))
    with pytest.raises(ProtocolError) as refused:
        run(endless, datasets.independent(10, [0.4, 0.6], [0.3, -0.5], 1), seed=1)
    assert refused.value.code == "protocol/endless"


def test_errors_and_cost_are_drawn_over_rounds(tmp_path: Path) -> None:
    result = run(PrivKVM(SCHEMA, Fraction(2), rounds=3), PEOPLE, seed=1)
    figure = over_rounds(result)
    error, cost = figure.axes
    assert [len(line.get_xdata()) for line in error.lines] == [3, 3]  # type: ignore[arg-type]
    assert cost.lines[0].get_ydata()[-1] == pytest.approx(float(result.spent))  # type: ignore[index]
    figure.savefig(tmp_path / "rounds.png")


def test_the_command_line_knows_protocols(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["simulate", "synthetic:linear-s:500", "--mechanism", "privkvm", "--epsilon", "1", "--seed", "1"]
    assert command([*asked, "--set", "rounds=2", "--json"]) == 0
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert len(document["rounds"]) == 2 and document["options"]["rounds"] == 2
    assert err.count("Round 1:") == err.count("Round 2:") == 1
    picture = tmp_path / "picture.png"
    assert command([*asked, "--set", "rounds=2", "--plot", str(picture)]) == 0
    assert "2 rounds; nobody spent more than" in " ".join(capsys.readouterr().out.split())
    assert picture.exists() and (tmp_path / "picture-rounds.png").exists()
    for wrong in (["--set", "rounds=none"], ["--set", "iterations=2"], ["--tally", str(tmp_path / "t")]):
        assert command([*asked, *wrong]) == 2
        assert capsys.readouterr().err.startswith("keyveil: ")
