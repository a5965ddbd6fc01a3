"""Uploads: the same bytes until they are acknowledged, with pauses that grow, and no trust in odd answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from keyveil.campaign.wire import Batch
from keyveil.device import Device, HttpAnswer, Patience
from tests.device.collector import (
    Collector,
    Sleeper,
    Watch,
    accept,
    document,
    json_answer,
    lose_answer,
    problem,
    refuse,
)

Behaviour = Callable[[Batch], HttpAnswer]
RECORD = {"fries": 4}


def reporting(*script: Behaviour, **options: Any) -> tuple[Device, Collector, Sleeper]:
    collector, sleeper = Collector(script=list(script)), Sleeper()
    collector.open(document())
    options = {"patience": Patience(pace=0), **options}
    device = Device(":memory:", collector, clock=Watch(), sleep=sleeper, **options)
    device.consent("snack-survey")
    return device, collector, sleeper


def says(answer: HttpAnswer) -> Behaviour:
    return lambda batch: answer


def test_pauses_grow_with_jitter_and_every_attempt_sends_the_same_bytes() -> None:
    device, collector, sleeper = reporting(*[lose_answer] * 4)

    outcome = device.report("snack-survey", RECORD)

    assert outcome.state == "sent"
    assert len(collector.bodies) == 5 and len(set(collector.bodies)) == 1
    for pause, nap in zip([1, 2, 4, 8], sleeper.naps, strict=True):
        assert pause / 2 <= nap <= pause
    assert any(nap != pause for pause, nap in zip([1, 2, 4, 8], sleeper.naps, strict=True))


def test_after_enough_tries_the_report_waits_for_a_flush() -> None:
    device, collector, _ = reporting(*[lose_answer] * 3, patience=Patience(tries=3))

    assert device.report("snack-survey", RECORD).state == "waiting"
    assert len(collector.bodies) == 3
    (outcome,) = device.flush()

    assert outcome.state == "sent"
    assert len(set(collector.bodies)) == 1 and len(device.ledger()) == 1
    assert device.flush() == []


def test_a_flush_stops_where_the_collector_is_away() -> None:
    device, collector, _ = reporting(*[lose_answer] * 4, patience=Patience(tries=1))
    for name in ("snack-survey", "second"):
        collector.open(document(name=name))
        device.consent(name)
        assert device.report(name, RECORD).state == "waiting"
    assert [one.state for one in device.flush()] == ["waiting"]
    collector.script.clear()
    assert [one.state for one in device.flush()] == ["sent", "sent"]


@pytest.mark.parametrize(
    ("header", "least"),
    [("7", 7.0), ("0", 0.0), ("Fri, 20 Nov 2026 12:00:30 GMT", 30.0), ("Fri, 20 Nov 2020 12:00:30 GMT", 0.0), ("x", 0)],
)
def test_retry_after_is_honoured(header: str, least: float) -> None:
    device, _, sleeper = reporting(says(problem(429, "queue/full", retry_after=header)))

    assert device.report("snack-survey", RECORD).state == "sent"
    (nap,) = sleeper.naps
    assert max(least, 0.5) <= nap <= max(least, 1)


@pytest.mark.parametrize("header", ["86400", "9" * 30, "Fri, 20 Nov 2099 12:00:00 GMT"])
def test_a_long_retry_after_ends_the_attempts_instead_of_blocking(header: str) -> None:
    device, collector, sleeper = reporting(says(problem(429, "queue/full", retry_after=header)))

    assert device.report("snack-survey", RECORD).state == "waiting"
    assert sleeper.naps == [] and len(collector.bodies) == 1


def test_a_refused_report_is_not_sent_again_and_its_price_stays() -> None:
    device, collector, _ = reporting(refuse)

    outcome = device.report("snack-survey", RECORD)

    assert (outcome.state, outcome.code) == ("refused", "report/malformed")
    assert device.report("snack-survey", RECORD).state == "refused"
    assert device.flush() == [] and len(collector.bodies) == 1
    assert len(device.ledger()) == 1 and device.ledger()[0].epsilon > 0


def test_the_code_of_a_refusal_cannot_steer_a_terminal() -> None:
    def steer(batch: Batch) -> HttpAnswer:
        refused = [{"id": batch.ids[0].hex(), "code": "report/\x1b[2J\x07"}]
        return json_answer({"accepted": 0, "duplicates": 0, "refused": refused})

    device, _, _ = reporting(steer)
    outcome = device.report("snack-survey", RECORD)
    assert outcome.state == "refused" and (outcome.code or "").isprintable()


def test_a_duplicate_has_arrived() -> None:
    device, _, _ = reporting(says(json_answer({"accepted": 0, "duplicates": 1, "refused": []})))
    assert device.report("snack-survey", RECORD).state == "sent"


STRANGER = {"id": "ab" * 16, "code": "report/malformed"}


ODD_ANSWERS = [
    HttpAnswer(200, {}, b""),
    HttpAnswer(200, {}, b"<html>ok</html>"),
    json_answer([]),
    json_answer({}),
    json_answer({"accepted": 1}),
    json_answer({"accepted": True, "duplicates": 0, "refused": []}),
    json_answer({"accepted": 1.5, "duplicates": 0, "refused": []}),
    json_answer({"accepted": 2, "duplicates": -1, "refused": []}),
    json_answer({"accepted": 0, "duplicates": 0, "refused": []}),
    json_answer({"accepted": 1, "duplicates": 1, "refused": []}),
    json_answer({"accepted": 0, "duplicates": 0, "refused": [STRANGER]}),
    json_answer({"accepted": 1, "duplicates": 0, "refused": [STRANGER]}),
    json_answer({"accepted": 1, "duplicates": 0, "refused": [], "more": 1}),
    HttpAnswer(200, {}, b'{"accepted":' * 50_000),
    HttpAnswer(204),
    HttpAnswer(301, {"location": "https://elsewhere.example"}),
    HttpAnswer(403, {"content-type": "text/html"}, b"captive portal"),
    HttpAnswer(404, {"content-type": "application/problem+json"}, b"{"),
    HttpAnswer(400, {"content-type": "application/problem+json"}, b'{"code": "\\u001b[2J"}'),
    problem(500, "storage/unavailable"),
    problem(408, "transport/slow"),
]


@pytest.mark.parametrize("answer", ODD_ANSWERS, ids=lambda answer: f"{answer.status} {answer.body[:40]!r}")
def test_an_answer_that_makes_no_sense_means_try_again_later(answer: HttpAnswer) -> None:
    device, collector, _ = reporting(*[says(answer)] * 2, patience=Patience(tries=2))

    assert device.report("snack-survey", RECORD).state == "waiting"
    assert [one.state for one in device.flush()] == ["sent"]
    assert len(set(collector.bodies)) == 1


def test_a_problem_document_ends_it() -> None:
    device, collector, _ = reporting(says(problem(409, "round/closed")))
    outcome = device.report("snack-survey", RECORD)
    assert (outcome.state, outcome.code) == ("refused", "round/closed")
    assert len(collector.bodies) == 1


def test_a_missing_token_can_be_given_later_with_the_same_report() -> None:
    device, collector, _ = reporting(says(problem(401, "enrolment/needed")), accept)

    assert device.report("snack-survey", RECORD).code == "enrolment/needed"
    assert device.report("snack-survey", RECORD).state == "refused"
    assert device.report("snack-survey", {}, token="kv-token").state == "sent"

    assert len(set(collector.bodies)) == 1 and len(device.ledger()) == 1
    assert [headers.get("Authorization") for headers in collector.headers] == [None, "Bearer kv-token"]


def test_a_waiting_report_takes_a_token_that_comes_later() -> None:
    device, collector, _ = reporting(lose_answer, patience=Patience(tries=1))
    device.report("snack-survey", RECORD)
    assert device.report("snack-survey", RECORD, token="kv-token").state == "sent"
    assert collector.headers[1]["Authorization"] == "Bearer kv-token"


def test_nothing_tells_who_sends() -> None:
    device, collector, _ = reporting()
    device.report("snack-survey", RECORD)
    assert set(collector.headers[0]) == {"Content-Type"}


@pytest.mark.parametrize(
    ("status", "code"), [(404, "campaign/unknown"), (404, "round/unknown"), (409, "round/waiting")]
)
def test_a_refusal_that_can_pass_is_tried_again_and_holds_up_nothing_else(status: int, code: str) -> None:
    """A collector that was restored, lags behind, or whose clock is late; the report is paid for and waits."""
    device, collector, _ = reporting(*[says(problem(status, code))] * 2, patience=Patience(tries=1))
    waiting = device.report("snack-survey", RECORD)
    assert (waiting.state, waiting.code) == ("waiting", code)
    collector.script = [lose_answer]
    collector.open(document(name="second"))
    device.consent("second")
    assert device.report("second", RECORD).state == "waiting"

    collector.script = [says(problem(status, code))]
    assert [one.state for one in device.flush()] == ["waiting", "sent"]
    assert [one.state for one in device.flush()] == ["sent"]
    assert len(device.ledger()) == 2


def test_a_round_that_is_over_is_refused_for_good() -> None:
    device, collector, _ = reporting(says(problem(409, "round/closed")))
    assert device.report("snack-survey", RECORD).state == "refused"
    assert device.flush() == [] and len(collector.bodies) == 1


# -- when a report leaves -----------------------------------------------------------------------------------------


@dataclass
class Stopwatch:
    """Seconds that pass where somebody says so: while a record is read, and while a device sleeps."""

    now: float = 1000.0
    sent: list[float] = field(default_factory=list)

    def __call__(self) -> float:
        return self.now

    def pass_by(self, seconds: float) -> None:
        self.now += seconds

    def note(self, batch: Batch) -> HttpAnswer:
        self.sent.append(self.now)
        return accept(batch)


class Slow(Mapping[str, int]):
    """A record that takes its time."""

    def __init__(self, watch: Stopwatch, seconds: float) -> None:
        self.watch, self.seconds = watch, seconds

    def items(self) -> Any:
        self.watch.pass_by(self.seconds)
        return {"fries": 4}.items()

    def __getitem__(self, key: str) -> int:
        return 4

    def __iter__(self) -> Iterator[str]:
        return iter(["fries"])

    def __len__(self) -> int:
        return 1


def left_at(seconds: float, pace: float) -> float:
    """When a report leaves whose record takes so many seconds, after the campaign was read."""
    watch = Stopwatch()
    device, _, _ = reporting(watch.note, patience=Patience(pace=pace))
    device._uploader = replace(device._uploader, sleep=watch.pass_by, seconds=watch)
    assert device.report("snack-survey", Slow(watch, seconds)).used
    return watch.sent[0] - 1000.0


def test_the_time_that_a_record_takes_does_not_show() -> None:
    times = [left_at(seconds, pace=0.25) for seconds in (0.0, 0.001, 0.1, 0.249)]
    assert times == pytest.approx([0.25] * 4)
    assert left_at(0.3, pace=0.25) == pytest.approx(0.5)
    assert left_at(0.1, pace=0) - left_at(0.0, pace=0) == pytest.approx(0.1)  # without a pace it would


def test_what_is_only_sent_again_does_not_wait() -> None:
    watch = Stopwatch()
    device, _, _ = reporting(lose_answer, watch.note, patience=Patience(tries=1, pace=0.25))
    device.report("snack-survey", RECORD)
    device._uploader = replace(device._uploader, sleep=watch.pass_by, seconds=watch)
    assert not device.report("snack-survey", Slow(watch, 0.1)).used
    assert watch.sent == [1000.0]


class Nameless(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise RuntimeError("no name")


def test_a_record_whose_class_raises_is_an_empty_one() -> None:
    device, collector, _ = reporting()
    outcome = device.report("snack-survey", Nameless("Odd", (), {})())
    assert outcome.used and [one.why for one in outcome.ignored] == ["record"] and len(collector.bodies) == 1
