"""Whatever a collector serves: it is understood exactly, or refused without a word about the record."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyveil.campaign import verification
from keyveil.campaign.documents import Campaign
from keyveil.campaign.rounds import RoundDocument
from keyveil.core.coins import Coins
from keyveil.core.errors import KeyveilError
from keyveil.device import Device
from keyveil.mechanisms.keyvalue.kvue import KVUE
from tests.device.collector import Collector, Sleeper, Watch, document, view_of

RECORD = {"fries": 4}
FAR = "1e999999999"
View = dict[str, Any]


class NoCoins(Coins):
    def bytes(self, count: int) -> bytes:
        raise AssertionError("something was drawn")


def served(**changes: Any) -> View:
    collector = Collector()
    campaign = collector.open(document(**changes))
    view: View = collector.views[campaign.name]
    return copy.deepcopy(view)


def asking(served_view: Any) -> tuple[Device, Collector]:
    """A device that agreed to an honest campaign and now meets something else, without a coin to draw."""
    collector = Collector()
    collector.open(document())
    device = Device(":memory:", collector, clock=Watch(), sleep=Sleeper())
    device.consent("snack-survey")
    device._coins = NoCoins()
    collector.views["snack-survey"] = served_view
    return device, collector


def rehashed(view: View) -> View:
    """The view with hashes that fit what it says: a collector that lies does so consistently."""
    if FAR in json.dumps(view):
        return view  # it would take the collector as long as the device
    try:
        campaign = Campaign.from_document(view["campaign"])
        view["hash"] = campaign.hash
        if view["round"] is not None:
            view["round"]["document"]["campaign"] = campaign.hash
            asked = RoundDocument.from_document(view["round"]["document"], campaign)
            view["round"]["hash"] = asked.hash
    except KeyveilError:
        pass
    return view


def with_campaign(**changes: Any) -> Callable[[], View]:
    def make() -> View:
        view = served()
        view["campaign"].update(changes)
        return rehashed(view)

    return make


def with_round(number: int | None = None, **changes: Any) -> Callable[[], View]:
    def make() -> View:
        view = served()
        view["round"]["document"].update(changes)
        if number is not None:
            view["round"]["number"] = view["round"]["document"]["round"] = number
        return rehashed(view)

    return make


def with_view(**changes: Any) -> Callable[[], View]:
    return lambda: {**served(), **changes}


def stated_hash(where: str) -> Callable[[], View]:
    def make() -> View:
        view = served()
        (view if where == "campaign" else view["round"])["hash"] = "00" * 32
        return view

    return make


def privkvm(**changes: Any) -> Callable[[], View]:
    def make() -> View:
        view = served(protocol={"name": "privkvm", "epsilon": "1", "rounds": 3}, rounds=[{}, {}, {}])
        view["round"]["number"] = view["round"]["document"]["round"] = 2
        view["round"]["document"].update(changes)
        return rehashed(view)

    return make


def unhashed(**changes: Any) -> Callable[[], View]:
    """A view that must be refused before its hash matters: making it would take the collector's room as well."""

    def make() -> View:
        view = served()
        view["campaign"].update(changes)
        return view

    return make


def asks(name: str, keys: int = 3000, **options: Any) -> Callable[[], View]:
    return unhashed(schema={"keys": keys}, protocol={"name": name, "epsilon": "1", **options})


def lacking(name: str) -> Callable[[], View]:
    def make() -> View:
        view = served()
        del view["campaign"][name]
        return rehashed(view)

    return make


def said_twice() -> bytes:
    return json.dumps(served()).replace('{"keyveil": 1,', '{"keyveil": 1, "keyveil": 1,', 1).encode()


