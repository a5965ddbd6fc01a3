"""Several rounds: together within the campaign's epsilon, in order, and each asked of those it is meant for."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from keyveil.campaign.documents import Campaign
from keyveil.mechanisms import registry as mechanisms
from keyveil.mechanisms.keyvalue.privkv_round import PrivKVRound
from keyveil.protocols.base import Part, Round, parting_word
from tests.device.collector import Collector, document
from tests.device.owner import GENEROUS, RECORD, agreed, code_of, device


def privkvm(epsilon: str = "2") -> dict[str, Any]:
    return document(protocol={"name": "privkvm", "epsilon": epsilon, "rounds": 3}, rounds=[{}, {}, {}])


def later_round(campaign: Campaign, number: int, mean: int) -> Round:
    """Round ``number`` of PrivKVM after means were announced."""
    first = campaign.protocol.next_round([])
    assert first is not None and isinstance(first.mechanism, PrivKVRound)
    epsilon = (campaign.protocol.epsilon - first.mechanism.epsilon) / 2
    announced = (mean,) * campaign.schema.d
    return Round(number, PrivKVRound(campaign.schema, epsilon, Fraction(0), announced))


def test_rounds_are_answered_one_by_one_and_together_within_the_campaigns_epsilon() -> None:
    collector = Collector()
    campaign = collector.open(privkvm())
    one = agreed(collector, caps=GENEROUS)
    for number in (1, 2, 3):
        if number > 1:
            collector.open(privkvm(), later_round(campaign, number, 100 * number))
        assert one.report("snack-survey", RECORD).state == "sent"

    assert [entry.round for entry in one.ledger()] == [1, 2, 3]
    assert len({public for public, _ in collector.reports}) == 3  # rounds cannot be linked by their ids
    assert sum(entry.epsilon for entry in one.ledger()) <= 2
    collector.open(privkvm(), later_round(campaign, 4, 7))
    assert code_of(lambda: one.report("snack-survey", RECORD)) == "budget/exceeded"


def test_a_round_never_comes_back_changed_or_late() -> None:
    collector = Collector()
    campaign = collector.open(privkvm())
    one = agreed(collector, caps=GENEROUS)
    collector.open(privkvm(), later_round(campaign, 2, 100))
    one.report("snack-survey", RECORD)

    collector.open(privkvm(), later_round(campaign, 2, 200))
    assert code_of(lambda: one.report("snack-survey", RECORD)) == "round/changed"
    collector.open(privkvm())
    assert code_of(lambda: one.report("snack-survey", RECORD)) == "round/order"
    collector.open(privkvm(), later_round(campaign, 2, 100))
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


def test_the_same_parted_question_in_later_rounds_gets_the_same_report() -> None:
    made = document(protocol={"name": "pilot", "epsilon": "1"}, rounds=[{}, {}])
    collector = Collector()
    campaign = collector.open(made)
    mechanism = mechanisms.create("ssr", campaign.schema, 1, max_pairs=2)
    nearly_all = Part(Fraction(0), Fraction(2**32 - 1, 2**32))
    one = agreed(collector)
    for number in range(2, 50):
        collector.open(made, Round(number, mechanism, nearly_all))
        assert one.report("snack-survey", RECORD).state == "sent"  # silent once in 2^32

    assert len(set(collector.reports)) == 1
    assert sum(not entry.free for entry in one.ledger()) == 1
