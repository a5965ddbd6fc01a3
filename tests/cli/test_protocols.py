"""Commands with the name of a protocol where that of a mechanism may stand."""

from __future__ import annotations

import json
from typing import Any

import pytest

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


def test_every_round_is_attacked_at_its_own_price(capsys: Output) -> None:
    arguments = ("audit", "--mechanism", "privkvm", "--epsilon", "1", "--keys", "2", "--set", "rounds=3")
    document, _ = told(capsys, *arguments, "--seconds", "2")
    assert {"mechanism", "requested_epsilon", "lower_bound", "confidence", "worst"} <= set(document)
    assert (document["mechanism"], document["requested_epsilon"], document["confidence"]) == ("privkvm", 1, 0.99)
    first, later = document["rounds"]  # the second and third round are alike under the worst broadcast
    assert first["requested_epsilon"] == pytest.approx(0.5799, abs=5e-5)
    assert later["requested_epsilon"] == pytest.approx(1 / 6)
    assert document["lower_bound"] == max(first["lower_bound"], later["lower_bound"]) > 0.3


@pytest.mark.parametrize("command", ["certify", "audit"])
@pytest.mark.parametrize("wrong", [("privkvmm",), ("privkvm", "--set", "rounds=0"), ("privkvm", "--set", "turns=3")])
def test_what_makes_no_sense_is_refused_in_one_line(command: str, wrong: tuple[str, ...], capsys: Output) -> None:
    assert run([command, "--epsilon", "1", "--mechanism", *wrong]) == 2
    shown, said = capsys.readouterr()
    assert not shown and said.count("\n") == 1
