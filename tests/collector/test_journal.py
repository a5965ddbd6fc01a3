"""The journal has every act and every step once, in an unbroken chain, and nothing about senders."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from keyveil.collector.service import Service
from keyveil.core.chain import verify
from keyveil.core.errors import KeyveilError
from tests.collector.campaigns import asked, batch_of, snacks


def acted(service: Service) -> None:
    service.roles.grant("analyst", "bob", ["snacks"], by="anna")
    service.create(snacks(enrolment="token", min_reports=1, rounds=[{"enough": 1}]), by="anna")
    service.act("snacks", "open", by="anna")
    token, spare = service.enrol("snacks", 2, by="anna")
    service.submit("snacks", batch_of(asked(service), 1), token).result()
    service.settle()
    list(service.export("snacks", by="anna"))
    service.revoke("snacks", [spare, spare], by="anna")
    service.act("snacks", "archive", by="anna")
    service.delete("snacks", by="anna")
    service.roles.revoke("bob", by="anna")


def test_every_act_and_every_step_is_written_down_once(service: Service) -> None:
    acted(service)
    entries = list(service.journal.entries())

    assert [(one["action"], one["actor"]) for one in entries] == [
        ("token.create", "anna"),
        ("campaign.draft", "anna"),
        ("campaign.open", "anna"),
        ("round.open", "anna"),
        ("enrolment.create", "anna"),
        ("round.closed", "collector"),
        ("round.folded", "collector"),
        ("campaign.closed", "collector"),
        ("campaign.estimated", "collector"),
        ("reports.export", "anna"),
        ("enrolment.revoke", "anna"),
        ("campaign.archived", "anna"),
        ("campaign.deleted", "anna"),
        ("token.revoke", "anna"),
    ]
    assert verify(entries) == (len(entries), entries[-1]["hash"])
    times = {one["actor"]: one["at"] for one in entries}
    assert times == {"anna": "2026-11-20T12:00Z", "collector": "2026-11-20T12:00Z"}
    assert entries[4]["detail"] == {"name": "snacks", "count": 2} and entries[10]["detail"]["count"] == 1


def changed(entries: list[Any]) -> None:
    entries[3]["actor"] = "bob"


def removed(entries: list[Any]) -> None:
    del entries[3]


def swapped(entries: list[Any]) -> None:
    entries[3], entries[4] = entries[4], entries[3]


def more(entries: list[Any]) -> None:
    entries[3]["seen"] = True


def strange(entries: list[Any]) -> None:
    entries[3]["detail"] = {"share": 0.5}


@pytest.mark.parametrize("how", [changed, removed, swapped, more, strange])
def test_whatever_was_tampered_with_is_found(service: Service, how: Callable[[list[Any]], None]) -> None:
    acted(service)
    entries = list(service.journal.entries())
    how(entries)

    with pytest.raises(KeyveilError) as refused:
        verify(entries)
    assert refused.value.code == "journal/broken"


def test_an_end_that_was_cut_off_is_found_with_a_hash_that_was_noted(service: Service) -> None:
    acted(service)
    entries = list(service.journal.entries())
    noted = entries[-1]["hash"]
    verify(entries, noted)
    verify(entries[:-1])

    with pytest.raises(KeyveilError) as refused:
        verify(entries[:-1], noted)
    assert refused.value.code == "journal/broken"


def test_several_processes_write_one_chain(open_service: Callable[..., Service]) -> None:
    services = [open_service() for _ in range(3)]

    def note(number: int) -> None:
        for _ in range(5):
            services[number % 3].journal.note("anna", "test.note", f"by {number}")

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(note, range(6)))

    assert verify(services[0].journal.entries())[0] == 30


def test_a_step_that_fails_is_not_written_down(service: Service) -> None:
    with pytest.raises(KeyveilError):
        service.act("nothing", "open", by="anna")
    service.create(snacks())
    with pytest.raises(KeyveilError):
        service.act("snacks", "archive", by="anna")

    assert [one["action"] for one in service.journal.entries()] == ["campaign.draft"]
