"""Several rounds: together within the campaign's epsilon, in order, and each asked of those it is meant for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from keyveil.campaign.documents import Campaign
from keyveil.campaign.wire import unpad
from keyveil.mechanisms import registry as mechanisms
from keyveil.mechanisms.parting import EVERYONE, Part, parting_word
from keyveil.protocols.base import Finished, Round
from tests.device.collector import Collector, Watch, document, later_round
from tests.device.overdrawn import Overdrawn
from tests.device.owner import GENEROUS, RECORD, agreed, code_of, device, week
from tests.protocols.doubling import DeclaredDoubling, Doubling


def privkvm(epsilon: str = "2") -> dict[str, Any]:
    return document(protocol={"name": "privkvm", "epsilon": epsilon, "rounds": 3}, rounds=[{}, {}, {}])


def after_means(campaign: Campaign, number: int, mean: int) -> Round:
    """A round of PrivKVM after the same mean was announced for every key."""
    return later_round(campaign, number, fake=(mean,) * campaign.schema.d)


@pytest.fixture
def overdrawn() -> Iterator[None]:
    with mechanisms.registered("overdrawn", Overdrawn):
        yield


def test_rounds_are_answered_one_by_one_and_together_within_the_campaigns_epsilon() -> None:
    collector = Collector()
    campaign = collector.open(privkvm())
    one = agreed(collector, caps=GENEROUS)
    for number in (1, 2, 3):
        if number > 1:
            collector.open(privkvm(), after_means(campaign, number, 100 * number))
        assert one.report("snack-survey", RECORD).state == "sent"

    assert [entry.round for entry in one.ledger()] == [1, 2, 3]
    assert len({public for public, _ in collector.reports}) == 3  # rounds cannot be linked by their ids
    assert sum(entry.epsilon for entry in one.ledger()) <= 2
    collector.open(privkvm(), replace(after_means(campaign, 3, 7), number=4))
    assert code_of(lambda: one.report("snack-survey", RECORD)) == "campaign/round"  # three were announced


@pytest.mark.usefixtures("overdrawn")
@pytest.mark.parametrize("each", ["0.9", "3"])
def test_a_later_round_that_costs_more_than_is_left_is_refused(each: str) -> None:
    """Also if the protocol declares it, which only one of somebody else's does."""
    made = document(protocol={"name": "overdrawn", "epsilon": "1.2", "each": each})
    collector = Collector()
    campaign = collector.open(made)
    one = agreed(collector, caps=GENEROUS)
    assert one.report("snack-survey", RECORD).state == "sent"
    collector.open(made, after_means(campaign, 2, 100))
    assert code_of(lambda: one.report("snack-survey", RECORD)) == "budget/exceeded"
    assert len(one.ledger()) == 1


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"epsilon": Fraction(1, 100)}, "protocol/undeclared"),  # cheaper, but not what was agreed to
        ({"epsilon": Fraction(1)}, "protocol/undeclared"),
        ({"key_epsilon": Fraction(1, 10)}, "protocol/undeclared"),
        ({"fake": (65536, 0, -65536)}, None),
    ],
    ids=str,
)
def test_a_collector_announces_what_is_declared_and_nothing_else(change: dict[str, Any], code: str | None) -> None:
    collector = Collector()
    campaign = collector.open(privkvm())
    one = agreed(collector, caps=GENEROUS)
    collector.open(privkvm(), later_round(campaign, 2, **change))
    if code is None:
        assert one.report("snack-survey", RECORD).state == "sent"
    else:
        assert code_of(lambda: one.report("snack-survey", RECORD)) == code
        assert not collector.bodies and not one.ledger()


def test_a_collector_does_not_choose_who_answers() -> None:
    made = document(protocol={"name": "pilot", "epsilon": "1", "share": "0.5"})
    collector = Collector()
    campaign = collector.open(made)
    one = agreed(collector, caps=GENEROUS)
    collector.open(made, replace(later_round(campaign, 2), part=EVERYONE))
    assert code_of(lambda: one.report("snack-survey", RECORD)) == "protocol/undeclared"


