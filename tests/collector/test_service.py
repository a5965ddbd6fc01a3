"""The collector without HTTP, on SQLite and on PostgreSQL: every report once, states only forward."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from datetime import timedelta
from itertools import count as count_from
from typing import Any

import pytest
from sqlalchemy import func, select

from keyveil.campaign.wire import Batch
from keyveil.collector import rounds, tables
from keyveil.collector import service as service_module
from keyveil.collector.service import Service
from keyveil.collector.storing import UploadResult
from keyveil.core.canonical import canonical
from tests.collector.campaigns import asked, batch_of, count, merged, refusal, snacks, started
from tests.collector.conftest import SetClock


def test_reports_are_stored_folded_and_estimated(service: Service) -> None:
    document = started(service)
    batch = batch_of(document, 200)

    assert service.submit("snacks", batch).result() == UploadResult(200, 0)
    service.settle()

    mechanism, tally = service.tally("snacks")
    assert tally.to_bytes() == count(document, list(batch)).to_bytes()
    assert mechanism == document.mechanism
    assert service.estimates("snacks").n == 200
    assert service.status("snacks")["rounds"][0]["folded"] == 200


def test_repeats_are_duplicates_and_other_bytes_are_refused(service: Service) -> None:
    document = started(service)
    first, second = batch_of(document, 50), batch_of(document, 50)
    while second.payloads[0] == first.payloads[0]:
        second = batch_of(document, 50)
    forged = Batch(1, document.hash, first.ids[:1], second.payloads[:1])

    assert service.submit("snacks", first).result() == UploadResult(50, 0)
    assert service.submit("snacks", merged(first, second)).result() == UploadResult(50, 50)
    assert service.submit("snacks", forged).result() == UploadResult(0, 0, ((first.ids[0], "report/conflict"),))
    assert service.submit("snacks", merged(first, first)).result() == UploadResult(0, 100)
    service.settle()

    status = service.status("snacks")
    assert (status["reports"], status["duplicates"], status["refused"]) == (100, 150, {"report/conflict": 1})
    assert service.tally("snacks")[1] == count(document, list(merged(first, second)))


def test_one_bad_report_does_not_harm_the_others(service: Service) -> None:
    document = started(service)
    good = batch_of(document, 3)
    bad = Batch(1, document.hash, (b"x" * 16,), (b"\xff" * document.report_bytes,))

    answer = service.submit("snacks", merged(good, bad)).result()

    assert answer.accepted == 3
    assert answer.refused == ((b"x" * 16, "report/malformed"),)


def twins() -> tuple[dict[str, Any], dict[str, Any]]:
    """Two campaigns whose hashes begin with the same six digits."""
    seen: dict[str, dict[str, Any]] = {}
    for number in count_from(1):
        document = snacks(name=f"snacks-{number}", enrolment="none", contact="")
        first = hashlib.sha256(canonical(document)).hexdigest()[:6]
        if first in seen:
            return seen[first], document
        seen[first] = document
    raise AssertionError


def test_a_campaign_is_called_by_its_name_its_hash_or_a_unique_beginning_of_it(service: Service) -> None:
    document = started(service)
    whole = service.view("snacks")["hash"]

    for called in ("snacks", whole, whole[:12], whole[:6]):
        assert service.view(called)["hash"] == whole
        assert service.status(called)["name"] == "snacks"
        assert service.submit(called, batch_of(document, 10)).result().accepted == 10
    assert refusal(lambda: service.view(whole[:5])) == "campaign/unknown"
    assert refusal(lambda: service.view("0" * 63)) == "campaign/unknown"

    started(service, name=whole[:6], purpose="A name that looks like another one's hash.")
    assert service.view(whole[:6])["campaign"]["name"] == whole[:6]
    assert service.view(whole[:7])["campaign"]["name"] == "snacks"


def test_the_beginning_of_two_hashes_names_neither(service: Service) -> None:
    hashes = [service.create(one)["hash"] for one in twins()]

    assert hashes[0][:6] == hashes[1][:6]
    assert refusal(lambda: service.view(hashes[0][:6], drafts=True)) == "campaign/ambiguous"
    assert [service.view(one[:20], drafts=True)["hash"] for one in hashes] == hashes


def test_what_belongs_to_another_round_is_refused(service: Service) -> None:
    document = started(service)
    batch = batch_of(document, 1)

    assert refusal(lambda: service.submit("snacks", Batch(1, "0" * 64, batch.ids, batch.payloads))) == "report/document"
    assert (
        refusal(lambda: service.submit("snacks", Batch(2, document.hash, batch.ids, batch.payloads)))
        == "report/document"
    )
    assert refusal(lambda: service.submit("crisps", batch)) == "campaign/unknown"
    service.act("snacks", "close")
    assert refusal(lambda: service.submit("snacks", batch)) == "round/closed"
    assert service.status("snacks")["refused"] == {"report/document": 2, "round/closed": 1}


def test_a_late_report_in_the_queue_does_not_slip_into_a_closed_round(service: Service) -> None:
    document = started(service)
    stored = service._stored("snacks")
    service.act("snacks", "close")
    service._seen["snacks", False] = float("inf"), stored  # another process closed the round a moment ago

    assert refusal(lambda: service.submit("snacks", batch_of(document, 1)).result()) == "round/closed"
    service._seen.clear()
    service.settle()
    assert service.status("snacks")["reports"] == 0


def test_states_only_move_forward(service: Service) -> None:
    service.create(snacks())
    assert refusal(lambda: service.act("snacks", "close")) == "campaign/state"
    assert refusal(lambda: service.create(snacks())) == "campaign/exists"
    assert refusal(lambda: service.create(snacks(min_reports=11))) == "campaign/exists"
    service.act("snacks", "open")
    assert refusal(lambda: service.act("snacks", "open")) == "campaign/state"
    document = asked(service)
    service.submit("snacks", batch_of(document, 20)).result()
    service.act("snacks", "stop")
    service.settle()

    assert service.view("snacks")["state"] == "estimated"
    assert service.view("snacks")["round"]["state"] == "folded"
    for action in ("open", "close", "stop"):
        assert refusal(lambda action=action: service.act("snacks", action)) == "campaign/state"  # type: ignore[misc]
    assert refusal(lambda: service.act("snacks", "reopen")) == "campaign/action"
    assert refusal(lambda: service.create(snacks())) == "campaign/exists"
    assert service.create(snacks(purpose="The same again, a week later."))["state"] == "draft"


def test_a_round_closes_when_enough_have_reported(service: Service) -> None:
    document = started(service, rounds=[{"enough": 30}])

    service.submit("snacks", batch_of(document, 29)).result()
    service.settle()
    assert service.view("snacks")["round"]["state"] == "open"
    service.submit("snacks", batch_of(document, 1)).result()
    service.settle()

    assert service.view("snacks")["state"] == "estimated"
    assert service.estimates("snacks").n == 30


def test_dates_open_and_close_rounds_and_a_clock_that_jumps_back_reopens_nothing(
    service: Service, clock: SetClock
) -> None:
    document = started(service, rounds=[{"opens": "2026-11-22", "closes": "2026-11-25"}])
    batch = batch_of(document, 20)
    assert service.view("snacks")["round"]["state"] == "waiting"
    assert refusal(lambda: service.submit("snacks", batch)) == "round/waiting"
    clock.moment += timedelta(days=2)
    service.settle()
    service._seen.clear()
    assert service.submit("snacks", batch).result().accepted == 20
    clock.moment += timedelta(days=3)
    service.settle()
    assert service.view("snacks")["round"]["state"] == "open"  # the last day counts
    clock.moment += timedelta(days=1)
    service.settle()
    assert service.view("snacks")["state"] == "estimated"
    clock.moment -= timedelta(days=30)
    service.settle()

    assert service.view("snacks")["state"] == "estimated"
    assert refusal(lambda: service.submit("snacks", batch)) == "round/closed"


def test_several_rounds_follow_from_each_other(service: Service) -> None:
    document = started(service, protocol={"name": "privkvm", "epsilon": "4", "rounds": 3}, rounds=[{"enough": 40}])
    for number in (1, 2, 3):
        assert document.number == number
        service.submit("snacks", batch_of(document, 40)).result()
        service.settle()
        document = asked(service)

    assert service.view("snacks")["state"] == "estimated"
    assert [one["reports"] for one in service.status("snacks")["rounds"]] == [40, 40, 40]
    assert service.estimates("snacks").n == 40
    assert service.estimates("snacks", round=1).n == 40


def test_a_part_of_the_people_is_known_by_the_ids_of_their_reports(service: Service) -> None:
    document = started(service, protocol={"name": "pilot", "epsilon": "1", "share": "0.5"}, rounds=[{"enough": 30}])
    mine = batch_of(document, 30)
    everyone = Batch(1, document.hash, tuple(bytes([n]) * 16 for n in range(200)), (mine.payloads[0],) * 200)

    answer = service.submit("snacks", everyone).result()
    assert {code for _, code in answer.refused} == {"report/part"}
    assert 60 <= len(answer.refused) <= 140  # half of two hundred, with a false-alarm rate below 1e-7
    service.submit("snacks", mine).result()
    service.settle()

    second = asked(service)
    assert (second.number, second.mechanism.name) == (2, "ssr")
    assert not set(mine.ids) & set(batch_of(second, 50).ids)
    assert service.submit("snacks", Batch(2, second.hash, mine.ids[:1], batch_of(second, 1).payloads)).result().refused


def test_an_enrolled_device_reports_once_a_round(service: Service) -> None:
    document = started(service, enrolment="token", rounds=[{"enough": 3}])
    first, second, third = service.enrol("snacks", 3)
    one, other = batch_of(document, 1), batch_of(document, 1)

    assert refusal(lambda: service.submit("snacks", one)) == "enrolment/needed"
    assert refusal(lambda: service.submit("snacks", one, "wrong").result()) == "enrolment/unknown"
    assert refusal(lambda: service.submit("snacks", batch_of(document, 2), first)) == "enrolment/one"
    assert service.submit("snacks", one, first).result() == UploadResult(1, 0)
    assert service.submit("snacks", one, first).result() == UploadResult(0, 1)
    assert service.submit("snacks", other, first).result() == UploadResult(0, 0, ((other.ids[0], "enrolment/used"),))
    assert service.submit("snacks", one, second).result() == UploadResult(
        0, 1
    )  # somebody else's report counts for nobody
    assert service.submit("snacks", other, second).result() == UploadResult(1, 0)
    assert service.submit("snacks", batch_of(document, 1), third).result() == UploadResult(1, 0)
    with service.database.read() as connection:
        assert connection.execute(select(tables.participation.c.claimed)).scalars().all() == [b"\x07"]
    service.settle()
    with service.database.read() as connection:
        assert connection.execute(select(func.count()).select_from(tables.participation)).scalar() == 0


def test_tokens_are_kept_as_hashes_and_admit_only_their_role(service: Service) -> None:
    assert not service.roles.granted("admin")
    admin, analyst = service.roles.grant("admin"), service.roles.grant("analyst")

    holders = [service.roles.admit(token) for token in (admin, analyst, "guess", "")]
    assert [holder and holder.role for holder in holders] == ["admin", "analyst", None, None]
    assert refusal(lambda: service.roles.grant("king")) == "access/invalid"
    with service.database.read() as connection:
        stored = connection.execute(select(tables.access.c.token_hash)).scalars().all()
    assert all(admin.encode() not in bytes(one) for one in stored)


def test_two_collectors_on_one_database_count_every_report_once(open_service: Callable[..., Service]) -> None:
    one, other = open_service(), open_service()
    document = started(one)
    batches = [batch_of(document, 40) for _ in range(10)]

    answers = [service.submit("snacks", batch) for batch in batches for service in (one, other)]
    one.tick()
    other.tick()
    accepted = sum(answer.result().accepted for answer in answers)
    one.act("snacks", "stop")
    other.settle()
    one.settle()

    assert accepted == 400
    assert one.tally("snacks")[1] == count(document, list(merged(*batches)))


def test_a_collector_that_stops_loses_nothing(open_service: Callable[..., Service]) -> None:
    service = open_service()
    document = started(service)
    batch = batch_of(document, 100)
    waiting = [service.submit("snacks", Batch(1, document.hash, (i,), (p,))) for i, p in batch]
    service.close()

    assert all(answer.result().accepted == 1 for answer in waiting)
    again = open_service()
    again.settle()
    assert again.tally("snacks")[1] == count(document, list(batch))


def test_long_lists_of_keys_lie_beside_the_document(service: Service) -> None:
    import hashlib

    from keyveil.campaign.documents import dictionary_of

    data = dictionary_of([f"app-{number}" for number in range(3000)])
    name = hashlib.sha256(data).hexdigest()
    schema = {"keys": {"sha256": name, "count": 3000}, "low": 0, "high": 1}
    assert refusal(lambda: service.create(snacks(schema=schema))) == "dictionary/unknown"
    assert refusal(lambda: service.put_dictionary(b"[1, 2]")) == "dictionary/malformed"
    assert service.put_dictionary(data) == service.put_dictionary(data) == name
    document = started(service, schema=schema)

    assert document.mechanism.schema.d == 3000
    assert service.dictionary(name) == data


def test_the_queue_is_bounded_and_what_does_not_fit_is_refused_whole(open_service: Callable[..., Service]) -> None:
    from keyveil.collector.service import ServiceLimits

    service = open_service(limits=ServiceLimits(waiting_reports=100))
    document = started(service)
    gate, inside = threading.Event(), threading.Event()

    def block(connection: object) -> None:
        inside.set()
        gate.wait(10)

    blocker = threading.Thread(target=lambda: service.writer.run(block))
    blocker.start()
    inside.wait(10)
    kept = service.submit("snacks", batch_of(document, 80))
    late = batch_of(document, 30)
    assert refusal(lambda: service.submit("snacks", late)) == "queue/full"
    gate.set()
    blocker.join()
    assert kept.result().accepted == 80
    assert service.submit("snacks", late).result().accepted == 30


def test_no_round_is_added_to_a_campaign_that_was_stopped_meanwhile(service: Service) -> None:
    document = started(service, protocol={"name": "privkvm", "epsilon": "4", "rounds": 3}, rounds=[{"enough": 20}])
    service.submit("snacks", batch_of(document, 20)).result()
    while service.view("snacks")["round"]["state"] != "folded":
        service.tick()
    with service.database.read() as connection:
        before = service._repository.named(connection, "snacks")
    service.act("snacks", "stop")

    assert (
        rounds.advance(service.journal, service._repository, before, service.clock(), True) is False
    )  # it still saw "open"
    service.settle()
    assert service.view("snacks")["round"]["number"] == 1
    assert service.view("snacks")["state"] == "estimated"


def test_a_malformed_report_does_not_use_up_an_enrolment(service: Service) -> None:
    document = started(service, enrolment="token")
    (token,) = service.enrol("snacks", 1)
    bad = Batch(1, document.hash, (b"x" * 16,), (b"\xff" * document.report_bytes,))

    assert service.submit("snacks", bad, token).result() == UploadResult(0, 0, ((b"x" * 16, "report/malformed"),))
    assert service.submit("snacks", batch_of(document, 1), token).result() == UploadResult(1, 0)


def test_enrolled_devices_at_two_collectors_do_not_wait_in_a_circle(open_service: Callable[..., Service]) -> None:
    one, other = open_service(), open_service()
    document = started(one, enrolment="token")
    tokens = one.enrol("snacks", 60)
    batches = [batch_of(document, 1) for _ in tokens]
    pairs = list(zip(tokens, batches, strict=True))

    here = [one.submit("snacks", batch, token) for token, batch in pairs]
    there = [other.submit("snacks", batch, token) for token, batch in reversed(pairs)]
    answers = [answer.result() for answer in here + there]

    assert sum(answer.accepted for answer in answers) == 60
    assert sum(answer.duplicates for answer in answers) == 60


def test_two_forgeries_at_once_do_not_vouch_for_each_other(service: Service) -> None:
    """The bytes that count are the stored ones, not those that came first in a group."""
    document = started(service, protocol={"name": "kvue", "epsilon": "1"})
    true = Batch(1, document.hash, (b"i" * 16,), (b"\0",))
    forged = Batch(1, document.hash, true.ids, (b"\1",))
    service.submit("snacks", true).result()
    gate = threading.Event()
    blocker = threading.Thread(target=lambda: service.writer.run(lambda connection: gate.wait(10)))
    blocker.start()
    waiting = [service.submit("snacks", batch) for batch in (forged, forged, true)]
    gate.set()
    blocker.join()

    told = [answer.result() for answer in waiting]
    conflict = UploadResult(0, 0, ((b"i" * 16, "report/conflict"),))
    assert told == [conflict, conflict, UploadResult(0, 1)]


def test_results_stay_in_reach_when_the_next_campaign_is_drafted_and_opened(service: Service) -> None:
    document = started(service)
    service.submit("snacks", batch_of(document, 20)).result()
    service.act("snacks", "stop")
    service.settle()
    first = service.view("snacks")["hash"]
    second = service.create(snacks(purpose="A week later."))
    assert second["state"] == "draft"
    assert service.view("snacks")["hash"] == first
    assert service.estimates("snacks").n == 20
    service.act("snacks", "open")

    assert service.view("snacks")["hash"] == second["hash"]
    assert service.estimates(first).n == 20


def test_the_trouble_of_one_campaign_is_not_that_of_the_others(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    started(service, name="broken")
    document = started(service)
    service.submit("snacks", batch_of(document, 20)).result()
    honest = rounds.advance

    def advance(journal: Any, repository: Any, stored: Any, *rest: Any) -> bool:
        if stored.campaign.name == "broken":
            raise RuntimeError
        return honest(journal, repository, stored, *rest)

    monkeypatch.setattr(service_module, "advance", advance)
    with pytest.raises(RuntimeError):
        service.tick()
    assert service.tally("snacks")[1].reports == 20
