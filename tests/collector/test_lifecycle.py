"""The end of a campaign: archived, deleted, forgotten, and without cost when nothing happens."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event, func, select

from keyveil.collector import tables
from keyveil.collector.service import Service, ServiceLimits
from tests.collector.campaigns import batch_of, refusal, snacks, started
from tests.collector.conftest import SetClock


def rows(service: Service) -> dict[str, int]:
    """How many rows each table has."""
    with service.database.read() as connection:
        return {
            table.name: int(connection.execute(select(func.count()).select_from(table)).scalar() or 0)
            for table in tables.metadata.sorted_tables
        }


def finished(service: Service, **fields: Any) -> None:
    """A campaign with enrolment that has been counted to its end."""
    document = started(service, enrolment="token", min_reports=2, **fields)
    name = fields.get("name", "snacks")
    for token in service.enrol(name, 4)[:3]:
        service.submit(name, batch_of(document, 1), token).result()
    service.act(name, "stop")
    service.settle()


def test_an_archived_campaign_keeps_its_estimates_and_nothing_about_single_reports(service: Service) -> None:
    document = started(service, enrolment="token", min_reports=2)
    for token in service.enrol("snacks", 4)[:3]:
        service.submit("snacks", batch_of(document, 1), token).result()
    assert refusal(lambda: service.act("snacks", "archive")) == "campaign/state"
    service.act("snacks", "stop")
    service.settle()
    before = service.estimates("snacks").frequency.values
    assert service.act("snacks", "archive")["state"] == "archived"
    service.settle()

    assert (service.estimates("snacks").frequency.values == before).all()
    assert service.status("snacks")["reports"] == 3 and len(service.status("snacks")["arrivals"]) == 1
    left = rows(service)
    assert (left["report"], left["enrolment"], left["participation"], left["batch"]) == (0, 0, 0, 1)
    assert refusal(lambda: service.submit("snacks", batch_of(document, 1), "any").result()) == "round/closed"
    assert refusal(lambda: service.act("snacks", "archive")) == "campaign/state"
    assert refusal(lambda: service.enrol("snacks", 1)) == "campaign/state"


def test_a_deleted_campaign_leaves_its_hash_so_that_it_is_never_made_again(service: Service) -> None:
    started(service)
    assert refusal(lambda: service.delete("snacks")) == "campaign/state"
    service.act("snacks", "stop")
    service.settle()
    finished(service, name="others")
    whole = service.view("snacks")["hash"]
    service.delete("snacks")
    service.settle()

    for name in ("snacks", whole, whole[:8]):
        assert refusal(lambda name=name: service.view(name, drafts=True)) == "campaign/unknown"  # type: ignore[misc]
    assert [one["name"] for one in service.campaigns()] == ["others"]
    assert refusal(lambda: service.create(snacks())) == "campaign/exists"
    assert service.estimates("others").n == 3
    service.delete("others")
    service.settle()
    kept = {name: count for name, count in rows(service).items() if count and name not in ("journal", "clock")}
    assert kept == {"campaign": 2}
    assert service.create(snacks(purpose="The same name, another campaign."))["state"] == "draft"


def test_a_list_of_keys_goes_with_the_last_campaign_that_names_it(service: Service) -> None:
    keys = [f"key-{number}" for number in range(3)]
    name = service.put_dictionary(json.dumps(keys, separators=(",", ":")).encode())
    for number in (1, 2):
        service.create(
            snacks(name=f"list-{number}", schema={"keys": {"sha256": name, "count": 3}, "low": 1, "high": 5})
        )
    service.delete("list-1")
    assert rows(service)["dictionary"] == 1
    service.delete("list-2")
    assert rows(service)["dictionary"] == 0


def test_ids_are_forgotten_when_the_operator_says_so_and_replays_are_refused(
    open_service: Callable[..., Service], clock: SetClock
) -> None:
    service = open_service(limits=ServiceLimits(id_days=10))
    document = started(service, retention_days=2)
    batch = batch_of(document, 20)
    service.submit("snacks", batch).result()
    service.settle()
    clock.moment += timedelta(days=11)
    service.settle()
    assert rows(service)["report"] == 20  # the round is open: without its ids a report could count twice
    assert service.submit("snacks", batch).result().duplicates == 20
    service.act("snacks", "stop")
    service.settle()
    clock.moment += timedelta(days=9)
    service.settle()
    assert rows(service)["report"] == 20
    clock.moment += timedelta(days=1)
    service.settle()

    assert rows(service)["report"] == 0
    assert refusal(lambda: service.submit("snacks", batch).result()) == "round/closed"
    assert service.tally("snacks")[1].reports == 20 and service.status("snacks")["reports"] == 20


def test_finished_campaigns_cost_nothing_when_idle(service: Service, clock: SetClock) -> None:
    """The tick asks the database as much for ten finished campaigns as for one."""

    def asked_in_a_tick() -> int:
        seen = []

        def count(*_: Any) -> None:
            seen.append(1)

        event.listen(service.database.engine, "before_cursor_execute", count)
        service.tick()
        event.remove(service.database.engine, "before_cursor_execute", count)
        return len(seen)

    costs = []
    for number in range(4):
        document = started(service, name=f"one-{number}", retention_days=0)
        if number % 2:
            service.submit(f"one-{number}", batch_of(document, 20)).result()
        service.act(f"one-{number}", "stop")
        service.settle()
        clock.moment += timedelta(hours=6)
        service.settle()
        costs.append(asked_in_a_tick())
    assert costs == [costs[0]] * 4 and costs[0] <= 8  # with "BEGIN"


def test_a_clock_that_jumps_closes_nothing_and_forgets_nothing(service: Service, clock: SetClock) -> None:
    day = clock.moment.date()
    document = started(service, rounds=[{"closes": f"{day + timedelta(days=5)}"}], retention_days=3)
    service.submit("snacks", batch_of(document, 20)).result()
    service.settle()
    clock.jump(timedelta(days=8))
    service.settle()

    assert service.view("snacks")["round"]["state"] == "open"
    assert service.clock.held == timedelta(days=8) and service.clock().date() == day
    assert service.health.own_gauges()["clock_held_seconds"] == 8 * 86400
    assert payloads(service) == 20
    assert service.submit("snacks", batch_of(document, 3)).result().accepted == 3
    clock.moment += timedelta(minutes=59)
    service.settle()
    assert service.view("snacks")["round"]["state"] == "open"
    clock.moment += timedelta(minutes=2)  # for an hour the clock has kept its new pace
    service.settle()
    assert service.view("snacks")["round"]["state"] == "folded"
    assert payloads(service) == 0
    assert [one["action"] for one in service.journal.entries() if one["subject"] == "clock"] == [
        "clock.held",
        "clock.believed",
    ]


@pytest.mark.parametrize("jump", [timedelta(days=400), timedelta(days=-400)])
def test_a_clock_that_jumps_far_is_believed_only_when_an_admin_says_so(
    open_service: Callable[..., Service], clock: SetClock, jump: timedelta
) -> None:
    one, other = open_service(), open_service()
    for service in (one, other):
        service.settle()
    clock.jump(jump)
    for _ in range(5):
        clock.moment += timedelta(hours=1)
        for service in (one, other):
            service.settle()
            assert service.clock.held == jump
    one.clock.confirm("anna")
    other.settle()

    assert one.clock.held is None and other.clock.held is None
    last = list(one.journal.entries())[-1]
    assert (last["action"], last["actor"], last["detail"]) == ("clock.confirm", "anna", {"hours": jump.days * 24})


def test_a_start_after_a_long_time_asks_whether_the_clock_is_right(
    open_service: Callable[..., Service], clock: SetClock
) -> None:
    first = open_service()
    first.settle()
    first.close()
    clock.jump(timedelta(days=2))
    second = open_service()
    assert second.clock.held is None
    second.settle()
    second.close()
    clock.jump(timedelta(days=10))

    assert open_service().clock.held == timedelta(days=10)


def test_a_token_that_a_wrong_clock_would_let_expire_can_set_it_right(service: Service, clock: SetClock) -> None:
    token = service.roles.grant("admin", "anna", expires=clock.moment.date() + timedelta(days=30))
    clock.jump(timedelta(days=400))
    service.settle()
    assert service.roles.admit(token) is not None
    clock.jump(timedelta(days=-400))
    clock.moment += timedelta(days=31)
    service.settle()
    assert service.roles.admit(token) is None


def payloads(service: Service) -> int:
    with service.database.read() as connection:
        return int(connection.execute(select(func.count()).where(tables.report.c.payload.is_not(None))).scalar() or 0)
