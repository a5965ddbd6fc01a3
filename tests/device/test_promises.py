"""What the owner agreed to is held to: the last day, the protocol, one campaign at a time, one collector at a time."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from keyveil.core.errors import DeviceError
from keyveil.mechanisms.registry import create
from keyveil.protocols.base import Round
from tests.device.collector import Collector, Watch, document, later_round, problem
from tests.device.owner import GENEROUS, RECORD, agreed, code_of, week

# -- until when, and what ---------------------------------------------------------------------------------------


def test_nothing_is_answered_after_the_last_day_that_was_shown() -> None:
    made = document(
        protocol={"name": "pilot", "epsilon": "1", "share": "0.000000000001"},  # as good as all are the rest
        rounds=[{"opens": "2026-11-20", "closes": "2026-11-21"}],
    )
    collector, watch = Collector(), Watch()
    campaign = collector.open(made)
    one = agreed(collector, clock=watch)
    assert one.explain("snack-survey").until == "2026-11-21"
    collector.open(made, later_round(campaign, 2))

    for day in (
        datetime(2026, 11, 19, tzinfo=UTC),
        datetime(2026, 11, 22, tzinfo=UTC),
        datetime(2037, 1, 1, tzinfo=UTC),
    ):
        watch.now = day
        assert code_of(lambda: one.report("snack-survey", RECORD)) == "round/closed"
    watch.now = datetime(2026, 11, 21, tzinfo=UTC)
    assert one.report("snack-survey", RECORD).state == "sent"  # a round that is not listed ends with the campaign


@pytest.mark.parametrize(
    ("protocol", "number", "kind"),
    [
        ({"name": "kvue", "epsilon": "1"}, 2, "ssr"),  # one report was agreed to
        ({"name": "kvue", "epsilon": "1"}, 2, "kvue"),
        ({"name": "pilot", "epsilon": "1"}, 3, "ssr"),
        ({"name": "pilot", "epsilon": "1"}, 2, "kvoh"),  # something else than the pilot prepares
        ({"name": "privkvm", "epsilon": "1", "rounds": 3}, 2, "kvue"),
        ({"name": "split", "epsilon": "1", "groups": "ssr:1,kvue:1", "max_pairs": 2}, 2, "ssr"),
        ({"name": "split", "epsilon": "1", "groups": "ssr:1,kvue:1", "max_pairs": 2}, 2, "kvue"),  # of everybody
    ],
)
def test_a_round_that_the_protocol_would_not_ask_is_refused(protocol: dict[str, Any], number: int, kind: str) -> None:
    made = document(protocol=protocol)
    collector = Collector()
    campaign = collector.open(made)
    one = agreed(collector)
    options = {"max_pairs": 1} if kind == "ssr" else {}
    collector.open(made, Round(number, create(kind, campaign.schema, "0.5", **options)))

    assert code_of(lambda: one.report("snack-survey", RECORD)) == "campaign/round"
    assert not collector.bodies and not one.ledger()


# -- one campaign at a time -------------------------------------------------------------------------------------


def days(*windows: tuple[int, int], **more: Any) -> list[dict[str, Any]]:
    """Windows by days counted from the day on which the tests begin."""
    first = date(2026, 11, 20)
    return [
        {"opens": (first + timedelta(opens)).isoformat(), "closes": (first + timedelta(closes)).isoformat(), **more}
        for opens, closes in windows
    ]


def test_one_consent_is_one_report_a_day_however_many_later_campaigns_are_served() -> None:
    collector = Collector()
    collector.open(document(rounds=[{}]))
    one = agreed(collector, caps=GENEROUS)
    one.report("snack-survey", RECORD)

    for number in range(1, 8):
        collector.open(document(rounds=[{}] * 20 + [{"opens": f"2026-12-0{number}"}]))
        assert code_of(lambda: one.report("snack-survey", {"fries": 1})) == "campaign/changed"
        collector.open(document(rounds=[{"opens": f"2026-12-0{number}"}]))
        assert code_of(lambda: one.report("snack-survey", {"fries": 1})) == "campaign/changed"
    assert len(one.ledger()) == 1


@pytest.mark.parametrize(
    ("rounds", "day", "code"),
    [
        (days((7, 13)), 7, None),  # the next week
        (days((7, 13)), 6, "round/closed"),  # not yet
        (days((6, 13)), 7, "campaign/changed"),  # begins before the last one has closed
        ([{"opens": "2026-11-27"}], 7, "campaign/changed"),  # without an end there would be no next one
        ([{"closes": "2026-12-03"}], 7, "campaign/changed"),
        ([{}], 7, "campaign/changed"),
        (days((7, 13), (14, 20)), 7, "campaign/changed"),  # more rounds than were agreed to
        (days((7, 13), enough=5), 7, "campaign/changed"),  # another number of people
    ],
)
def test_a_later_campaign_has_dates_and_begins_after_the_last_one(rounds: Any, day: int, code: str | None) -> None:
    collector, watch = Collector(), Watch()
    collector.open(week(0))
    one = agreed(collector, clock=watch, caps=GENEROUS)
    one.report("snack-survey", RECORD)
    watch.days_later(day)
    collector.open(document(rounds=rounds))

    if code is None:
        assert one.report("snack-survey", {"fries": 1}).state == "sent"
    else:
        assert code_of(lambda: one.report("snack-survey", {"fries": 1})) == code
        assert len(one.ledger()) == 1


def test_a_round_without_a_day_on_which_it_opens_makes_no_later_campaign() -> None:
    collector, watch, pilot = Collector(), Watch(), {"name": "pilot", "epsilon": "1"}
    collector.open(document(protocol=pilot, rounds=days((0, 2), (3, 6))))
    one = agreed(collector, clock=watch)
    watch.days_later(7)
    collector.open(document(protocol=pilot, rounds=[*days((7, 9)), {"closes": "2026-12-03"}]))
    assert code_of(lambda: one.report("snack-survey", RECORD)) == "campaign/changed"
    collector.open(document(protocol=pilot, rounds=days((7, 9), (10, 13))))
    assert one.report("snack-survey", RECORD).state in ("sent", "not-asked")


# -- one collector at a time ------------------------------------------------------------------------------------


def test_a_token_and_a_report_for_one_collector_do_not_reach_another_that_serves_the_same(tmp_path: Path) -> None:
    path, here, there = tmp_path / "device.db", Collector(), Collector()
    here.script = [lambda batch: problem(503, "storage/unavailable", retry_after="3600")]
    made = document(enrolment="token", protocol={"name": "pilot", "epsilon": "1", "share": "0.999999999999"})
    for collector in (here, there):
        collector.open(made)
    with agreed(here, path, collector="https://here.example", caps=GENEROUS) as one:
        first = one.report("snack-survey", RECORD, token="kv-for-here")
        assert first.state == "waiting"
    with agreed(there, path, collector="https://there.example", caps=GENEROUS) as other:
        with pytest.raises(DeviceError, match="enrolled"):  # before anything is drawn or paid for
            other.report("snack-survey", RECORD)
        assert len(other.ledger()) == 1
        second = other.report("snack-survey", RECORD, token="kv-for-there")

        assert second.state == "sent" and second.epsilon > 0  # a report of its own, at its own price
        assert there.headers[0]["Authorization"] == "Bearer kv-for-there"
        assert second.report != first.report  # nor the seat: the two cannot be linked
        assert len(other.ledger()) == 2
        assert b"kv-for-here" not in other.export() and len(other.export()) > 500
    with agreed(here, path, collector="https://here.example", caps=GENEROUS) as one:
        assert [outcome.state for outcome in one.flush()] == ["sent"]
        assert here.headers[-1]["Authorization"] == "Bearer kv-for-here"


def test_every_collector_is_in_a_round_of_its_own(tmp_path: Path) -> None:
    path, here, there = tmp_path / "device.db", Collector(), Collector()
    made = document(protocol={"name": "privkvm", "epsilon": "1", "rounds": 3})
    campaign = there.open(made)
    here.open(made, later_round(campaign, 2, fake=(7,) * campaign.schema.d))

    for collector, name in ((here, "https://here.example"), (there, "https://there.example")):
        with agreed(collector, path, collector=name) as one:
            assert one.report("snack-survey", RECORD).state == "sent"
            assert one.ledger()[-1].round == (2 if collector is here else 1)