HOSTILE: list[tuple[str, Callable[[], Any], str]] = [
    ("not json", lambda: b"<html>", "campaign/document"),
    ("a list", lambda: b"[]", "campaign/document"),
    ("deep nesting", lambda: b'{"campaign":' * 20_000, "campaign/document"),
    ("no campaign", lambda: {"hash": "", "state": "open", "round": None}, "campaign/document"),
    ("null campaign", with_view(campaign=None), "campaign/document"),
    ("too long", lambda: b" " * (5 << 20), "device/limits"),
    ("another name", with_campaign(name="other"), "campaign/changed"),
    ("a wrong hash", stated_hash("campaign"), "campaign/changed"),
    ("a wrong round hash", stated_hash("round"), "campaign/changed"),
    ("a hash of another type", with_view(hash=7), "campaign/changed"),
    ("another purpose", with_campaign(purpose="Who are you?"), "campaign/changed"),
    ("another contact", with_campaign(contact=""), "campaign/changed"),
    ("fewer people needed", with_campaign(min_reports=1), "campaign/changed"),
    ("longer retention", with_campaign(retention_days=3650), "campaign/changed"),
    ("an earlier campaign", with_campaign(rounds=[{"opens": ""}]), "campaign/dates"),
    ("no later campaign", with_campaign(rounds=[{"enough": 3}]), "campaign/changed"),
    ("an unknown mechanism", with_campaign(protocol={"name": "tell-all", "epsilon": "1"}), "mechanism/unknown"),
    ("an unknown round", with_round(mechanism="tell-all"), "mechanism/unknown"),
    ("a path for a name", with_round(mechanism="os:system"), "mechanism/unknown"),
    ("too much epsilon", with_campaign(protocol={"name": "kvue", "epsilon": "33"}), "epsilon/too-large"),
    ("no epsilon", with_campaign(protocol={"name": "kvue", "epsilon": "0"}), "epsilon/invalid"),
    ("epsilon of a float", with_campaign(protocol={"name": "kvue", "epsilon": 1.0}), "document/float"),
    ("epsilon that is no number", with_campaign(protocol={"name": "kvue", "epsilon": "NaN"}), "epsilon/invalid"),
    ("a round above the campaign", with_round(epsilon="2"), "campaign/round"),
    ("another first round", with_round(epsilon="0.5"), "campaign/round"),
    ("another mechanism first", with_round(mechanism="kvoh", options={}), "campaign/round"),
    ("a negative epsilon", with_round(epsilon="-1"), "epsilon/invalid"),
    ("round zero", with_round(number=0), "campaign/round"),
    ("round minus one", with_round(number=-1), "campaign/round"),
    ("round true", with_round(round=True), "campaign/round"),
    ("another campaign's round", lambda: {**served(), "round": served(contact="x")["round"]}, "campaign/changed"),
    ("a part of nobody", with_round(part=["0.5", "0.5"]), "protocol/part"),
    ("a part beyond all", with_round(part=["0", "2"]), "protocol/part"),
    ("a part that is no number", with_round(part=["0", "all"]), "campaign/round"),
    ("parts in many spellings", with_round(part=["0", "1.0"]), "campaign/round"),
    ("a lie about the size", with_round(report_bytes=7), "campaign/round"),
    ("something extra", with_round(user="you"), "campaign/round"),
    ("an unknown option", with_round(options={"leak": 1}), "mechanism/option"),
    ("a broadcast out of range", privkvm(options={"key_epsilon": "0", "fake": [70000] * 3}), "protocol/broadcast"),
    ("a broadcast too short", privkvm(options={"key_epsilon": "0", "fake": [1]}), "protocol/broadcast"),
    ("a broadcast of text", privkvm(options={"key_epsilon": "0", "fake": ["a"] * 3}), "mechanism/option"),
    ("more for keys than there is", privkvm(options={"key_epsilon": "9", "fake": []}), "mechanism/option"),
    ("a question for one key only", lambda: served(protocol={"name": "grr", "epsilon": "1"}), "device/mechanism"),
    ("a question for full records", lambda: served(protocol={"name": "duchi", "epsilon": "1"}), "device/mechanism"),
    ("too many keys", with_campaign(schema={"keys": 1 << 24}), "device/limits"),
    ("a number of keys that is none", with_campaign(schema={"keys": "all"}), "campaign/document"),
    (
        "far too many pairs",
        with_campaign(protocol={"name": "ssr", "epsilon": "1", "max_pairs": 10**6}),
        "device/limits",
    ),
    ("pairs in a text", asks("ssr", max_pairs="300"), "device/limits"),
    ("pairs in other digits", asks("ssr", max_pairs=" ３_００ "), "device/limits"),
    ("sizes in a text", asks("topsel", set_sizes="1:0.5,300:0.5"), "device/limits"),
    ("sizes as an object", asks("topsel", set_sizes={"1": "0.5", "300": "0.5"}), "device/limits"),
    ("pairs of a group", asks("split", groups="ssr:1,kvue:1", options="ssr.max_pairs=300"), "device/limits"),
    ("pairs of a pilot", asks("pilot", options="bins=4; max_pairs=300"), "device/limits"),
    ("sizes of a pilot", asks("pilot", then="topsel", options="set_sizes=1:1,300:1"), "device/limits"),
    ("a pilot that counts far", asks("pilot", most=300), "device/limits"),
    ("pairs of a round", with_round(options={"max_pairs": "300"}), "device/limits"),
    ("large tables", asks("ssr", keys=40_000, max_pairs=110), "device/limits"),
    ("large tables of cells", asks("ssr", keys=4000, max_pairs=10, bins="250"), "device/limits"),
    ("large tables of a pilot", asks("pilot", keys=4000, options="bins=100"), "device/limits"),
    ("a decimal in another spelling", with_campaign(protocol={"name": "kvue", "epsilon": "1.00"}), "campaign/document"),
    (
        "a bound in another spelling",
        with_campaign(schema={"keys": ["a"], "low": "1.0", "high": 5}),
        "campaign/document",
    ),
    ("defaults left out", lacking("retention_days"), "campaign/document"),
    ("a name that stands twice", said_twice, "campaign/document"),
    ("an endless number", with_campaign(schema={"keys": ["a"], "low": 0, "high": FAR}), "device/limits"),
    ("an endless part", with_round(part=["0", FAR]), "device/limits"),
    ("an endless option", privkvm(options={"key_epsilon": FAR, "fake": []}), "device/limits"),
    ("a huge integer", lambda: json.dumps(served()).replace("200000", "9" * 4000).encode(), "document/number"),
]


