"""What a protocol may announce: only options that its mechanisms declare, and never another round than it declares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any, ClassVar

import pytest

from keyveil.core.errors import KeyveilError, PrivacyError, ProtocolError
from keyveil.core.estimates import Estimates
from keyveil.core.schema import GRID, Schema
from keyveil.lab import datasets
from keyveil.lab.coins import SeededCoins
from keyveil.mechanisms.capabilities import Announced, can
from keyveil.mechanisms.registry import create, find_mechanism, mechanism_names, protocol_names
from keyveil.protocols import registry as protocols
from keyveil.protocols.base import Finished, History, Protocol, Round, collected, in_parts
from keyveil.protocols.certificate import certificate
from keyveil.protocols.declarations import announced_options, refuse_undeclared
from keyveil.protocols.privkvm import PrivKVM
from tests.protocols.doubling import DeclaredDoubling, Doubling, UnderstatedDoubling

SCHEMA, ONE = Schema(keys=3), Fraction(1)
PEOPLE = datasets.independent(500, [0.3, 0.5, 0.8], [-0.5, 0.1, 0.6], 1).records(SCHEMA)
OPTIONS: dict[str, dict[str, Any]] = {"adaptive": {"max_pairs": 2}, "split": {"max_pairs": 2}}

Change = Callable[[Round], Round]


def code_of(refused: pytest.ExceptionInfo[KeyveilError]) -> str:
    assert refused.value.sentence.endswith(".") and "\n" not in refused.value.sentence
    return refused.value.code


def after_one_round(protocol: Protocol) -> list[Finished]:
    first = protocol.next_round([])
    assert first is not None
    return [collected(first, first.mechanism.perturb_many(PEOPLE, SeededCoins(1)))]


def options(**changed: Any) -> Change:
    """The round with other options of its mechanism."""
    return lambda current: replace(current, mechanism=replace(current.mechanism, **changed))


# -- an announced parameter that doubles ε --------------------------------------------------------------------------


def test_a_parameter_that_nobody_declares_has_no_certificate_and_is_not_announced() -> None:
    protocol = Doubling(SCHEMA, ONE)
    with pytest.raises(ProtocolError, match="multiplied does not declare what may be announced") as refused:
        certificate(protocol)
    assert code_of(refused) == "protocol/undeclared"
    with pytest.raises(ProtocolError, match="another times than it declares; nothing may be announced") as refused:
        protocol.next_round(after_one_round(protocol))
    assert code_of(refused) == "protocol/undeclared"


def test_a_parameter_that_is_declared_costs_what_it_can_cost() -> None:
    protocol = DeclaredDoubling(SCHEMA, ONE)
    proof = certificate(protocol)
    assert not proof.certified
    assert float(proof.exact_epsilon) == pytest.approx(2, abs=1e-6)
    assert proof.worst.ratio == proof.ratio
    second = protocol.next_round(after_one_round(protocol))
    assert second is not None and second.mechanism.options["times"] == 2


def test_a_declaration_that_understates_its_cost_is_found_out() -> None:
    with pytest.raises(PrivacyError, match=r"spends 2\.0000.* under an announcement, more than the 1\.0000") as refused:
        certificate(UnderstatedDoubling(SCHEMA, ONE))
    assert code_of(refused) == "privacy/closed-form"


# -- rounds that differ from the declared ones ----------------------------------------------------------------------


@dataclass(frozen=True)
class Wilful(PrivKVM):
    """PrivKVM whose second round is changed once there are answers."""

    rounds: int = 3

    name: ClassVar[str] = "wilful"
    change: ClassVar[Change]

    def plan(self, finished: History) -> Round | None:
        following = super().plan(finished)
        answers = finished[0].tally.reports if finished else 0
        return type(self).change(following) if following is not None and answers else following


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (options(epsilon=Fraction(1, 100)), "another epsilon than it declares"),
        (options(key_epsilon=Fraction(1, 100)), "another key_epsilon than it declares; only fake may be announced"),
        (options(schema=Schema(keys=2), fake=(0, 0)), "another schema than"),
        (lambda one: replace(one, mechanism=create("kvue", SCHEMA, one.mechanism.epsilon)), "may be kvue"),
        (lambda one: replace(one, part=in_parts(ONE, ONE)[0]), "other people"),
        (lambda one: replace(one, cost=Fraction(0)), "another cost"),
    ],
    ids=["epsilon", "option", "schema", "mechanism", "part", "cost"],
)
def test_answers_change_nothing_but_what_is_announced(
    change: Change, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Wilful, "change", staticmethod(change), raising=False)
    protocol = Wilful(SCHEMA, ONE)
    with pytest.raises(ProtocolError, match=what) as refused:
        protocol.next_round(after_one_round(protocol))
    assert code_of(refused) == "protocol/undeclared"


def test_announced_means_may_be_anything_that_a_device_accepts() -> None:
    protocol = PrivKVM(SCHEMA, ONE, rounds=3)
    second = protocol.course[1]
    refuse_undeclared(protocol, options(fake=(-GRID, 0, GRID))(second))
    with pytest.raises(ProtocolError, match="declares 3 rounds") as refused:
        refuse_undeclared(protocol, replace(second, number=4))
    assert code_of(refused) == "protocol/undeclared"


@dataclass(frozen=True)
class TwoHalves(Protocol):
    """Two halves of the people answer the same mechanism, and nothing that the first say changes the second round."""

    name: ClassVar[str] = "two-halves"
    announces: ClassVar[bool] = False

    def plan(self, finished: History) -> Round | None:
        number, halves = len(finished), in_parts(ONE, ONE)
        mechanism = create("ssr", self.schema, self.epsilon, max_pairs=2)
        return Round(number + 1, mechanism, halves[number]) if number < 2 else None

    def estimate(self, finished: History, confidence: float = 0.95, population: bool = False) -> Estimates:
        return finished[-1].estimates(confidence, population)


def test_a_protocol_that_announces_nothing_has_every_option_fixed() -> None:
    protocol = TwoHalves(SCHEMA, ONE)
    second = protocol.course[1]
    refuse_undeclared(protocol, second)
    with pytest.raises(ProtocolError, match=r"another max_pairs .*; nothing may be announced to ssr") as refused:
        refuse_undeclared(protocol, options(max_pairs=1)(second))
    assert code_of(refused) == "protocol/undeclared"


# -- several kinds --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "kinds"),
    [
        ({}, ["project", "topsel direct"]),
        ({"set_sizes": "1:0.5,2:0.5"}, ["project", "topsel direct", "topsel cover"]),
        ({"mode": "project", "padding": 2}, ["project"]),
        ({"mode": "direct", "padding": 2}, ["topsel direct"]),
        ({"mode": "cover", "padding": 2}, ["topsel cover"]),
    ],
    ids=str,
)
def test_the_second_round_of_topsel_project_has_these_kinds(given: dict[str, Any], kinds: list[str]) -> None:
    protocol = protocols.create("topsel-project", SCHEMA, 1, **given)
    declared = protocol.kinds(2)
    assert [f"{one.name} {one.options.get('mode', '')}".strip() for one in declared] == kinds
    second = protocol.course[1]
    assert second.mechanism == declared[0]
    for kind in declared:
        refuse_undeclared(protocol, replace(second, mechanism=kind))
    for other in (create("ssr", SCHEMA, 1, max_pairs=1), create("topsel", SCHEMA, 1, mode="direct")):
        if not any(type(other) is type(kind) for kind in declared):
            with pytest.raises(ProtocolError, match=f"may be {other.name}"):
                refuse_undeclared(protocol, replace(second, mechanism=other))


# -- who declares ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", protocol_names())
def test_every_later_round_declares_what_may_be_announced_to_it(name: str) -> None:
    protocol = protocols.create(name, SCHEMA, 1, **OPTIONS.get(name, {}))
    for later in protocol.course[1:] if protocol.announces else ():
        for kind in protocol.kinds(later.number):
            declared = can(kind, Announced)
            assert declared is not None and declared.announced() <= set(kind.options)


def test_a_pilot_announces_a_cap_to_whom_it_may() -> None:
    capped = [name for name in mechanism_names() if "max_pairs" in {one.name for one in fields(find_mechanism(name))}]
    may = {name for name in capped if "max_pairs" in announced_options(create(name, SCHEMA, 1, max_pairs=1))}
    assert may == {"pckv-ue", "pckv-grr", "kv-sw", "wsr", "ssr", "wheel", "collision"}
    for name in capped:
        if name in may:
            assert protocols.create("pilot", SCHEMA, 1, then=name).course[1].mechanism.name == name
        else:
            with pytest.raises(ProtocolError, match=f"would announce max_pairs.* to {name}") as refused:
                protocols.create("pilot", SCHEMA, 1, then=name)
            assert code_of(refused) == "protocol/undeclared"
    assert announced_options(create("kvue", SCHEMA, 1)) == frozenset()
