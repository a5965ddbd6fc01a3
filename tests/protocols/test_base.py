from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from keyveil.core.coins import Coins
from keyveil.core.errors import KeyveilError, ProtocolError
from keyveil.core.estimates import Estimates
from keyveil.core.public import public_indices
from keyveil.core.report import Reports
from keyveil.core.schema import GRID, Schema
from keyveil.core.tally import Tally
from keyveil.lab import datasets
from keyveil.lab.rounds import ask
from keyveil.mechanisms.parting import parting_word, parting_words
from keyveil.mechanisms.registry import PROTOCOLS, find, find_mechanism, protocol_names
from keyveil.mechanisms.registry import create as mechanism
from keyveil.protocols.base import (
    EVERYONE,
    Finished,
    History,
    Part,
    Protocol,
    Round,
    collected,
    cost_of,
    history_document,
    in_parts,
    most_spent,
    part_of,
    resume,
)
from keyveil.protocols.privkvm import PrivKVM
from keyveil.protocols.registry import create

SCHEMA, ONE = Schema(keys=3), Fraction(1)
PEOPLE = datasets.independent(3000, [0.3, 0.5, 0.8], [-0.5, 0.1, 0.6], 1).records(SCHEMA)


def privkvm(rounds: int = 3) -> PrivKVM:
    return PrivKVM(SCHEMA, Fraction(2), rounds=rounds)


def history(protocol: Protocol) -> list[Finished]:
    return ask(protocol, [PEOPLE], seed=4)


def code_of(refused: pytest.ExceptionInfo[KeyveilError]) -> str:
    assert refused.value.sentence.endswith(".") and "\n" not in refused.value.sentence
    return refused.value.code


# -- parts ----------------------------------------------------------------------------------------------------------


def test_parts_are_disjoint_and_together_everyone() -> None:
    parts = in_parts(Fraction(1), Fraction(1, 3), Fraction(5))
    words = Coins().words(5000)
    members = np.array([part.members(words) for part in parts])
    assert (members.sum(axis=0) == 1).all()
    assert [part.holds(int(words[7])) for part in parts] == members[:, 7].tolist()


def test_people_are_parted_alike_alone_and_in_bulk() -> None:
    publics = Coins().words(2 * 200).view(np.uint8).reshape(200, 16)
    together = parting_words(publics, b"a document's hash").tolist()
    assert together == [parting_word(one.tobytes(), b"a document's hash") for one in publics]
    assert together != parting_words(publics, b"another document's").tolist()


def test_the_part_of_a_person_says_nothing_about_the_key_they_are_asked_about() -> None:
    """Four parts against 64 keys, 2^16 people: the χ² of independence with 189 degrees of freedom exceeds 310 about
    once in 1e7 runs; if mechanisms parted people by their own words it would be near 200,000.
    """
    kvue = mechanism("kvue", Schema(keys=64), 1)
    publics = Coins().words(2 << 16).view(np.uint8).reshape(-1, 16)
    asked = public_indices(kvue.words(publics), 64)
    key = kvue.fingerprint  # even where a document's hash is that of its mechanism

    def dependence(words: NDArray[np.uint64]) -> float:
        table = np.array([np.bincount(asked[part.members(words)], minlength=64) for part in in_parts(*[ONE] * 4)])
        expected = table.sum(axis=0) * table.sum(axis=1, keepdims=True) / table.sum()
        return float(((table - expected) ** 2 / expected).sum())

    assert dependence(parting_words(publics, key)) < 310
    assert dependence(kvue.words(publics)) > 100_000


def test_only_members_of_a_part_are_taken() -> None:
    some = PEOPLE.those(np.arange(PEOPLE.n) % 3 == 0)
    assert some.n == 1000
    assert [some.pairs(place) for place in range(5)] == [PEOPLE.pairs(3 * place) for place in range(5)]


@pytest.mark.parametrize(("start", "stop"), [(0, 0), (1, 0), (0, 2), (-1, 1)])
def test_impossible_parts_are_refused(start: int, stop: int) -> None:
    with pytest.raises(ProtocolError) as refused:
        Part(Fraction(start), Fraction(stop))
    assert code_of(refused) == "protocol/part"


# -- budgets --------------------------------------------------------------------------------------------------------


def test_rounds_add_up_within_a_part_and_not_across() -> None:
    kvue = mechanism("kvue", SCHEMA, 1)
    low, high = in_parts(Fraction(1), Fraction(1))
    assert most_spent([Round(1, kvue, low), Round(2, kvue, high)]) == 1
    assert most_spent([Round(1, kvue, low), Round(2, kvue, low)]) == 2
    assert most_spent(
        [Round(1, kvue, low), Round(2, kvue, high), Round(3, kvue, EVERYONE, Fraction(1, 3))]
    ) == 1 + Fraction(1, 3)