@pytest.mark.parametrize(
    ("make", "code"), [(make, code) for _, make, code in HOSTILE], ids=[name for name, *_ in HOSTILE]
)
def test_a_hostile_document_is_refused_before_anything_is_drawn(make: Callable[[], Any], code: str) -> None:
    device, collector = asking(make())
    started = time.monotonic()

    with pytest.raises(KeyveilError) as refused:
        device.report("snack-survey", RECORD)

    assert refused.value.code == code
    assert not collector.bodies and not device.ledger()
    assert time.monotonic() - started < 5


def test_a_question_whose_channel_tells_more_than_it_says_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    device, collector = asking(served())
    monkeypatch.setattr(KVUE, "ratio", property(lambda self: 3))  # e^1 < 3
    verification._without_dictionary.cache_clear()  # consent has read the same bytes
    with pytest.raises(KeyveilError) as refused:
        device.report("snack-survey", RECORD)
    assert refused.value.code == "privacy/exceeded"
    assert not collector.bodies


@pytest.mark.parametrize("name", ["../../etc", "a/b", "a?b", "A", "", "a\r\nHost: x"])
def test_a_strange_name_reaches_no_collector(name: str) -> None:
    collector = Collector()
    device = Device(":memory:", collector)
    with pytest.raises(KeyveilError):
        device.explain(name)
    assert collector.gets == 0


def leaves(part: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
    return [path] * bool(path) + [leaf for name, value in inside for leaf in leaves(value, (*path, name))]


def changed(view: View, path: tuple[Any, ...], value: Any) -> View:
    view = copy.deepcopy(view)
    *front, last = path
    part: Any = view
    for name in front:
        part = part[name]
    part[last] = value
    return view


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.sampled_from(["0", "1", "-1", "1/0", "1e400", "NaN", "inf", "ssr", "privkvm", "open", [], {}, [[]], {"a": {}}]),
)
VIEWS = [
    served(),
    served(protocol={"name": "ssr", "epsilon": "1", "max_pairs": 3}),
    served(protocol={"name": "pilot", "epsilon": "1"}),
    privkvm()(),
]


@settings(max_examples=400)
@given(st.sampled_from(VIEWS).flatmap(lambda view: st.tuples(st.just(view), st.sampled_from(leaves(view)))), JUNK)
def test_junk_anywhere_is_refused_with_a_sentence_or_changes_nothing(
    chosen: tuple[View, tuple[Any, ...]], junk: Any
) -> None:
    view, path = chosen
    collector = Collector(views={"snack-survey": rehashed_if_possible(changed(view, path, junk))})
    device = Device(":memory:", collector, clock=Watch(), sleep=Sleeper())
    try:
        device.consent("snack-survey")
        outcome = device.report("snack-survey", RECORD)
    except KeyveilError:
        assert not collector.bodies and not device.ledger()
        return
    assert outcome.state in ("sent", "closed", "between", "not-asked")
    assert sum(entry.epsilon for entry in device.ledger()) <= 2


def rehashed_if_possible(view: View) -> View:
    try:
        return rehashed(view)
    except (TypeError, ValueError, LookupError, AttributeError):
        return view


def test_a_views_helper_makes_what_an_honest_collector_serves() -> None:
    campaign = Campaign.from_document(document())
    first = campaign.protocol.next_round([])
    assert first is not None
    assert rehashed(served()) == view_of(campaign, RoundDocument.of(campaign, first))


def test_what_strangers_write_cannot_steer_a_terminal() -> None:
    view = served(purpose="Hello\x1b[2J\x07\r there\u202e", contact="\x1b]0;x\x07")
    collector = Collector(views={"snack-survey": view})
    text = Device(":memory:", collector).explain("snack-survey").text
    assert all(letter.isprintable() or letter == "\n" for letter in text)

    device, _ = asking(unhashed(protocol={"name": "kvue", "epsilon": "1", "\x1b[2J\x07": 10**12})())
    with pytest.raises(KeyveilError) as refused:
        device.report("snack-survey", RECORD)
    assert refused.value.code == "device/limits" and refused.value.sentence.isprintable()


def test_a_document_that_needs_more_memory_than_there_is_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(*_: Any) -> Campaign:
        raise MemoryError

    device, _ = asking(served())
    monkeypatch.setattr(Campaign, "from_document", no_room)
    verification._without_dictionary.cache_clear()
    with pytest.raises(KeyveilError) as refused:
        device.report("snack-survey", RECORD)
    assert refused.value.code == "device/limits"


def test_the_price_of_a_table_with_many_rows_is_computed_at_once() -> None:
    collector = Collector()
    collector.open(document(protocol={"name": "kvue", "epsilon": "1", "bins": 256}))
    started = time.monotonic()
    epsilon = Device(":memory:", collector, clock=Watch()).explain("snack-survey").epsilon
    assert epsilon is not None and 0.99 < epsilon <= 1
    assert time.monotonic() - started < 5
