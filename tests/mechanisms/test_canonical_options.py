"""Equal channels have one spelling: the same options, the same document, the same fingerprint."""

from __future__ import annotations

import json
from dataclasses import fields
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from keyveil.core.canonical import canonical
from keyveil.core.errors import KeyveilError
from keyveil.core.schema import GRID, Schema
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.registry import (
    ROUNDS,
    create_round,
    find,
    find_mechanism,
    forms,
    from_document,
    make,
    mechanism_names,
    protocol_names,
)

SCHEMA = Schema(keys=3)
ROUND_OPTIONS: dict[str, dict[str, Any]] = {
    "adaptive-key": {"max_pairs": 2},
    "adaptive-value": {"max_pairs": 2},
    "project": {"centres": (0,) * 6, "scales": (1,) * 6, "radius": 9},
    "set-size": {"most": 3},
    "overflow": {"max_pairs": 2},
}
ALL: dict[str, Mechanism] = dict(forms()) | {
    name: create_round(name, SCHEMA, 1, **ROUND_OPTIONS.get(name, {})) for name in ROUNDS
}

SPELLINGS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("ss", {}, {"size": 1}),
    ("olh", {}, {"buckets": 4}),
    ("wsr", {"max_pairs": 2, "weights": "7,7,7"}, {"max_pairs": 2}),
    ("wsr", {"max_pairs": 2, "weights": "4,2,6"}, {"max_pairs": 2, "weights": (2, 1, 3)}),
    ("ssr", {"max_pairs": 2, "goal": "mean"}, {"max_pairs": 2, "size": 1, "goal": "frequency"}),
    ("moments", {"law": "3, 3,3,3"}, {"law": "uniform"}),
    ("moments", {"law": "optimum"}, {"law": "44,32,44,32"}),
    ("moments", {"law": "2,6,4,2"}, {"law": "1,3,2,1"}),
    ("moments", {"order": 1}, {"order": 1, "law": "uniform"}),
    ("marginals", {}, {"size": 2, "members": 3, "oracle": "grr"}),
    ("block", {}, {"width": 1, "states": 3}),
    ("privkv", {"fake_mean": "1/2"}, {"fake_mean": "0.50"}),
    ("privkv-round", {"fake": (0, 0, 0)}, {}),
    ("filled-vector", {"fake": (0, 0, 0)}, {}),
    ("label-round", {"keys": (0, 1, 2)}, {}),
    ("adaptive-value", {"max_pairs": 2, "weights": (3, 3, 6)}, {"max_pairs": 2, "weights": (1, 1, 2), "reserve": 3}),
]


@pytest.mark.parametrize("mechanism", ALL.values(), ids=ALL)
def test_a_document_makes_the_same_mechanism_again(mechanism: Mechanism) -> None:
    travelled = json.loads(canonical(mechanism.document()))
    again = from_document(travelled, create_round)

    assert again == mechanism
    assert again.fingerprint == mechanism.fingerprint
    assert canonical(again.document()) == canonical(mechanism.document())


@pytest.mark.parametrize("mechanism", ALL.values(), ids=ALL)
def test_an_option_that_is_chosen_is_the_same_as_one_that_is_given(mechanism: Mechanism) -> None:
    """Leave out, one at a time, every option that nobody gave: what is chosen then is what was chosen before."""
    kind = type(mechanism)
    given = {option for options in (*kind.examples, ROUND_OPTIONS.get(kind.name, {})) for option in options}
    for field in fields(mechanism):
        if field.default is None and field.name not in given:
            assert create_round(kind.name, SCHEMA, 1, **{**mechanism.options, field.name: None}) == mechanism


@pytest.mark.parametrize(("name", "spelled", "other"), SPELLINGS, ids=lambda case: str(case))
def test_two_spellings_of_one_channel_are_one_mechanism(
    name: str, spelled: dict[str, Any], other: dict[str, Any]
) -> None:
    one, two = (create_round(name, SCHEMA, 1, **options) for options in (spelled, other))

    assert one == two
    assert one.options == two.options
    assert one.fingerprint == two.fingerprint


def test_another_channel_has_another_fingerprint() -> None:
    """The other side of the same rule: what changes a probability changes the fingerprint."""
    different = [
        *((name, options) for name, *spellings in SPELLINGS for options in spellings[:1]),
        ("ss", {"size": 2}),
        ("olh", {"buckets": 5}),
        ("wsr", {"max_pairs": 2, "weights": "2,1,1"}),
        ("moments", {"law": "1,3,2,2"}),
        ("privkv-round", {"fake": (0, 0, GRID)}),
        ("label-round", {"keys": (0, 2)}),
    ]
    prints = {create_round(name, SCHEMA, 1, **options).fingerprint for name, options in different}
    assert len(prints) == len(different)


@pytest.mark.parametrize("name", ["ss", "olh", "ssr", "wheel", "collision", "marginals"])
def test_nothing_that_was_chosen_is_left_open(name: str) -> None:
    """A round's document names every number that a device needs; only kinds of values may be absent."""
    mechanism = dict(forms())[name]
    assert {option for option, value in mechanism.options.items() if value is None} <= {"bins", "weights"}


DEFAULTS = [(name, options) for name in mechanism_names() for options in find_mechanism(name).examples]


@given(st.sampled_from(DEFAULTS), st.integers(2, 9), st.integers(1, 60), st.data())
def test_defaults_that_are_spelled_out_give_the_same_fingerprint(
    case: tuple[str, dict[str, Any]], keys: int, tenths: int, data: st.DataObject
) -> None:
    """At any number of keys and any ε, and whichever of the defaults somebody writes down, also as text."""
    name, options = case
    schema, epsilon = Schema(keys=keys), Fraction(tenths, 10)
    try:
        chosen = create_round(name, schema, epsilon, **options)
    except KeyveilError:  # the example is for three keys
        assume(False)
    told = data.draw(st.sets(st.sampled_from(sorted(chosen.options)))) if chosen.options else set()
    spelled = {option: value for option, value in chosen.options.items() if option in told and value is not None}
    text = {option: str(value) if isinstance(value, int) else value for option, value in spelled.items()}
    if name == "split" and "group_options" in told:  # the cap stands beside the options of the groups
        text["max_pairs"] = chosen.options["max_pairs"]

    again = create_round(name, schema, epsilon, **{**options, **text})

    assert again == chosen and again.options == chosen.options
    assert again.fingerprint == chosen.fingerprint


@pytest.mark.parametrize("name", protocol_names())
def test_defaults_of_protocols_that_are_spelled_out_give_the_same_rounds(name: str) -> None:
    for options in find(name).examples:
        chosen: Any = make(name, SCHEMA, 1, **options)
        again: Any = make(name, SCHEMA, 1, **json.loads(json.dumps(chosen.parameters)))

        assert again.parameters == chosen.parameters
        prints = [[one.mechanism.fingerprint for one in protocol.course] for protocol in (chosen, again)]
        assert prints[0] == prints[1]