def test_shares_of_epsilon_are_decimals_that_never_add_up_to_more() -> None:
    third = part_of(Fraction(1), Fraction(1, 3))
    assert third < Fraction(1, 3) and Fraction(1, 3) - third < Fraction(1, 10**11)
    assert part_of(Fraction(1), Fraction(1, 4)) == Fraction(1, 4)


def test_a_ratio_without_end_has_no_price() -> None:
    assert float(cost_of(Fraction(2))) == pytest.approx(np.log(2))
    with pytest.raises(ProtocolError) as refused:
        cost_of(float("inf"))
    assert code_of(refused) == "protocol/budget"


@dataclass(frozen=True)
class Greedy(Protocol):
    """Asks everyone twice, with all of epsilon each time."""

    name: ClassVar[str] = "greedy"

    def plan(self, finished: History) -> Round | None:
        return Round(len(finished) + 1, mechanism("kvue", self.schema, self.epsilon)) if len(finished) < 2 else None

    def estimate(self, finished: History, confidence: float = 0.95, population: bool = False) -> Estimates:
        return finished[-1].estimates(confidence, population)


def test_a_round_that_the_budget_lacks_is_not_asked() -> None:
    with pytest.raises(ProtocolError) as refused:
        history(Greedy(SCHEMA, Fraction(1)))
    assert code_of(refused) == "protocol/budget"


# -- histories ------------------------------------------------------------------------------------------------------


def test_a_round_out_of_order_is_refused_and_nothing_is_lost() -> None:
    protocol = privkvm()
    first, second, third = history(protocol)
    for wrong in ([second], [first, third], [first, first]):
        with pytest.raises(ProtocolError) as refused:
            protocol.next_round(wrong)
        assert code_of(refused) == "protocol/order"
    assert protocol.next_round([first, second]) == third.round
    assert protocol.next_round([first, second, third]) is None


def test_a_round_of_another_protocol_is_refused() -> None:
    first, *_ = history(privkvm(rounds=2))
    with pytest.raises(ProtocolError) as refused:
        privkvm(rounds=3).next_round([first])
    assert code_of(refused) == "protocol/foreign"


def test_a_broadcast_that_was_not_announced_is_refused() -> None:
    protocol = privkvm()
    first, second, _ = history(protocol)
    bent = replace(second.round.mechanism, fake=(GRID, GRID, GRID))  # type: ignore[call-arg]
    tally = Tally(bent.fingerprint, second.tally.reports, second.tally.counts)
    with pytest.raises(ProtocolError) as refused:
        protocol.next_round([first, Finished(replace(second.round, mechanism=bent), tally)])
    assert code_of(refused) == "protocol/foreign"


def test_a_foreign_tally_is_refused() -> None:
    protocol = privkvm()
    first, second, _ = history(protocol)
    with pytest.raises(ProtocolError) as refused:
        protocol.next_round([first, Finished(second.round, first.tally)])
    assert code_of(refused) == "protocol/foreign"


def test_nobody_is_counted_twice_in_a_round() -> None:
    asked = privkvm().next_round([])
    assert asked is not None
    reports = asked.mechanism.perturb_many(PEOPLE, Coins())
    assert collected(asked, reports).tally.reports == PEOPLE.n
    twice = Reports(np.concatenate([reports.publics, reports.publics[:2]]), np.append(reports.payloads, [0, 1]))
    with pytest.raises(ProtocolError, match="2 reports of round 1") as refused:
        collected(asked, twice)
    assert code_of(refused) == "protocol/twice"
    one = asked.mechanism.perturb({"0": 1}, Coins())
    with pytest.raises(ProtocolError):
        collected(asked, [one, one])


def test_a_protocol_that_was_stopped_goes_on_from_its_history() -> None:
    protocol = privkvm()
    whole = history(protocol)
    for done in range(4):
        stored = json.loads(json.dumps(history_document(whole[:done])))
        again = resume(protocol, stored)
        assert [one.tally for one in again] == [one.tally for one in whole[:done]]
        finished = ask(protocol, [PEOPLE], seed=4, finished=again)
        assert history_document(finished) == history_document(whole)