@pytest.mark.parametrize(
    ("protocol", "code"), [(Doubling, "protocol/undeclared"), (DeclaredDoubling, "privacy/exceeded")]
)
def test_an_announced_parameter_that_doubles_epsilon_is_refused(protocol: type[Doubling], code: str) -> None:
    """Undeclared, because it is no round of the protocol; declared, by the price that the device itself computes."""
    with mechanisms.registered(protocol.name, protocol), mechanisms.registered(protocol.kind.name, protocol.kind):
        made = document(protocol={"name": protocol.name, "epsilon": "1"})
        collector = Collector()
        campaign = collector.open(made)
        one = agreed(collector, caps=GENEROUS)
        collector.open(made, later_round(campaign, 2, times=2))
        assert code_of(lambda: one.report("snack-survey", RECORD)) == code
        assert not collector.bodies and not one.ledger()
        collector.open(made, later_round(campaign, 2, times=1))
        assert one.report("snack-survey", RECORD).state in ("sent", "not-asked")


def test_a_round_never_comes_back_changed_or_late() -> None:
    collector = Collector()
    campaign = collector.open(privkvm())
    one = agreed(collector, caps=GENEROUS)
    collector.open(privkvm(), after_means(campaign, 2, 100))
    one.report("snack-survey", RECORD)

    collector.open(privkvm(), after_means(campaign, 2, 200))
    assert code_of(lambda: one.report("snack-survey", RECORD)) == "round/changed"
    collector.open(privkvm())
    assert "comes after round 2" in (one.explain("snack-survey").refusal or "")
    assert code_of(lambda: one.report("snack-survey", RECORD)) == "round/order"
    collector.open(privkvm(), after_means(campaign, 2, 100))
    assert one.report("snack-survey", RECORD).epsilon == 0
    assert len(set(collector.reports)) == len(one.ledger()) == 1


def test_people_are_parted_by_one_seat_and_the_others_stay_silent() -> None:
    made = document(protocol={"name": "pilot", "epsilon": "1"}, rounds=[{}, {}])
    collector = Collector()
    campaign = collector.open(made)
    first = campaign.protocol.next_round([])
    assert first is not None and first.part == Part(Fraction(0), Fraction(1, 20))
    rest = Round(2, mechanisms.create("ssr", campaign.schema, 1, max_pairs=2), Part(Fraction(1, 20), Fraction(1)))
    states = []
    for _ in range(300):
        one = device(collector)
        collector.open(made)
        one.consent("snack-survey")
        early = one.report("snack-survey", RECORD)
        assert early == one.report("snack-survey", RECORD) or early.state == "sent"
        collector.open(made, rest)
        late = one.report("snack-survey", RECORD)
        states.append((early.state, late.state))
        assert len(one.ledger()) == 1

    assert set(states) == {("sent", "not-asked"), ("not-asked", "sent")}  # one of them missing: 0.95^300 < 1e-6
    for batch in collector.received:
        part = first.part if batch.round == 1 else rest.part
        assert part.holds(parting_word(batch.ids[0], bytes.fromhex(campaign.hash)))


@pytest.mark.usefixtures("overdrawn")
def test_the_same_parted_question_in_later_rounds_is_drawn_again_within_the_campaigns_epsilon() -> None:
    made = document(protocol={"name": "overdrawn", "epsilon": "1", "rounds": 50, "each": "0.5", "parted": True})
    collector = Collector()
    campaign = collector.open(made)
    one = agreed(collector)
    for number in (2, 3):
        collector.open(made, after_means(campaign, number, 100))
        assert one.report("snack-survey", RECORD).state == "sent"  # silent once in 2^32
    collector.open(made, after_means(campaign, 4, 100))
    assert code_of(lambda: one.report("snack-survey", RECORD)) == "budget/exceeded"

    assert len({public for public, _ in collector.reports}) == 1  # the seat
    assert len(one.ledger()) == 2


