"""Before anybody agrees: what, why, at what price, how often, until when, to whom, and what was spent already."""

from __future__ import annotations

from fractions import Fraction

from keyveil.campaign.wire import from_packed
from keyveil.device import Caps, Device
from tests.device.collector import Collector, Sleeper, Watch, document

DATED = document(rounds=[{"opens": "2026-11-20", "closes": "2026-12-01"}])


def test_a_person_is_told_everything_that_the_campaign_says_and_more() -> None:
    collector = Collector()
    campaign = collector.open(DATED)
    device = Device(":memory:", collector, clock=Watch(), sleep=Sleeper())

    before = device.explain("snack-survey")

    for said in (
        "Which snacks people buy and how they rate them. Nobody sees your answers.",
        "which of 3 keys you have (burger, fries, pepsi), values from 1 to 5",
        "one report",
        "2026-12-01",
        "epsilon 1 for the whole campaign (kvue)",
        "computed on this device",
        "at most 30 days",
        "before 1000 people",
        "privacy@example.org",
        campaign.hash[:8],
        "a random id of 16 bytes and a randomised answer",
        "1 bytes whatever you have (63 bytes with the envelope)",
        "about these keys in 30 days: 0 of 2",
        "about everything ever: 0 of 16",
        "not given yet",
    ):
        assert said in before.text
    assert before.epsilon is not None and before.epsilon < 1
    assert before.refusal is None and not before.agreed

    device.consent("snack-survey", before)
    device.report("snack-survey", {"fries": 4})
    after = device.explain("snack-survey")
    assert after.agreed and "about everything ever: 1 of 16" in after.text  # rounded up for people
    assert len(collector.bodies[0]) == after.wire_bytes
    assert len(from_packed(collector.bodies[0]).payloads[0]) == 1


def test_who_is_asked_something_else_is_said_and_reports() -> None:
    """With everybody but a few in the overflow group, its people answer through the same device."""
    collector = Collector()
    capped = {"name": "ssr", "epsilon": "1", "max_pairs": 1, "overflow": "0.75"}
    collector.open(document(protocol=capped, rounds=DATED["rounds"]))
    device = Device(":memory:", collector, clock=Watch(), sleep=Sleeper())
    told = device.explain("snack-survey")
    assert "75 of 100 people, chosen by the random id, are asked how far they exceed" in told.text
    assert "1 key, at the same epsilon" in told.text
    device.consent("snack-survey", told)
    device.report("snack-survey", {"fries": 4, "pepsi": 1})
    assert len(collector.bodies[0]) == told.wire_bytes


def test_explaining_changes_nothing() -> None:
    collector = Collector()
    collector.open(DATED)
    device = Device(":memory:", collector, clock=Watch())
    before = "\n".join(device.vault.connection.iterdump())
    device.explain("snack-survey")
    assert "\n".join(device.vault.connection.iterdump()) == before
    assert not collector.bodies


def test_a_verdict_says_why_the_device_would_not_answer() -> None:
    collector, watch = Collector(), Watch()
    collector.open(DATED)
    strict = Device(":memory:", collector, Caps(life=Fraction(1, 2)), watch)
    assert "everything ever" in (strict.explain("snack-survey").refusal or "")
    watch.days_later(30)
    assert "not open today" in Device(":memory:", collector, clock=watch).explain("snack-survey").text


def test_a_changed_campaign_is_pointed_out() -> None:
    collector = Collector()
    collector.open(DATED)
    device = Device(":memory:", collector, clock=Watch())
    device.consent("snack-survey")
    collector.open(document(purpose="Something else."))
    changed = device.explain("snack-survey")
    assert not changed.agreed and "has changed" in changed.text


def test_many_keys_and_no_open_round_are_told_briefly() -> None:
    collector = Collector()
    collector.open(document(schema={"keys": 5000, "low": 0, "high": 1}))
    collector.views["snack-survey"]["round"] = None
    text = Device(":memory:", collector, clock=Watch()).explain("snack-survey").text
    assert "which of 5000 keys you have (0, 1, 2" in text and "nothing is asked" in text
    assert "and 4988 that are not named here" in text
    assert len(text) < 1500


def test_every_key_is_named_if_wanted() -> None:
    collector = Collector()
    collector.open(document(schema={"keys": [*"abcdefghijkl", "hiv-positive\x1b[2J"], "low": 0, "high": 1}))
    explained = Device(":memory:", collector, clock=Watch()).explain("snack-survey")
    assert explained.unnamed == 1 and "and 1 that are not named here" in explained.text
    assert "l, hiv-positive [2J)" in explained.page(every_key=True)


def test_a_series_that_goes_on_and_a_protocol_of_several_rounds_are_pointed_out() -> None:
    collector = Collector()
    collector.open(DATED)
    assert "go on under your consent" in Device(":memory:", collector, clock=Watch()).explain("snack-survey").text
    collector.open(document(protocol={"name": "pilot", "epsilon": "1"}))
    text = Device(":memory:", collector, clock=Watch()).explain("snack-survey").text
    assert "one report in each round that asks you" in text and "go on under" not in text