def test_a_damaged_history_is_refused() -> None:
    protocol = privkvm()
    document = history_document(history(protocol))
    cases = {
        "protocol/history": [{**document[0], "tally": "no hex"}],
        "tally/malformed": [{**document[0], "tally": document[0]["tally"][:-2]}],
        "protocol/order": document[1:],
        "protocol/foreign": [document[0], {**document[1], "tally": document[0]["tally"]}],
    }
    for code, damaged in cases.items():
        with pytest.raises(KeyveilError) as refused:
            resume(protocol, damaged)
        assert code_of(refused) == code
    with pytest.raises(ProtocolError):
        resume(protocol, [*document, document[-1]])


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"round": 1.7}, "protocol/history"),
        ({"round": 1.0}, "protocol/history"),
        ({"round": True}, "protocol/history"),
        ({"round": "1"}, "protocol/history"),
        ({"round": 2}, "protocol/order"),
        ({"mechanism": "kvue"}, "protocol/foreign"),
        ({"fingerprint": "00" * 32}, "protocol/foreign"),
        ({"fingerprint": "no hex"}, "protocol/history"),
        ({"fingerprint": None}, "protocol/history"),
    ],
    ids=str,
)
def test_every_entry_of_a_history_is_held_to_what_was_asked(changed: dict[str, object], code: str) -> None:
    protocol = privkvm()
    first, *_ = history_document(history(protocol))
    assert len(resume(protocol, [first])) == 1
    with pytest.raises(ProtocolError) as refused:
        resume(protocol, [first | changed])
    assert code_of(refused) == code
    for missing in first:
        with pytest.raises(ProtocolError) as refused:
            resume(protocol, [{name: first[name] for name in first if name != missing}])
        assert code_of(refused) == "protocol/history"


@pytest.mark.parametrize("document", [5, None, "x", {"round": 1}, [None], [[]]], ids=str)
def test_what_is_no_history_is_refused(document: object) -> None:
    with pytest.raises(ProtocolError) as refused:
        resume(privkvm(), document)
    assert code_of(refused) == "protocol/history"


# -- names ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", protocol_names())
def test_every_name_leads_to_its_protocol(name: str) -> None:
    assert find(name).name == name


@pytest.mark.parametrize(
    ("name", "options", "code"),
    [
        ("privkvn", {}, "mechanism/unknown"),
        ("privkvm", {"iterations": 3}, "mechanism/option"),
        ("privkvm", {"rounds": "few"}, "mechanism/option"),
        ("privkvm", {"rounds": 0}, "protocol/option"),
        ("privkvm", {"estimator": "biased"}, "mechanism/option"),
    ],
)
def test_what_is_unknown_is_named_in_one_sentence(name: str, options: dict[str, object], code: str) -> None:
    with pytest.raises(KeyveilError) as refused:
        create(name, SCHEMA, 1, **options)
    assert code_of(refused) == code


def test_a_slip_is_recognised_among_mechanisms_and_protocols() -> None:
    assert set(protocol_names()) == set(PROTOCOLS)
    for slip, meant in (("privkvm-pluss", "privkvm-plus"), ("topsel-projekt", "topsel-project"), ("kvuee", "kvue")):
        for look in (find, find_mechanism):
            with pytest.raises(KeyveilError, match=rf"\(did you mean {meant}\?\)") as refused:
                look(slip)
            assert code_of(refused) == "mechanism/unknown"


@pytest.mark.parametrize(
    "make",
    [
        lambda: find_mechanism("privkvm"),
        lambda: create("pilot", SCHEMA, 1, then="privkvm"),
        lambda: mechanism("split", SCHEMA, 1, groups="kvue:1,privkvm:1"),
    ],
)
def test_a_protocol_where_only_a_mechanism_will_do_is_called_by_its_name(make: Callable[[], object]) -> None:
    with pytest.raises(KeyveilError, match=r"^privkvm is a protocol .* only a mechanism") as refused:
        make()
    assert code_of(refused) == "mechanism/unknown"
    with pytest.raises(KeyveilError, match=r"^kvue is a mechanism .* only a protocol"):
        create("kvue", SCHEMA, 1)


def test_options_may_be_strings() -> None:
    protocol = create("privkvm", SCHEMA, "2", rounds="3")
    assert protocol == privkvm()
    assert protocol.parameters == {"estimator": "unbiased", "rounds": 3}


@pytest.mark.parametrize(
    ("name", "options"),
    [("pilot", {}), ("pilot", {"then": "wsr", "theta": "1/4", "max_pairs": 3}), ("topsel-project", {})],
)
def test_a_round_that_nobody_answered_is_nothing_to_go_on_with(name: str, options: dict[str, Any]) -> None:
    protocol = create(name, Schema(keys=6), 1, **options)
    first = protocol.next_round([])
    assert first is not None
    nobody = Finished(first, Tally.empty(first.mechanism.fingerprint, first.mechanism.tally_shape))
    with pytest.raises(ProtocolError, match="Nobody answered round 1") as refusal:
        protocol.next_round([nobody])
    assert refusal.value.code == "protocol/few"


@pytest.mark.parametrize("name", ["privkvm", "privkvm-harmony", "privkvm-meanest"])
def test_rounds_with_less_epsilon_than_any_mechanism_takes_are_refused_when_they_are_made(name: str) -> None:
    with pytest.raises(ProtocolError) as refused:
        create(name, Schema(keys=10), Fraction(1, 100), rounds=7)
    assert refused.value.code == "protocol/option" and "fewer rounds" in refused.value.sentence
    assert create(name, Schema(keys=10), Fraction(1, 100), rounds=3).course