def test_the_whole_price_of_a_campaign_is_set_aside_at_its_first_round() -> None:
    """Otherwise a device would answer the first rounds and none of those that need them."""
    collector, watch = Collector(), Watch()
    campaign = collector.open(privkvm())
    one = agreed(collector, clock=watch, caps={"schema_period": 3, "schema_life": 3, "period": 3, "life": 3})
    one.report("snack-survey", RECORD)
    assert sum(entry.epsilon for entry in one.ledger()) < Fraction("1.2")
    collector.open(document(name="other"))
    one.consent("other")
    assert one.report("other", RECORD).state == "sent"  # 2 are set aside, and 3 is the cap
    collector.open(document(name="third", protocol={"name": "kvue", "epsilon": "0.5"}))
    one.consent("third")
    assert code_of(lambda: one.report("third", RECORD)) == "budget/exceeded"
    for number in (2, 3):
        collector.open(privkvm(), after_means(campaign, number, 100))
        assert one.report("snack-survey", RECORD).state == "sent"

    tight = agreed(collector, clock=watch, caps={"life": "1.9"})
    assert code_of(lambda: tight.report("snack-survey", RECORD)) == "budget/exceeded" and not tight.ledger()
    one.withdraw("snack-survey")
    assert json.loads(one.export())["reserved"] == "0"


@pytest.mark.parametrize(
    ("protocol", "length"),
    [
        ({"name": "pilot", "share": "0.5"}, 2),
        ({"name": "pilot", "share": "0.5", "then": "wsr", "theta": "0.5"}, 3),
        ({"name": "pilot", "share": "0.5", "then": "topsel"}, 2),
        ({"name": "adaptive", "max_pairs": 2}, 2),
        ({"name": "adaptive", "max_pairs": 2, "variant": "published"}, 2),
        ({"name": "topsel-project", "share": "0.5"}, 2),
        ({"name": "privkvm", "rounds": 4}, 4),
        ({"name": "privkvm-plus", "price": "0"}, 6),
        ({"name": "privkvm-star"}, 2),
        ({"name": "privkvm-harmony"}, 6),
    ],
    ids=lambda given: "-".join(map(str, given.values())) if isinstance(given, dict) else None,
)
def test_an_honest_run_of_every_protocol_is_answered_to_its_end(protocol: dict[str, Any], length: int) -> None:
    made = document(protocol={"epsilon": "1", **protocol})
    collector = Collector()
    campaign = collector.open(made)
    people = [agreed(collector, caps=GENEROUS) for _ in range(30)]
    finished: list[Finished] = []
    while (asked := campaign.protocol.next_round(finished)) is not None:
        collector.open(made, asked)
        collector.received.clear()
        states = {one.report("snack-survey", RECORD).state for one in people}
        assert states <= {"sent", "not-asked"}
        publics, padded = zip(*collector.reports, strict=True) if collector.reports else ((), ())
        size = collector.views["snack-survey"]["round"]["document"]["report_bytes"]
        payloads = [unpad(one, size, asked.mechanism.codec.varies) for one in padded]
        finished.append(Finished(asked, asked.mechanism.tally_encoded(publics, payloads)))

    if protocol["name"] == "privkvm-plus":  # it comes to rest where means do not move, perhaps after one round
        assert 1 <= len(finished) <= length
    else:
        assert len(finished) == length
    assert any(one.ledger() for one in people)


def test_where_people_are_parted_an_unchanged_record_is_drawn_and_paid_for_in_every_campaign() -> None:
    """A seat that lasted would link somebody's reports even after their record has changed."""
    collector, watch = Collector(), Watch()
    protocol = {"name": "pilot", "epsilon": "1", "share": "0.999999999999"}
    collector.open(week(0, protocol=protocol))
    one = agreed(collector, clock=watch, caps=GENEROUS)
    for number in range(2):
        collector.open(week(number, protocol=protocol))
        assert one.report("snack-survey", RECORD).epsilon > 0
        watch.days_later(7)

    assert len({public for public, _ in collector.reports}) == 2
    assert [entry.free for entry in one.ledger()] == [False, False]
