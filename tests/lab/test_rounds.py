from __future__ import annotations

import json
import threading
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import keyveil as kv
from keyveil.cli.app import run as command
from keyveil.core.errors import ProtocolError
from keyveil.core.estimates import Estimates
from keyveil.core.records import Records
from keyveil.core.tally import Tally
from keyveil.display.rounds import over_rounds
from keyveil.lab import datasets
from keyveil.lab.caps import truncated
from keyveil.lab.simulate import simulate
from keyveil.mechanisms.registry import protocol_names
from keyveil.mechanisms.rounds.privkvm import broadcast
from keyveil.protocols.base import Finished, Part, Protocol, Round
from keyveil.protocols.privkvm import PrivKVM
from keyveil.protocols.privkvm_plus import PrivKVMPlus
from keyveil.protocols.registry import create

PEOPLE = datasets.independent(3000, [0.4, 0.6], [0.3, -0.5], 1)
SCHEMA = kv.Schema(keys=2)
FAMILY = [name for name in protocol_names() if name.startswith("privkvm")]


@pytest.mark.parametrize("name", FAMILY)
def test_protocols_run_by_name_like_mechanisms(name: str) -> None:
    result = simulate(name, PEOPLE, SCHEMA, 2, seed=3)
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
    heard: list[int] = []
    protocol = PrivKVM(SCHEMA, Fraction(2), rounds=3)
    simulate(protocol, PEOPLE, seed=1, progress=heard.append)
    assert heard == [3000, 3000, 3000]


def test_a_round_is_announced_before_anybody_answers_it() -> None:
    heard: list[object] = []
    simulate(
        PrivKVM(SCHEMA, Fraction(2), rounds=2),
        PEOPLE,
        seed=1,
        progress=lambda people: heard.append(f"{people} people"),
        announce=lambda current: heard.append(current.number),
    )
    assert heard == [1, "3000 people", 2, "3000 people"]


