"""Caps: for a period and for life, about one schema and about everything, whatever the clock says."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from keyveil.core.errors import KeyveilError, PrivacyError
from keyveil.device import Caps
from tests.device.collector import Collector, Watch, document
from tests.device.owner import RECORD, NoCoins, agreed, code_of, device


@pytest.mark.parametrize(
    ("caps", "said"),
    [
        (Caps(schema_period="0.5"), "these keys in 30 days"),
        (Caps(schema_life="0.5"), "these keys ever"),
        (Caps(period="0.5"), "everything in 30 days"),
        (Caps(life="0.5"), "everything ever"),
    ],
)
def test_every_cap_refuses_before_anything_is_drawn(caps: Caps, said: str) -> None:
    collector = Collector()
    collector.open(document())
    one = agreed(collector, caps=caps)
    one._coins = NoCoins()

    with pytest.raises(PrivacyError, match=said) as refused:
        one.report("snack-survey", RECORD)

    assert refused.value.code == "budget/exceeded"
    assert said in (one.explain("snack-survey").refusal or "")
    assert not collector.bodies and not one.ledger()


def test_caps_may_be_a_mapping_of_some_of_them(tmp_path: Path) -> None:
    with device(Collector(), tmp_path / "device.db", caps={"life": "0.5", "days": 60}) as one:
        assert one.caps == Caps(life="0.5", days=60)
        one.limit({"period": "0.25"})
        assert one.caps == Caps(life="0.5", days=60, period="0.25")
    with device(Collector(), tmp_path / "device.db", caps={"schema_life": 1}) as again:
        assert again.caps == Caps(life="0.5", days=60, period="0.25", schema_life=1)


@pytest.mark.parametrize(
    ("caps", "code", "said"),
    [
        ({"lifes": 1}, "epsilon/cap", "There is no cap 'lifes' (did you mean life?)."),
        ({"weekly": 1}, "epsilon/cap", "there are days, schema_period"),
        (4, "epsilon/cap", "not int"),
        ({"life": "much"}, "epsilon/invalid", "The cap life is an exact decimal"),
        ({"life": None}, "epsilon/invalid", "The cap life is an exact decimal"),
        ({"life": -1}, "epsilon/invalid", "below zero"),
        ({"days": "7"}, "budget/invalid", "whole number of days"),
        ({"days": 0}, "budget/invalid", "from 1"),
        ({3: 4}, "epsilon/cap", "There is no cap 3"),
    ],
    ids=str,
)
def test_caps_that_make_no_sense_are_refused_in_one_sentence(caps: Any, code: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(KeyveilError) as refused:
        device(Collector(), tmp_path / "device.db", caps=caps)

    assert refused.value.code == code and said in refused.value.sentence
    assert not (tmp_path / "device.db").exists()
    assert code_of(lambda: device(Collector()).limit(caps)) == code


def test_a_cap_of_exactly_the_price_suffices() -> None:
    collector = Collector()
    collector.open(document())
    price = agreed(collector).explain("snack-survey").epsilon
    assert price is not None and price < 1
    assert agreed(collector, caps=Caps(life=price)).report("snack-survey", RECORD).state == "sent"
    less = price - Fraction(1, 10**30)
    assert code_of(lambda: agreed(collector, caps=Caps(life=less)).report("snack-survey", RECORD)) == "budget/exceeded"


def test_a_period_rolls_on_but_a_clock_set_back_gives_nothing_back() -> None:
    collector, watch = Collector(), Watch()
    one = device(collector, clock=watch, caps=Caps(days=30, schema_period=1, period=1, schema_life=100, life=3))

    def ask(name: str) -> str | None:
        collector.open(document(name=name))
        one.consent(name)
        try:
            return one.report(name, RECORD).state
        except PrivacyError as refused:
            return refused.code

    assert ask("first") == "sent"
    watch.days_later(29)
    assert ask("second") == "budget/exceeded"
    watch.days_later(-400)
    assert ask("second") == "budget/exceeded"
    watch.days_later(401)
    assert ask("second") == "sent"  # thirty days after the first
    watch.days_later(-300)
    assert ask("third") == "budget/exceeded"  # the latest day counts, not the clock
    watch.days_later(330)
    assert ask("third") == "sent"
    watch.days_later(365)
    assert ask("fourth") == "budget/exceeded"  # the life's cap


def test_a_clock_that_jumps_far_ahead_is_noticed_and_one_that_did_is_named() -> None:
    collector, watch = Collector(), Watch()
    collector.open(document())
    one = agreed(collector, clock=watch)
    watch.days_later(4000)
    assert code_of(lambda: one.report("snack-survey", RECORD)) == "device/clock"
    assert "set the clock" in (one.explain("snack-survey").refusal or "") and not one.ledger()

    one.trust_clock()
    assert one.report("snack-survey", RECORD).state == "sent"
    watch.days_later(-4000)
    assert "was once at 2037" in one.explain("snack-survey").text


def test_other_schemas_have_room_of_their_own_up_to_the_overall_cap() -> None:
    collector = Collector()
    one = device(collector, caps=Caps(schema_period=1, schema_life=1, period=2, life=2))

    def ask(name: str, high: int) -> str:
        collector.open(document(name=name, schema={"keys": ["a", "b"], "low": 1, "high": high}))
        one.consent(name)
        try:
            return one.report(name, {}).state
        except PrivacyError as refused:
            return refused.sentence

    assert ask("a", 5) == "sent"
    assert "these keys" in ask("b", 5)
    assert ask("c", 6) == "sent"
    assert "everything" in ask("d", 7)


@pytest.mark.parametrize("bad", [{"days": 0}, {"life": -1}, {"period": "much"}, {"life": float("nan")}])
def test_caps_that_make_no_sense_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(KeyveilError):
        Caps(**bad)


def test_caps_are_kept_in_the_file_and_only_the_owners_word_loosens_them(tmp_path: Path) -> None:
    path, collector = tmp_path / "device.db", Collector()
    collector.open(document())
    with agreed(collector, path, caps=Caps(life="0.5")) as one:
        assert code_of(lambda: one.report("snack-survey", RECORD)) == "budget/exceeded"
    with device(collector, path) as one:  # nothing said: as before
        assert code_of(lambda: one.report("snack-survey", RECORD)) == "budget/exceeded"
        one.limit({"days": 60, "period": 3})  # tighter
    for looser in (Caps(life=16), Caps(life="0.5"), Caps(life="0.4", days=59, period=3)):
        assert code_of(lambda caps=looser: device(collector, path, caps=caps)) == "budget/looser"
    with device(collector, path) as one:
        assert code_of(lambda: one.limit({"life": 1})) == "budget/looser"
        assert one.caps == Caps(life="0.5", days=60, period=3)
        one.limit({"life": 1}, loosen=True)
    with device(collector, path) as one:
        assert one.caps == Caps(life=1, days=60, period=3)
        assert one.report("snack-survey", RECORD).state == "sent"
