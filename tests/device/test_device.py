"""A device answers once, pays first, repeats itself for free, and stops when its owner says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyveil.campaign.rounds import RoundDocument
from keyveil.campaign.wire import unpad
from keyveil.core.coins import Coins
from keyveil.core.errors import EntropyError
from keyveil.core.schema import Schema
from keyveil.device import Patience
from keyveil.device.preview import look_at
from keyveil.mechanisms import registry as mechanisms
from keyveil.mechanisms.families.key_value import KeyValue
from keyveil.protocols.base import Round
from tests.device.collector import Collector, Watch, document, lose_answer
from tests.device.owner import RECORD, agreed, code_of, device, week


def test_a_report_is_debited_at_the_price_that_the_device_computed_and_then_sent() -> None:
    collector = Collector()
    campaign = collector.open(document())
    asked = RoundDocument.of(campaign, Round(1, campaign.protocol.next_round([]).mechanism))  # type: ignore[union-attr]
    one = agreed(collector)

    outcome = one.report("snack-survey", RECORD)

    (entry,) = one.ledger()
    assert (outcome.state, outcome.epsilon) == ("sent", asked.cost)
    assert (entry.epsilon, entry.campaign, entry.free) == (asked.cost, campaign.hash, False)
    assert collector.received[0].document == asked.hash
    ((public, payload),) = collector.reports
    assert public == entry.report == outcome.report
    asked.mechanism.decode(unpad(payload, asked.report_bytes, asked.mechanism.codec.varies), public)


@pytest.mark.parametrize("packed", [True, False])
def test_a_thousand_repeats_of_the_same_round_reveal_one_report(packed: bool) -> None:
    collector = Collector()
    collector.open(document())
    one = agreed(collector, packed=packed)

    for count in range(1000):
        one.report("snack-survey", RECORD if count % 2 else {"burger": count % 5})  # even if the record changes

    assert len(set(collector.bodies)) == 1
    assert len(one.ledger()) == 1


def test_nothing_is_drawn_or_sent_without_consent() -> None:
    collector = Collector()
    collector.open(document())
    one = device(collector)

    assert code_of(lambda: one.report("snack-survey", RECORD)) == "consent/needed"
    one.consent("snack-survey")
    one.withdraw("snack-survey")
    assert code_of(lambda: one.report("snack-survey", RECORD)) == "consent/withdrawn"
    assert not collector.bodies and not one.ledger()


def test_withdrawal_deletes_what_is_unsent_and_the_ledger_stays(tmp_path: Path) -> None:
    collector = Collector(script=[lose_answer] * 3)
    collector.open(document(schema={"keys": 400}, protocol={"name": "pckv-ue", "epsilon": "1", "max_pairs": 2}))
    one = agreed(collector, tmp_path / "device.db", patience=Patience(tries=3))
    assert one.report("snack-survey", RECORD).state == "waiting"
    payload = collector.reports[0][1]
    assert len(payload) > 100 and payload in (tmp_path / "device.db").read_bytes()

    assert one.withdraw("snack-survey") == 1

    assert one.flush() == []
    assert len(one.ledger()) == 1
    one.close()
    assert payload not in (tmp_path / "device.db").read_bytes()
    with agreed(collector, tmp_path / "device.db") as again:
        assert code_of(lambda: again.report("snack-survey", RECORD)) == "report/withdrawn"
        assert len(again.ledger()) == 1


def test_consent_given_again_goes_on_with_the_next_campaign() -> None:
    collector, watch = Collector(), Watch()
    collector.open(week(0))
    one = agreed(collector, clock=watch)
    one.report("snack-survey", RECORD)
    one.withdraw("snack-survey")
    watch.days_later(7)
    collector.open(week(1))
    one.consent("snack-survey")

    outcome = one.report("snack-survey", RECORD)

    assert outcome.state == "sent" and outcome.epsilon > 0 and outcome.used
    assert len(set(collector.reports)) == 2


def test_consent_is_to_what_was_shown_not_to_what_is_served_later() -> None:
    collector = Collector()
    collector.open(document())
    one = device(collector)
    shown = one.explain("snack-survey")
    collector.open(document(purpose="Who buys what, by name."))
    one.consent("snack-survey", shown)

    assert code_of(lambda: one.report("snack-survey", RECORD)) == "campaign/changed"
    assert not one.ledger()


def test_someone_who_holds_no_key_reports_too() -> None:
    collector = Collector()
    collector.open(document(protocol={"name": "ssr", "epsilon": "1", "max_pairs": 3}))
    assert agreed(collector).report("snack-survey", {}).state == "sent"


@pytest.mark.parametrize("name", [one for one in mechanisms.names() if issubclass(mechanisms.find(one), KeyValue)])
def test_every_question_that_a_device_takes_is_answered_at_one_length_by_all_records(name: str) -> None:
    options: dict[str, Any] = {"topsel": {"sizes": "1:0.5,2:0.5"}}.get(name, {})
    if name in ("ssr", "wsr", "pckv-ue", "pckv-grr", "kv-sw", "wheel", "collision", "split", "apart"):
        options = {"max_pairs": 2}
    collector = Collector()
    collector.open(document(protocol={"name": name, "epsilon": "1", **options}))
    everything = {"burger": 1, "fries": 3, "pepsi": 5}
    for record in ({}, {}, {"fries": 3}, everything, everything, {"unknown": 1}):
        assert agreed(collector).report("snack-survey", record).state == "sent"

    assert len({len(body) for body in collector.bodies}) == 1
    assert len({len(payload) for _, payload in collector.reports}) == 1


@settings(max_examples=60)
@given(st.dictionaries(st.sampled_from(["burger", "fries", "pepsi", "else"]), st.floats()), st.booleans())
def test_no_float_is_on_the_wire_and_lengths_do_not_depend_on_the_record(record: dict[str, float], ssr: bool) -> None:
    protocol = {"name": "ssr", "epsilon": "1", "max_pairs": 3} if ssr else {"name": "kvue", "epsilon": "1"}
    collector = Collector()
    collector.open(document(protocol=protocol))
    one = agreed(collector, packed=False)
    explained = one.explain("snack-survey")

    one.report("snack-survey", record)

    def no_floats(part: Any) -> bool:
        inside = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
        return not isinstance(part, float) and all(no_floats(one) for one in inside)

    assert no_floats(json.loads(collector.bodies[0], parse_float=float))
    assert len(collector.bodies[0]) == explained.wire_bytes
    assert no_floats(json.loads(one.export())) and no_floats(explained.document())


def test_failing_entropy_makes_no_report_and_debits_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    collector = Collector()
    collector.open(document())
    one = agreed(collector)

    def broken(count: int) -> bytes:
        raise OSError("no device")

    one._coins = Coins()
    monkeypatch.setattr("os.urandom", broken)
    with pytest.raises(EntropyError):
        one.report("snack-survey", RECORD)
    monkeypatch.undo()

    assert not collector.bodies and not one.ledger()
    assert one.report("snack-survey", RECORD).state == "sent"


@pytest.mark.parametrize("value", [None, "many", [4], {"a": 1}, 10**400, 4j], ids=lambda value: type(value).__name__)
def test_a_pair_that_cannot_be_read_is_absent_and_its_owner_is_told(value: Any) -> None:
    collector = Collector()
    collector.open(document())
    one = agreed(collector)
    record = {"fries": value, None: 1, "pepsi": 9}
    seen, expected = one.preview("snack-survey", record), [("unreadable", "fries"), ("unknown", "None")]

    assert seen.pairs == one.preview("snack-survey", {"pepsi": 5}).pairs
    outcome = one.report("snack-survey", record)
    assert outcome.state == "sent" and outcome.ignored == seen.ignored
    assert [(note.why, note.key) for note in seen.ignored] == [*expected, ("clamped", "pepsi")]
    assert code_of(lambda: one.preview("snack-survey", record, strict=True)) == "record/unreadable"


def test_a_value_between_levels_is_rounded_at_random_and_its_owner_is_told() -> None:
    stars = Schema(keys=["fries", "pepsi", "tea"], levels={"fries": [1, 2, "2.5"], "pepsi": [0, 1]})
    mechanism = mechanisms.create("kvue", stars, 1)
    seen = look_at({"fries": 2.4, "pepsi": 1, "tea": 0.3}, mechanism)
    (note,) = seen.ignored
    assert (note.why, note.key) == ("rounded", "fries") and len(seen.pairs) == 3
    assert note.sentence == "The value of 'fries' is rounded at random to 2 or 2.5, which smears the shares of levels."
    assert [note.why for note in look_at({"fries": 2.6, "pepsi": 0}, mechanism).ignored] == ["clamped"]
    assert code_of(seen.refuse_ignored) == "record/rounded"


class Trap(dict[str, float]):
    """A record that cannot be looked at."""

    def items(self) -> Any:
        raise ZeroDivisionError


@pytest.mark.parametrize("record", [["fries"], None, 7, "fries", Trap(fries=4)], ids=lambda one: type(one).__name__)
def test_a_report_never_raises_for_the_sake_of_a_record(record: Any) -> None:
    """If it did, silence would tell of the record; only a preview raises."""
    collector = Collector()
    collector.open(document())
    one = agreed(collector)
    assert code_of(lambda: one.preview("snack-survey", record, strict=True)) == "record/record"
    assert not one.ledger()

    outcome = one.report("snack-survey", record)

    assert outcome.state == "sent" and outcome.used and [note.why for note in outcome.ignored] == ["record"]


def test_surplus_pairs_are_named_and_a_repeated_call_says_that_its_record_was_not_used() -> None:
    collector = Collector()
    collector.open(document(protocol={"name": "ssr", "epsilon": "1", "max_pairs": 1}))
    one = agreed(collector)

    first, again = one.report("snack-survey", RECORD), one.report("snack-survey", {})

    assert first.used and [note.why for note in first.ignored] == ["surplus"]
    assert not again.used and again.report == first.report and len(set(collector.reports)) == 1


class Counted(dict[str, float]):
    """A record that counts how often it is read."""

    reads = 0

    def items(self) -> Any:
        self.reads += 1
        return super().items()


def test_a_report_fetches_the_campaign_once_and_reads_the_record_once() -> None:
    collector, record = Collector(), Counted(RECORD)
    campaign = collector.open(document())
    one = agreed(collector)

    collector.gets = 0
    shown = one.explain("snack-survey")
    assert one.report("snack-survey", record, shown=shown).state == "sent"
    assert (collector.gets, len(collector.bodies), record.reads) == (1, 1, 1)

    collector.open(document(name="other-survey"))
    other = one.explain("other-survey")
    assert code_of(lambda: one.report("snack-survey", RECORD, shown=other)) == "consent/other"
    assert one.explain(campaign.hash[:6]).series == "snack-survey"
    assert one.explain(campaign.hash).campaign == campaign


def test_a_campaign_with_another_hash_than_the_one_wanted_is_refused() -> None:
    collector = Collector()
    campaign = collector.open(document())
    wrong = f"{int(campaign.hash[:8], 16) ^ 1:08x}"
    collector.views[wrong] = collector.views["snack-survey"]

    assert code_of(lambda: device(collector).explain(wrong)) == "campaign/changed"
