"""Which round a question is put to, and what a collection of several rounds can answer."""

from __future__ import annotations

import pytest

from keyveil.core.schema import Schema
from keyveil.learn.questions import Question
from keyveil.mechanisms.questions import who_is_asked
from keyveil.protocols.catalogue import answered
from keyveil.protocols.registry import create

SCHEMA = Schema(keys=4)


@pytest.mark.parametrize(
    ("name", "options", "kind", "number"),
    [
        ("privkvm", {"rounds": 3}, "compare", 1),  # later rounds ask for values alone
        ("privkvm", {"rounds": 3}, "conditional", 3),  # nobody can, so the last one refuses it
        ("adaptive", {"max_pairs": 2}, "compare", 2),
        ("adaptive", {"max_pairs": 2, "variant": "published"}, "compare", 1),
        ("pilot", {"then": "ssr"}, "subset", 2),
    ],
)
def test_the_last_round_that_can_answer_is_asked(name: str, options: dict[str, object], kind: str, number: int) -> None:
    protocol = create(name, SCHEMA, 2, **options)
    assert who_is_asked([one.mechanism for one in protocol.longest()], kind) == number
    assert (kind in answered(protocol)) == (kind != "conditional")


def test_what_a_comparison_asks_depends_on_what_is_compared() -> None:
    keys = {"kind": "compare", "keys": ["0", "1"]}
    assert [Question.read(one).asks for one in (keys, {**keys, "of": "mean"})] == ["compare", "compare-means"]
