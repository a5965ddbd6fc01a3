"""Commands with the name of a protocol where that of a mechanism may stand."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from keyveil.cli.app import run

Output = pytest.CaptureFixture[str]


def told(output: Output, *arguments: str) -> tuple[dict[str, Any], str]:
    assert run([*arguments, "--json"]) == 0
    shown, said = output.readouterr()
    document: dict[str, Any] = json.loads(shown)
    return document, said


def test_all_rounds_are_certified_together(capsys: Output) -> None:
    arguments = ("certify", "--mechanism", "privkvm", "--epsilon", "1", "--keys", "4", "--set", "rounds=3")
    document, _ = told(capsys, *arguments)
    assert document["mechanism"] == "privkvm" and document["certified"]
    assert document["exact_epsilon"] == pytest.approx(0.9132, abs=5e-5)
    assert document["worst"]["report"] == [1, 1, 1] or document["worst"]["report"] == [2, 2, 2]
    assert run(list(arguments)) == 0
    assert "rounds 3" in capsys.readouterr().out


def test_a_bound_that_the_enumeration_does_not_attain_is_not_called_exact(capsys: Output) -> None:
    arguments = ["certify", "--epsilon", "1", "--keys", "3", "--max-pairs", "2", "--mechanism"]
    assert run([*arguments, "adaptive", "--set", "variant=published"]) == 0
    loose = capsys.readouterr().out
    assert "at most" in loose and "xact" not in loose
    assert run([*arguments[:-3], "--mechanism", "privkvm", "--set", "rounds=2"]) == 0
    tight = capsys.readouterr().out
    assert "Exact privacy" in tight and "at most" not in tight


def test_a_cap_that_nobody_gave_is_assumed_and_said(capsys: Output) -> None:
    document, said = told(capsys, "certify", "--mechanism", "adaptive", "--epsilon", "1", "--keys", "4")
    assert document["certified"] and "people with 3 pairs" in said
    document, said = told(
        capsys, "simulate", "synthetic:linear-s:500", "--mechanism", "split", "--epsilon", "2", "--seed", "1"
    )
    assert document["options"]["max_pairs"] == 5 and "max_pairs is 5" in said


def test_a_cap_that_was_given_is_kept(capsys: Output) -> None:
    arguments = ("simulate", "synthetic:linear-s:500", "--mechanism", "split", "--epsilon", "2", "--max-pairs", "4")
    document, said = told(capsys, *arguments, "--seed", "1")
    assert document["options"]["max_pairs"] == 4 and "max_pairs is" not in said


def test_a_round_is_announced_with_what_it_was_told(capsys: Output) -> None:
    """Long vectors are cut on standard error, never in the document."""
    simulate = ("simulate", "synthetic:linear-s:500", "--epsilon", "8", "--seed", "1", "--mechanism")
    document, said = told(capsys, *simulate, "pilot")
    cap = document["rounds"][1]["options"]["max_pairs"]
    assert f"Round 2: ssr (max_pairs {cap}, " in said
    document, said = told(capsys, *simulate, "adaptive")
    weights = document["rounds"][1]["options"]["weights"]
    assert len(weights) == 20
    assert f"weights {', '.join(map(str, weights[:4]))}, … (20 in all)" in said
    document, said = told(capsys, *simulate, "privkvm", "--set", "rounds=2")
    means = ", ".join(f"{place / 65536:.3g}" for place in document["rounds"][1]["options"]["fake"][:4])
    assert f"fake {means}, … (20 in all)" in said
    document, said = told(capsys, *simulate, "topsel-project", "--set", "mode=direct")
    assert document["rounds"][1]["options"]["mode"] == "direct"
    assert said.count("topsel (mode direct") == 1 and "topsel mode direct" in said
    document, said = told(capsys, *simulate, "privkvm-star")
    names = [str(key) for key in document["rounds"][1]["options"]["keys"][:4]]
    assert f"keys {', '.join(names)}" in said


def test_a_bar_and_what_is_said_share_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    """On a terminal every announcement begins on a line that was cleared of the bar."""
    monkeypatch.setenv("TERM", "xterm-256color")
    reading, writing = os.openpty()
    heard: list[bytes] = []

    def listen() -> None:
        with suppress(OSError):  # which is how the other end hangs up
            while part := os.read(reading, 1 << 16):
                heard.append(part)

    ear = threading.Thread(target=listen)
    ear.start()
    with open(writing, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        asked = ["simulate", "synthetic:linear-s:500", "--mechanism", "privkvm", "--epsilon", "1", "--set", "rounds=3"]
        assert run(asked) == 0
    ear.join()
    os.close(reading)
    shown = b"".join(heard).decode()
    before = [shown[: found.start()] for found in re.finditer(r"Round \d: ", shown)]
    assert len(before) == 3 and "━" in shown
    assert all(text.endswith("\x1b[2K") for text in before)


def test_the_round_of_least_cost_is_named(capsys: Output) -> None:
    arguments = ("simulate", "synthetic:linear-s:500", "--mechanism", "privkvm-plus", "--epsilon", "2", "--seed", "1")
    document, _ = told(capsys, *arguments)
    costs = [one["cost"] for one in document["rounds"]]
    best = 1 + costs.index(min(costs))
    assert document["cheapest_round"] == best
    assert run(list(arguments)) == 0
    assert f"is least after round {best}: {min(costs):.3g};" in " ".join(capsys.readouterr().out.split())


def test_one_round_is_one_round(capsys: Output) -> None:
    arguments = ["simulate", "synthetic:linear-s:500", "--mechanism", "privkvm", "--epsilon", "1", "--set", "rounds=1"]
    assert run(arguments) == 0
    assert "1 round; nobody" in capsys.readouterr().out


def test_means_without_intervals_are_neither_hit_nor_missed(capsys: Output) -> None:
    arguments = ["synthetic:linear-s:500", "--mechanism", "privkvm-harmony", "--epsilon", "1", "--seed", "1"]
    document, _ = told(capsys, "simulate", *arguments)
    assert document["metrics"]["coverage_mean"] is None and document["metrics"]["mse_mean"] > 0
    assert any(abs(row["mean"]) > 1 for row in document["estimates"])  # as published, and unclipped
    assert run(["simulate", *arguments]) == 0
    shown = capsys.readouterr().out
    marks = re.findall(r"│ ([✓✗–]{2}) +│", shown)
    assert len(marks) == 20 and {mark[1] for mark in marks} == {"–"} and "nan" not in shown
    assert "means –." in " ".join(shown.split())


def test_impossible_means_are_drawn_at_the_edge(monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    drawn: list[Figure] = []
    monkeypatch.setattr("keyveil.cli.simulate.save", lambda figure, path: drawn.append(figure))
    monkeypatch.setattr("keyveil.cli.simulate.save_rounds", lambda result, path: None)
    arguments = ["synthetic:linear-s:500", "--mechanism", "privkvm-harmony", "--epsilon", "1", "--seed", "1"]
    assert run(["simulate", *arguments, "--per-key", "--plot", "means.png"]) == 0
    _, means = drawn[0].axes
    (estimates,) = (marks for marks in means.collections if str(marks.get_label()).startswith("estimate"))
    places = np.asarray(estimates.get_offsets())[:, 0]
    first, last = means.get_xlim()
    assert (np.abs(places) == 1).any() and ((first <= places) & (places <= last)).all()


def test_threads_are_honoured(capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keyveil.lab.rounds.BLOCK", 100)
    used: list[int] = []

    class Pool(ThreadPoolExecutor):
        def __init__(self, threads: int) -> None:
            used.append(threads)
            super().__init__(threads)

    monkeypatch.setattr("keyveil.lab.rounds.ThreadPoolExecutor", Pool)
    arguments = ("simulate", "synthetic:linear-s:500", "--mechanism", "privkvm", "--epsilon", "1", "--seed", "1")
    alone, _ = told(capsys, *arguments)
    together, _ = told(capsys, *arguments, "--threads", "2")
    for document in (alone, together):
        document.pop("seconds")
    assert alone == together and set(used) == {2}


def test_every_round_is_attacked_at_its_own_price(capsys: Output) -> None:
    arguments = ("audit", "--mechanism", "privkvm", "--epsilon", "1", "--keys", "2", "--set", "rounds=3")
    document, _ = told(capsys, *arguments, "--seconds", "4")
    assert {"mechanism", "requested_epsilon", "lower_bound", "confidence", "worst"} <= set(document)
    assert (document["mechanism"], document["requested_epsilon"], document["confidence"]) == ("privkvm", 1, 0.99)
    first, later = document["rounds"]  # the second and third round are alike under the worst broadcast
    assert first["requested_epsilon"] == pytest.approx(0.5799, abs=5e-5)
    assert later["requested_epsilon"] == pytest.approx(1 / 6)
    assert document["lower_bound"] == max(first["lower_bound"], later["lower_bound"]) > 0.1


@pytest.mark.parametrize("command", ["certify", "audit"])
@pytest.mark.parametrize("wrong", [("privkvmm",), ("privkvm", "--set", "rounds=0"), ("privkvm", "--set", "turns=3")])
def test_what_makes_no_sense_is_refused_in_one_line(command: str, wrong: tuple[str, ...], capsys: Output) -> None:
    assert run([command, "--epsilon", "1", "--mechanism", *wrong]) == 2
    shown, said = capsys.readouterr()
    assert not shown and said.count("\n") == 1
