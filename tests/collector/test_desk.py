"""The collector without HTTP, on SQLite and on PostgreSQL: every report once, states only forward."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func, select

from keyveil.campaign.wire import Batch
from keyveil.collector import desk as desk_module
from keyveil.collector import rounds, tables
from keyveil.collector.desk import Desk
from keyveil.collector.folding import count
from keyveil.collector.writer import Answer
from keyveil.core.errors import KeyveilError
from tests.collector.campaigns import asked, batch_of, merged, snacks, started
from tests.collector.conftest import SetClock


def refusal(call: Callable[[], Any]) -> str:
    with pytest.raises(KeyveilError) as refused:
        call()
    return refused.value.code


def test_reports_are_stored_folded_and_estimated(desk: Desk) -> None:
    document = started(desk)
    batch = batch_of(document, 200)

    assert desk.submit("snacks", batch).result() == Answer(200, 0)
    desk.settle()

    mechanism, tally = desk.tally("snacks")
    assert tally.to_bytes() == count(document, list(batch)).to_bytes()
    assert mechanism == document.mechanism
    assert desk.estimates("snacks").n == 200
    assert desk.status("snacks")["rounds"][0]["folded"] == 200


def test_repeats_are_duplicates_and_other_bytes_are_refused(desk: Desk) -> None:
    document = started(desk)
    first, second = batch_of(document, 50), batch_of(document, 50)
    while second.payloads[0] == first.payloads[0]:
        second = batch_of(document, 50)
    forged = Batch(1, document.hash, first.ids[:1], second.payloads[:1])

    assert desk.submit("snacks", first).result() == Answer(50, 0)
    assert desk.submit("snacks", merged(first, second)).result() == Answer(50, 50)
    assert desk.submit("snacks", forged).result() == Answer(0, 0, ((first.ids[0], "report/conflict"),))
    assert desk.submit("snacks", merged(first, first)).result() == Answer(0, 100)
    desk.settle()

    status = desk.status("snacks")
    assert (status["reports"], status["duplicates"], status["refused"]) == (100, 150, {"report/conflict": 1})
    assert desk.tally("snacks")[1] == count(document, list(merged(first, second)))


def test_one_bad_report_does_not_harm_the_others(desk: Desk) -> None:
    document = started(desk)
    good = batch_of(document, 3)
    bad = Batch(1, document.hash, (b"x" * 16,), (b"\xff" * document.report_bytes,))

    answer = desk.submit("snacks", merged(good, bad)).result()

    assert answer.accepted == 3
    assert answer.refused == ((b"x" * 16, "report/malformed"),)


def test_what_belongs_to_another_round_is_refused(desk: Desk) -> None:
    document = started(desk)
    batch = batch_of(document, 1)

    assert refusal(lambda: desk.submit("snacks", Batch(1, "0" * 64, batch.ids, batch.payloads))) == "report/document"
    assert (
        refusal(lambda: desk.submit("snacks", Batch(2, document.hash, batch.ids, batch.payloads))) == "report/document"
    )
    assert refusal(lambda: desk.submit("crisps", batch)) == "campaign/unknown"
    desk.act("snacks", "close")
    assert refusal(lambda: desk.submit("snacks", batch)) == "round/closed"
    assert desk.status("snacks")["refused"] == {"report/document": 2, "round/closed": 1}


def test_a_late_report_in_the_queue_does_not_slip_into_a_closed_round(desk: Desk) -> None:
    document = started(desk)
    stored = desk._stored("snacks")
    desk.act("snacks", "close")
    desk._seen["snacks"] = float("inf"), stored  # another process closed the round a moment ago

    assert refusal(lambda: desk.submit("snacks", batch_of(document, 1)).result()) == "round/closed"
    desk._seen.clear()
    desk.settle()
    assert desk.status("snacks")["reports"] == 0


def test_states_only_move_forward(desk: Desk) -> None:
    desk.create(snacks())
    assert refusal(lambda: desk.act("snacks", "close")) == "campaign/state"
    assert refusal(lambda: desk.create(snacks())) == "campaign/exists"
    assert refusal(lambda: desk.create(snacks(min_reports=11))) == "campaign/exists"
    desk.act("snacks", "open")
    assert refusal(lambda: desk.act("snacks", "open")) == "campaign/state"
    document = asked(desk)
    desk.submit("snacks", batch_of(document, 20)).result()
    desk.act("snacks", "stop")
    desk.settle()

    assert desk.view("snacks")["state"] == "estimated"
    assert desk.view("snacks")["round"]["state"] == "folded"
    for action in ("open", "close", "stop"):
        assert refusal(lambda action=action: desk.act("snacks", action)) == "campaign/state"  # type: ignore[misc]
    assert refusal(lambda: desk.act("snacks", "reopen")) == "campaign/action"
    assert refusal(lambda: desk.create(snacks())) == "campaign/exists"
    assert desk.create(snacks(purpose="The same again, a week later."))["state"] == "draft"


def test_a_round_closes_when_enough_have_reported(desk: Desk) -> None:
    document = started(desk, rounds=[{"enough": 30}])

    desk.submit("snacks", batch_of(document, 29)).result()
    desk.settle()
    assert desk.view("snacks")["round"]["state"] == "open"
    desk.submit("snacks", batch_of(document, 1)).result()
    desk.settle()

    assert desk.view("snacks")["state"] == "estimated"
    assert desk.estimates("snacks").n == 30


def test_dates_open_and_close_rounds_and_a_clock_that_jumps_back_reopens_nothing(desk: Desk, clock: SetClock) -> None:
    document = started(desk, rounds=[{"opens": "2026-11-22", "closes": "2026-11-25"}])
    batch = batch_of(document, 20)
    assert desk.view("snacks")["round"]["state"] == "waiting"
    assert refusal(lambda: desk.submit("snacks", batch)) == "round/closed"
    clock.moment += timedelta(days=2)
    desk.settle()
    desk._seen.clear()
    assert desk.submit("snacks", batch).result().accepted == 20
    clock.moment += timedelta(days=3)
    desk.settle()
    assert desk.view("snacks")["round"]["state"] == "open"  # the last day counts
    clock.moment += timedelta(days=1)
    desk.settle()
    assert desk.view("snacks")["state"] == "estimated"
    clock.moment -= timedelta(days=30)
    desk.settle()

    assert desk.view("snacks")["state"] == "estimated"
    assert refusal(lambda: desk.submit("snacks", batch)) == "round/closed"


def test_several_rounds_follow_from_each_other(desk: Desk) -> None:
    document = started(desk, protocol={"name": "privkvm", "epsilon": "4", "rounds": 3}, rounds=[{"enough": 40}])
    for number in (1, 2, 3):
        assert document.number == number
        desk.submit("snacks", batch_of(document, 40)).result()
        desk.settle()
        document = asked(desk)

    assert desk.view("snacks")["state"] == "estimated"
    assert [one["reports"] for one in desk.status("snacks")["rounds"]] == [40, 40, 40]
    assert desk.estimates("snacks").n == 40
    assert desk.estimates("snacks", round=1).n == 40


def test_a_part_of_the_people_is_known_by_the_ids_of_their_reports(desk: Desk) -> None:
    document = started(desk, protocol={"name": "pilot", "epsilon": "1", "share": "0.5"}, rounds=[{"enough": 30}])
    mine = batch_of(document, 30)
    everyone = Batch(1, document.hash, tuple(bytes([n]) * 16 for n in range(200)), (mine.payloads[0],) * 200)

    answer = desk.submit("snacks", everyone).result()
    assert {code for _, code in answer.refused} == {"report/part"}
    assert 60 <= len(answer.refused) <= 140  # half of two hundred, with a false-alarm rate below 1e-7
    desk.submit("snacks", mine).result()
    desk.settle()

    second = asked(desk)
    assert (second.number, second.mechanism.name) == (2, "ssr")
    assert not set(mine.ids) & set(batch_of(second, 50).ids)
    assert desk.submit("snacks", Batch(2, second.hash, mine.ids[:1], batch_of(second, 1).payloads)).result().refused


def test_nothing_is_shown_below_the_least_number_of_reports(desk: Desk) -> None:
    document = started(desk)
    desk.submit("snacks", batch_of(document, 9)).result()
    desk.settle()

    for call in (desk.estimates, desk.finished, desk.tally):
        assert refusal(lambda call=call: call("snacks")) == "campaign/too-few"  # type: ignore[misc]
    desk.act("snacks", "stop")
    desk.settle()
    assert desk.view("snacks")["state"] == "closed"


def test_an_enrolled_device_reports_once_a_round(desk: Desk) -> None:
    document = started(desk, enrolment="token", rounds=[{"enough": 3}])
    first, second, third = desk.enrol("snacks", 3)
    one, other = batch_of(document, 1), batch_of(document, 1)

    assert refusal(lambda: desk.submit("snacks", one)) == "enrolment/needed"
    assert refusal(lambda: desk.submit("snacks", one, "wrong").result()) == "enrolment/unknown"
    assert refusal(lambda: desk.submit("snacks", batch_of(document, 2), first)) == "enrolment/one"
    assert desk.submit("snacks", one, first).result() == Answer(1, 0)
    assert desk.submit("snacks", one, first).result() == Answer(0, 1)
    assert desk.submit("snacks", other, first).result() == Answer(0, 0, ((other.ids[0], "enrolment/used"),))
    assert desk.submit("snacks", one, second).result() == Answer(0, 1)  # somebody else's report counts for nobody
    assert desk.submit("snacks", other, second).result() == Answer(1, 0)
    assert desk.submit("snacks", batch_of(document, 1), third).result() == Answer(1, 0)
    with desk.database.read() as connection:
        assert connection.execute(select(func.count()).select_from(tables.participation)).scalar() == 3
    desk.settle()
    with desk.database.read() as connection:
        assert connection.execute(select(func.count()).select_from(tables.participation)).scalar() == 0
        assert connection.execute(select(tables.round.c.secret)).scalar() is None


def test_tokens_are_kept_as_hashes_and_admit_only_their_role(desk: Desk) -> None:
    assert not desk.roles.granted("admin")
    admin, analyst = desk.roles.grant("admin"), desk.roles.grant("analyst")

    assert [desk.roles.admit(token) for token in (admin, analyst, "guess", "")] == ["admin", "analyst", None, None]
    assert refusal(lambda: desk.roles.grant("king")) == "access/role"
    with desk.database.read() as connection:
        stored = connection.execute(select(tables.access.c.token_hash)).scalars().all()
    assert all(admin.encode() not in bytes(one) for one in stored)


def test_payloads_are_forgotten_and_their_ids_are_not(desk: Desk, clock: SetClock) -> None:
    document = started(desk, retention_days=2, protocol={"name": "kvue", "epsilon": "1"})
    batch = batch_of(document, 20)
    desk.submit("snacks", batch).result()
    desk.settle()
    before = desk.tally("snacks")[1]
    assert payloads(desk) == 20
    clock.moment += timedelta(days=2, hours=6)
    desk.settle()

    assert payloads(desk) == 0
    assert desk.tally("snacks")[1] == before
    other = Batch(1, document.hash, batch.ids[:1], batch_of(document, 1).payloads)
    assert desk.submit("snacks", other).result() == Answer(0, 1)


def payloads(desk: Desk) -> int | None:
    with desk.database.read() as connection:
        return connection.execute(select(func.count()).where(tables.report.c.payload.is_not(None))).scalar()


def test_two_collectors_on_one_database_count_every_report_once(open_desk: Callable[..., Desk]) -> None:
    one, other = open_desk(), open_desk()
    document = started(one)
    batches = [batch_of(document, 40) for _ in range(10)]

    answers = [desk.submit("snacks", batch) for batch in batches for desk in (one, other)]
    one.tick()
    other.tick()
    accepted = sum(answer.result().accepted for answer in answers)
    one.act("snacks", "stop")
    other.settle()
    one.settle()

    assert accepted == 400
    assert one.tally("snacks")[1] == count(document, list(merged(*batches)))


def test_a_collector_that_stops_loses_nothing(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk()
    document = started(desk)
    batch = batch_of(document, 100)
    waiting = [desk.submit("snacks", Batch(1, document.hash, (i,), (p,))) for i, p in batch]
    desk.close()

    assert all(answer.result().accepted == 1 for answer in waiting)
    again = open_desk()
    again.settle()
    assert again.tally("snacks")[1] == count(document, list(batch))


def test_long_lists_of_keys_lie_beside_the_document(desk: Desk) -> None:
    import hashlib

    from keyveil.campaign.documents import dictionary_of

    data = dictionary_of([f"app-{number}" for number in range(3000)])
    name = hashlib.sha256(data).hexdigest()
    schema = {"keys": {"sha256": name, "count": 3000}, "low": 0, "high": 1}
    assert refusal(lambda: desk.create(snacks(schema=schema))) == "dictionary/unknown"
    assert refusal(lambda: desk.put_dictionary(b"[1, 2]")) == "dictionary/malformed"
    assert desk.put_dictionary(data) == desk.put_dictionary(data) == name
    document = started(desk, schema=schema)

    assert document.mechanism.schema.d == 3000
    assert desk.dictionary(name) == data


def test_the_queue_is_bounded_and_what_does_not_fit_is_refused_whole(open_desk: Callable[..., Desk]) -> None:
    from keyveil.collector.desk import Limits

    desk = open_desk(limits=Limits(waiting_reports=100))
    document = started(desk)
    gate, inside = threading.Event(), threading.Event()

    def block(connection: object) -> None:
        inside.set()
        gate.wait(10)

    blocker = threading.Thread(target=lambda: desk.writer.run(block))
    blocker.start()
    inside.wait(10)
    kept = desk.submit("snacks", batch_of(document, 80))
    late = batch_of(document, 30)
    assert refusal(lambda: desk.submit("snacks", late)) == "queue/full"
    gate.set()
    blocker.join()
    assert kept.result().accepted == 80
    assert desk.submit("snacks", late).result().accepted == 30


def test_no_round_is_added_to_a_campaign_that_was_stopped_meanwhile(desk: Desk) -> None:
    document = started(desk, protocol={"name": "privkvm", "epsilon": "4", "rounds": 3}, rounds=[{"enough": 20}])
    desk.submit("snacks", batch_of(document, 20)).result()
    while desk.view("snacks")["round"]["state"] != "folded":
        desk.tick()
    with desk.database.read() as connection:
        before = desk._shelf.named(connection, "snacks")
    desk.act("snacks", "stop")

    assert rounds.advance(desk.writer, desk._shelf, before, desk.clock().date()) is False  # it still saw "open"
    desk.settle()
    assert desk.view("snacks")["round"]["number"] == 1
    assert desk.view("snacks")["state"] == "estimated"


def test_a_round_below_the_least_number_is_left_out_of_what_is_shown(desk: Desk) -> None:
    protocol = {"name": "split", "epsilon": "1", "groups": "ssr:1,kvue:1", "max_pairs": 2}
    first = started(desk, protocol=protocol, rounds=[{}], min_reports=30)
    desk.submit("snacks", batch_of(first, 40)).result()
    desk.act("snacks", "close")
    desk.settle()
    before = desk.estimates("snacks").frequency.values
    desk.submit("snacks", batch_of(asked(desk), 1)).result()
    desk.act("snacks", "stop")
    desk.settle()

    assert (desk.estimates("snacks").frequency.values == before).all()


def test_between_two_looks_at_an_open_round_lie_many_reports(desk: Desk) -> None:
    document = started(desk, min_reports=20)
    desk.submit("snacks", batch_of(document, 20)).result()
    desk.settle()
    before = desk.tally("snacks")[1]
    for _ in range(19):
        desk.submit("snacks", batch_of(document, 1)).result()
        desk.settle()
    assert desk.tally("snacks")[1] == before
    desk.submit("snacks", batch_of(document, 1)).result()
    desk.settle()

    assert desk.tally("snacks")[1].reports == 40


def test_a_malformed_report_does_not_use_up_an_enrolment(desk: Desk) -> None:
    document = started(desk, enrolment="token")
    (token,) = desk.enrol("snacks", 1)
    bad = Batch(1, document.hash, (b"x" * 16,), (b"\xff" * document.report_bytes,))

    assert desk.submit("snacks", bad, token).result() == Answer(0, 0, ((b"x" * 16, "report/malformed"),))
    assert desk.submit("snacks", batch_of(document, 1), token).result() == Answer(1, 0)


def test_enrolled_devices_at_two_collectors_do_not_wait_in_a_circle(open_desk: Callable[..., Desk]) -> None:
    one, other = open_desk(), open_desk()
    document = started(one, enrolment="token")
    tokens = one.enrol("snacks", 60)
    batches = [batch_of(document, 1) for _ in tokens]
    pairs = list(zip(tokens, batches, strict=True))

    here = [one.submit("snacks", batch, token) for token, batch in pairs]
    there = [other.submit("snacks", batch, token) for token, batch in reversed(pairs)]
    answers = [answer.result() for answer in here + there]

    assert sum(answer.accepted for answer in answers) == 60
    assert sum(answer.duplicates for answer in answers) == 60


def test_two_forgeries_at_once_do_not_vouch_for_each_other(desk: Desk) -> None:
    """The bytes that count are the stored ones, not those that came first in a group."""
    document = started(desk, protocol={"name": "kvue", "epsilon": "1"})
    true = Batch(1, document.hash, (b"i" * 16,), (b"\0",))
    forged = Batch(1, document.hash, true.ids, (b"\1",))
    desk.submit("snacks", true).result()
    gate = threading.Event()
    blocker = threading.Thread(target=lambda: desk.writer.run(lambda connection: gate.wait(10)))
    blocker.start()
    waiting = [desk.submit("snacks", batch) for batch in (forged, forged, true)]
    gate.set()
    blocker.join()

    told = [answer.result() for answer in waiting]
    conflict = Answer(0, 0, ((b"i" * 16, "report/conflict"),))
    assert told == [conflict, conflict, Answer(0, 1)]


def test_results_stay_in_reach_when_the_next_campaign_is_drafted_and_opened(desk: Desk) -> None:
    document = started(desk)
    desk.submit("snacks", batch_of(document, 20)).result()
    desk.act("snacks", "stop")
    desk.settle()
    first = desk.view("snacks")["hash"]
    second = desk.create(snacks(purpose="A week later."))
    assert second["state"] == "draft"
    assert desk.view("snacks")["hash"] == first
    assert desk.estimates("snacks").n == 20
    desk.act("snacks", "open")

    assert desk.view("snacks")["hash"] == second["hash"]
    assert desk.estimates(first).n == 20


def test_the_trouble_of_one_campaign_is_not_that_of_the_others(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    started(desk, name="broken")
    document = started(desk)
    desk.submit("snacks", batch_of(document, 20)).result()
    honest = rounds.advance

    def advance(writer: Any, shelf: Any, stored: Any, today: Any) -> bool:
        if stored.campaign.name == "broken":
            raise RuntimeError
        return honest(writer, shelf, stored, today)

    monkeypatch.setattr(desk_module, "advance", advance)
    with pytest.raises(RuntimeError):
        desk.tick()
    assert desk.tally("snacks")[1].reports == 20


def test_one_request_cannot_keep_everybody_waiting_with_long_payloads(desk: Desk) -> None:
    asked_for = {"name": "pckv-ue", "epsilon": "1", "max_pairs": 2}
    document = started(desk, schema={"keys": 3000, "low": 0, "high": 1}, protocol=asked_for)
    many = (1 << 20) // document.report_bytes + 1
    batch = Batch(
        1, document.hash, tuple(n.to_bytes(16, "big") for n in range(many)), (bytes(document.report_bytes),) * many
    )

    assert refusal(lambda: desk.submit("snacks", batch)) == "report/batch"
    assert desk.writer.waiting == 0