@pytest.mark.parametrize("name", ["privkvm", "pilot"])
def test_threads_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small blocks, so that there is something to share; the threads that worked are counted."""
    monkeypatch.setattr("keyveil.lab.rounds.BLOCK", 500)
    workers: set[int] = set()
    those = Records.those

    def noted(records: Records, chosen: NDArray[np.bool_]) -> Records:
        workers.add(threading.get_ident())
        return those(records, chosen)

    monkeypatch.setattr(Records, "those", noted)
    one, several = (simulate(name, PEOPLE, SCHEMA, 2, seed=3, threads=threads).document() for threads in (1, 3))
    for document in (one, several):
        document.pop("seconds")
    assert one == several
    assert name != "pilot" or workers - {threading.get_ident()}
    with pytest.raises(kv.KeyveilError):
        simulate(name, PEOPLE, SCHEMA, 2, threads=0)


def test_of_several_runs_the_first_is_shown_and_that_is_said() -> None:
    single, several = (
        simulate(PrivKVM(SCHEMA, Fraction(2), rounds=2), PEOPLE, seed=3, repeats=repeats) for repeats in (1, 2)
    )
    assert several.document()["rounds"] == single.document()["rounds"]
    assert not single.notes and "first of 2 runs" in " ".join(several.document()["notes"])
    titles = [[ax.get_title(loc="left") for ax in over_rounds(result).axes] for result in (single, several)]
    assert all("runs" not in title for title in titles[0])
    assert all("first of 2 runs" in title for title in titles[1])


# -- caps -----------------------------------------------------------------------------------------------------------

NAMED = kv.Schema(keys=["a", "b", "c", "d"])


OVER = kv.Population.from_records([{"a": 1, "b": 0, "c": -1}] * 360 + [{"a": 1}] * 2000 + [{"d": 0.5}] * 1640)
"""Nine in a hundred hold three pairs, the others one; whoever holds d holds nothing else."""


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("split", {"groups": "ssr:1", "max_pairs": 2, "overflow": "off"}),
        ("split", {"groups": "ssr:1,kvue:1", "max_pairs": 2, "overflow": "off"}),
        ("adaptive", {"max_pairs": 2, "overflow": "off"}),
        ("adaptive", {"max_pairs": 2, "variant": "published"}),
    ],
)
def test_keys_of_people_above_the_cap_are_flagged_as_in_one_round(name: str, options: dict[str, Any]) -> None:
    alone = simulate("ssr", OVER, NAMED, 8, seed=1, max_pairs=2, overflow="off").document()
    document = simulate(name, OVER, NAMED, 8, seed=1, **options).document()
    wanted = {"a", "b", "c"}
    assert {row["key"] for row in alone["estimates"] if row["flag"] == "truncated"} == wanted
    flags = {row["key"]: row["flag"] for row in document["estimates"]}
    assert all(flags[key] in ("truncated", "insufficient") for key in wanted)
    assert flags["a"] == "truncated"
    assert flags["d"] == "ok" or options.get("variant") == "published"  # whose means have a target of their own
    notes = " ".join(document["notes"])
    assert "9.0% of the people hold more pairs than the cap" in notes and "flagged truncated" in notes


def test_a_pilot_of_set_sizes_tells_what_the_cap_hides() -> None:
    """The pilot of sizes has no cap; the round after it has the one that the pilot found, and is judged by it."""
    result = simulate(create("pilot", NAMED, 8, quantile="0.5"), OVER, seed=1)
    first, last = result.rounds
    assert "truncated" not in first.flag
    column = last.frequency  # 9 % hold b and c, and one of their three pairs counts
    assert (column.values[1:3] < 0.06).all() and (column.high[1:3] >= 0.09).all()
    assert first.header.undercount is None
    found = last.header.undercount
    assert found is not None and (found.cap, found.state, result.notes) == (1, "truncated", ())
    assert 0.06 < (found.limit or 0) < 0.12  # 9 % hold three pairs, so that each of their keys lacks 6 %
    assert json.loads(json.dumps(result.document()))["undercount"]["state"] == "truncated"


def test_keys_that_a_round_is_silent_about_are_not_its_fault() -> None:
    class Silent(Finished):
        """Says nothing about its first key."""

        def estimates(self, confidence: float = 0.95, population: bool = False) -> Estimates:
            own, silence = super().estimates(confidence, population), np.array([np.nan, 0, 0, 0])
            frequency, mean = (replace(one, values=one.values + silence) for one in (own.frequency, own.mean))
            return replace(own, frequency=frequency, mean=mean)

    (heard,) = simulate("ssr", OVER, NAMED, 8, seed=1, max_pairs=2, overflow="off").history
    nobody = Tally.empty(heard.round.mechanism.fingerprint, heard.round.mechanism.tally_shape)
    assert truncated(heard, OVER).tolist() == [True, True, True, False]
    assert truncated(Silent(heard.round, heard.tally), OVER).tolist() == [False, True, True, False]
    assert not truncated(Finished(heard.round, nobody), OVER).any()


def test_of_several_groups_the_smallest_cap_counts() -> None:
    options = "ssr.max_pairs=3;pckv-ue.max_pairs=2"
    groups: dict[str, Any] = {"groups": "ssr:1,pckv-ue:1", "max_pairs": 3, "options": options}
    result = simulate("split", OVER, NAMED, 8, seed=1, overflow="off", **groups)
    assert result.estimates.flag[0] == "truncated" and result.estimates.flag[3] != "truncated"


def test_a_cap_that_everybody_keeps_flags_nothing() -> None:
    result = simulate("split", OVER, NAMED, 8, seed=1, groups="ssr:1", max_pairs=3, overflow="off")
    assert "truncated" not in result.estimates.flag and not result.notes


# -- what a round was told, and what it was worth -------------------------------------------------------------------


def test_the_history_says_what_every_round_was_told() -> None:
    result = simulate(PrivKVM(SCHEMA, Fraction(2), rounds=2), PEOPLE, seed=1)
    first, second = json.loads(json.dumps(result.document()["rounds"]))
    announced = broadcast(PrivKVM(SCHEMA, Fraction(2), rounds=2).means(result.history[:1]))
    assert first["options"] == {"key_epsilon": "1", "fake": []}
    assert second["options"] == {"key_epsilon": "0", "fake": list(announced)}
    pilot = simulate(create("pilot", NAMED, 8, quantile="0.5"), OVER, seed=1).document()
    assert pilot["rounds"][1]["options"]["max_pairs"] == 1


def test_the_cost_of_privkvm_plus_is_its_definition() -> None:
    protocol = PrivKVMPlus(SCHEMA, Fraction(4), price=Fraction(1, 50), rounds=4)
    result = simulate(protocol, PEOPLE, seed=3)
    document = result.document()
    truth, costs = PEOPLE.truth(SCHEMA).mean, [one["cost"] for one in document["rounds"]]
    assert len(costs) == 4
    for number, cost in enumerate(costs, start=1):
        means = protocol.means(result.history[:number])
        assert cost == pytest.approx(np.mean(np.abs(truth - means)) + 0.02 * number, abs=1e-12)
    assert document["cheapest_round"] == 1 + costs.index(min(costs)) == 2
    assert document["metrics"]["cost"] == costs[-1]


def test_the_published_estimate_costs_its_absolute_error_and_the_price() -> None:
    protocol = PrivKVMPlus(SCHEMA, Fraction(4), "published", price=Fraction(1, 50), rounds=3)
    result = simulate(protocol, PEOPLE, seed=5)
    error = result.metrics["ae_mean"]
    assert error is not None
    assert result.cost(len(result.history)) == pytest.approx(error + 0.02 * len(result.history))


def test_only_rounds_with_a_price_have_a_cost() -> None:
    document = simulate("adaptive", PEOPLE, SCHEMA, 2, seed=1, max_pairs=2).document()
    assert document["cheapest_round"] is None and document["metrics"]["cost"] is None
    assert {one["cost"] for one in document["rounds"]} == {None}


def test_the_cost_has_a_panel_of_its_own() -> None:
    result = simulate(PrivKVMPlus(SCHEMA, Fraction(4), price=Fraction(1, 50), rounds=4), PEOPLE, seed=3)
    *_, cost = over_rounds(result).axes
    (shown,) = (line for line in cost.lines if str(line.get_label()).startswith("F"))
    assert list(shown.get_ydata()) == [result.cost(number + 1) for number in range(len(result.history))]  # type: ignore[arg-type]
    (ring,) = cost.collections
    assert ring.get_offsets()[0][0] == result.cheapest  # type: ignore[index]


def test_before_there_are_means_they_have_no_error() -> None:
    """MeanEst's first round asks for presence alone."""
    result = simulate("privkvm-meanest", PEOPLE, SCHEMA, 4, seed=1, rounds=2)
    first, *later = result.document()["rounds"]
    assert first["mse_mean"] is None and first["mse_frequency"] > 0
    assert all(one["mse_mean"] > 0 for one in later)
    assert result.metrics["coverage_mean"] is None
    frequencies, means = over_rounds(result).axes[0].lines
    assert (list(frequencies.get_xdata()), list(means.get_xdata())) == ([1, 2, 3], [2, 3])  # type: ignore[arg-type]


def test_a_protocol_that_never_stops_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    free = Round(1, kv.mechanism("kvue", SCHEMA, 1), Part(), Fraction(0))

    class Endless(PrivKVM):
        def plan(self, finished: object) -> Round:
            return Round(len(finished) + 1, free.mechanism, cost=free.cost)  # type: ignore[arg-type]

    monkeypatch.setattr("keyveil.lab.rounds.MOST_ROUNDS", 5)
    endless: Protocol = Endless(SCHEMA, Fraction(1))
    with pytest.raises(ProtocolError) as refused:
        simulate(endless, datasets.independent(10, [0.4, 0.6], [0.3, -0.5], 1), seed=1)
    assert refused.value.code == "protocol/endless"


def test_errors_and_cost_are_drawn_over_rounds(tmp_path: Path) -> None:
    result = simulate(PrivKVM(SCHEMA, Fraction(2), rounds=3), PEOPLE, seed=1)
    figure = over_rounds(result)
    error, spent, _ = figure.axes  # the third is the cost
    assert [len(line.get_xdata()) for line in error.lines] == [3, 3]  # type: ignore[arg-type]
    assert spent.lines[0].get_ydata()[-1] == pytest.approx(float(result.spent))  # type: ignore[index]
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
