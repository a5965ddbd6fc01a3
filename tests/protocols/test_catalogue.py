"""The table of what can be asked: every kind of question is tried on every name, and the page shows the same."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import keyveil as kv
from keyveil.cli.app import run
from keyveil.core.errors import KeyveilError
from keyveil.learn.questions import answer
from keyveil.mechanisms.questions import ASKABLE, who_answers, who_is_asked
from keyveil.mechanisms.registry import find, names
from keyveil.protocols.base import Finished
from keyveil.protocols.catalogue import describe
from keyveil.protocols.registry import as_protocol

KEYS = ["a", "b", "c"]
PEOPLE: dict[str, list[dict[str, float]]] = {
    "every set": [{}, {"a": 0.5}, {"a": -0.5, "b": 0.9}, {"c": 0.1}],
    "one key": [{"a": 0}, {"a": 0}, {"b": 0}, {"c": 0}],
    "every key": [{"a": 0.5, "b": -0.5, "c": 0.0}],
}
QUESTIONS: dict[str, dict[str, Any]] = {
    "top": {"kind": "top", "count": 2},
    "subset": {"kind": "subset", "keys": ["a", "b"]},
    "compare": {"kind": "compare", "keys": ["a", "b"]},
    "compare-means": {"kind": "compare", "keys": ["a", "b"], "of": "mean"},
    "quantiles": {"kind": "quantiles", "quantiles": ["0.5"]},
    "conditional": {"kind": "conditional", "key": "a", "given": {"b": True}},
}


@cache
def simulated(name: str, form: int) -> Any:
    """A small collection under one of the forms that the name tells different things in."""
    takes = describe(name).takes
    people = kv.Population.from_records(PEOPLE[takes] * 150)
    return kv.simulate(name, people, kv.Schema(keys=KEYS), 2, seed=1, **find(name).examples[form])


FORMS = [(name, form) for name in names() for form in range(len(find(name).examples))]


@pytest.mark.parametrize(("name", "form"), FORMS)
def test_what_is_claimed_is_answered_and_what_is_not_is_refused_with_the_names_of_those_who_can(
    name: str, form: int
) -> None:
    result = simulated(name, form)
    claimed = list(describe(name).answers.values())[form]
    for quantity in ("frequency", "mean"):
        assert (quantity in claimed) == (not getattr(result.estimates, quantity).absent), quantity
    last: Finished = result.history[-1]
    declared = as_protocol(result.mechanism).longest()[-1].mechanism.name
    rounds = [one.round.mechanism for one in result.history]
    for kind, question in QUESTIONS.items():
        asked: Finished = result.history[who_is_asked(rounds, kind) - 1]

        def ask(question: dict[str, Any] = question, one: Finished = asked) -> list[dict[str, Any]]:
            return answer(question, one.round.mechanism, one.tally, one.estimates())

        if kind in claimed:
            assert ask(), kind
            continue
        if last.round.mechanism.name != declared:
            continue  # another kind of last round may tell more than the one that is declared
        with pytest.raises(KeyveilError) as refused:
            ask()
        able = {label.partition(" ")[0].rstrip(",;.") for label in who_answers(kind)}
        assert any(one in refused.value.sentence for one in able), (kind, refused.value.sentence)


def test_every_kind_of_question_has_somebody_who_answers_it() -> None:
    assert all(who_answers(kind) for kind in ASKABLE)


def test_the_page_is_what_the_command_writes(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    assert run(["mechanisms", "--page", str(page)]) == 0
    there = Path(__file__).parents[2] / "docs" / "what-can-be-asked.md"
    assert page.read_text(encoding="utf-8") == there.read_text(encoding="utf-8"), "run the command on the page again"


def test_a_name_is_shown_with_all_of_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["mechanisms", "ssr", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["devices"] is True and told["takes"] == "every set"
    options = {one.pop("name"): one for one in told["options"]}
    assert options["max_pairs"] == {"type": "whole number", "required": True, "default": None}
    assert options["bins"] == {"type": "whole number", "required": False, "default": None}
    assert options["goal"] == {"type": "text", "required": False, "default": "both"}
    assert "quantiles" in told["answers"]["bins=4"] and "quantiles" not in told["answers"][""]

    assert run(["mechanisms", "ssrr"]) == 2
    assert "did you mean ssr?" in capsys.readouterr().err
    assert [one.name for one in kv.mechanisms()] == list(names())
