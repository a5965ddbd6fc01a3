"""Whatever is wrong with a request: the right status, a stable code, counted by reason, and nothing half stored."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from keyveil.campaign.wire import JSON, PACKED, Batch
from keyveil.collector.problems import status_of
from keyveil.collector.service import ServiceLimits
from tests.collector.campaigns import batch_of, snacks, started
from tests.collector.running import Collector, problem, running

MANY_PAIRS = {"name": "ssr", "epsilon": "1", "max_pairs": 300}  # more than devices compute


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[Collector]:
    with running(tmp_path) as one:
        yield one


def foreign(batch: Batch) -> bytes:
    return of_another(batch, payloads=tuple(b"\xff" * len(one) for one in batch.payloads))


def another_size(batch: Batch) -> bytes:
    return of_another(batch, payloads=tuple(one + b"\0" for one in batch.payloads))


def of_another(batch: Batch, **changes: Any) -> bytes:
    return replace(batch, **changes).to_json()


WRONG_UPLOADS: dict[str, tuple[Callable[[Batch], bytes], str, int, str]] = {
    "wrong document": (lambda batch: of_another(batch, document="0" * 64), JSON, 409, "report/document"),
    "another round": (lambda batch: of_another(batch, round=2), JSON, 409, "report/document"),
    "cut off": (lambda batch: batch.to_json()[:-9], JSON, 400, "report/malformed"),
    "packed and cut off": (lambda batch: batch.to_packed()[:-1], PACKED, 400, "report/malformed"),
    "the other form": (lambda batch: batch.to_packed(), JSON, 400, "report/malformed"),
    "nothing": (lambda batch: b"", JSON, 400, "report/malformed"),
    "no reports": (lambda batch: of_another(batch, ids=(), payloads=()), JSON, 422, "report/batch"),
    "too long": (lambda batch: batch.to_json() + b" " * 5000, JSON, 413, "request/too-large"),
    "a form": (lambda batch: batch.to_json(), "application/x-www-form-urlencoded", 415, "report/media-type"),
    "another charset": (lambda batch: batch.to_json(), f"{JSON}; charset=utf-16", 415, "report/media-type"),
}


@pytest.mark.parametrize("what", WRONG_UPLOADS)
def test_a_wrong_upload_is_refused_counted_and_not_stored(tmp_path: Path, what: str) -> None:
    spoil, media_type, status, code = WRONG_UPLOADS[what]
    with running(tmp_path, body_bytes=4096) as collector:
        batch = batch_of(started(collector.service), 3)

        answer = collector.ask("POST", "/v1/campaigns/snacks/reports", spoil(batch), Content_Type=media_type)

        assert (answer.status, problem(answer)) == (status, code)
        assert collector.stored == 0
        assert collector.service.status("snacks")["refused"] == {code: 1}
        metrics = collector.ask("GET", "/metrics").body.decode()
        assert f'keyveil_refusals_total{{campaign="snacks",code="{code}"}} 1.0' in metrics


@pytest.mark.parametrize("spoil", [foreign, another_size])
def test_reports_that_no_honest_device_could_send_are_refused_one_by_one(collector: Collector, spoil: Any) -> None:
    batch = batch_of(started(collector.service), 2)

    answer = collector.ask("POST", "/v1/campaigns/snacks/reports", spoil(batch))

    document = json.loads(answer.body)
    assert (answer.status, document["accepted"]) == (200, 0)
    codes = {one["code"] for one in document["refused"]}
    assert [one["id"] for one in document["refused"]] == [number.hex() for number in batch.ids]
    assert len(codes) == 1 and next(iter(codes)).startswith("report/")
    assert collector.stored == 0 and sum(collector.service.status("snacks")["refused"].values()) == 2


def test_an_id_that_comes_back_with_other_bytes_is_refused(collector: Collector) -> None:
    document = started(collector.service)
    batch, other = batch_of(document, 40), batch_of(document, 40)
    collector.ask("POST", "/v1/campaigns/snacks/reports", batch.to_json())
    changed = replace(batch, payloads=other.payloads)

    answer = json.loads(collector.ask("POST", "/v1/campaigns/snacks/reports", changed.to_json()).body)

    pairs = zip(batch.ids, batch.payloads, other.payloads, strict=True)
    differ = [number.hex() for number, mine, theirs in pairs if mine != theirs]
    assert differ and answer["accepted"] == 0 and answer["duplicates"] == 40 - len(differ)
    assert answer["refused"] == [{"id": number, "code": "report/conflict"} for number in differ]
    assert collector.service.status("snacks")["refused"] == {"report/conflict": len(differ)}
    assert collector.stored == 40


def test_a_closed_round_takes_nothing_and_counts_what_comes_late(collector: Collector) -> None:
    batch = batch_of(started(collector.service), 2)
    collector.service.act("snacks", "close")

    answer = collector.ask("POST", "/v1/campaigns/snacks/reports", batch.to_json())

    assert (answer.status, problem(answer)) == (409, "round/closed")
    assert collector.service.status("snacks")["refused"] == {"round/closed": 1} and collector.stored == 0


def test_an_unknown_campaign_is_not_found_and_leaves_no_trace_in_the_metrics(collector: Collector) -> None:
    batch = batch_of(started(collector.service), 1)
    for name in ("nothing-here", "Nothing%20Here", "a" * 200, "%00", "%f0%9f%8d%9f"):
        for body in (batch.to_json(), b"{"):
            answer = collector.ask("POST", f"/v1/campaigns/{name}/reports", body)
            assert answer.status in (400, 404) and problem(answer) in ("campaign/unknown", "report/malformed")
        assert problem(collector.ask("GET", f"/v1/campaigns/{name}")) == "campaign/unknown"
    metrics = collector.ask("GET", "/metrics").body.decode()
    assert "othing" not in metrics and "aaaa" not in metrics


def test_a_full_queue_says_when_to_come_back(tmp_path: Path) -> None:
    with running(tmp_path, limits=ServiceLimits(waiting_reports=4)) as collector:
        document = started(collector.service)
        batch, more = batch_of(document, 4), batch_of(document, 4)
        with sqlite3.connect(tmp_path / "keyveil.db", isolation_level=None) as other:
            other.execute("BEGIN IMMEDIATE")  # the disk is busy, so the first upload waits
            waiting = collector.service.submit("snacks", batch)
            answer = collector.ask("POST", "/v1/campaigns/snacks/reports", more.to_json())
            other.execute("ROLLBACK")

        assert (answer.status, problem(answer)) == (429, "queue/full")
        assert int(answer.headers["retry-after"]) >= 1
        assert waiting.result(30).accepted == 4 and collector.stored == 4
        assert json.loads(collector.ask("POST", "/v1/campaigns/snacks/reports", more.to_json()).body)["accepted"] == 4


@pytest.mark.usefixtures("_impatient")
def test_a_locked_database_is_unavailable_and_nothing_is_half_stored(collector: Collector) -> None:
    batch = batch_of(started(collector.service), 3)
    path = collector.service.database.engine.url.database
    assert path is not None
    with sqlite3.connect(path, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        answer = collector.ask("POST", "/v1/campaigns/snacks/reports", batch.to_json())
        other.execute("ROLLBACK")

    assert (answer.status, problem(answer)) == (503, "storage/locked")
    assert int(answer.headers["retry-after"]) >= 1 and collector.stored == 0
    again = collector.ask("POST", "/v1/campaigns/snacks/reports", batch.to_json())
    assert json.loads(again.body)["accepted"] == 3 and collector.stored == 3


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/nowhere", None, 404, "request/not-found"),
        ("GET", "/v1/campaigns/", None, 404, "request/not-found"),
        ("PUT", "/v1/campaigns/snacks", None, 405, "request/method"),
        ("POST", "/v1/campaigns", b"{", 400, "request/malformed"),
        ("POST", "/v1/campaigns", b"[" * 100_000, 400, "request/malformed"),
        ("POST", "/v1/campaigns", b'"\xff"', 400, "request/malformed"),
        ("POST", "/v1/campaigns", [], 422, "request/invalid"),
        ("POST", "/v1/campaigns", {}, 422, "campaign/version"),
        ("POST", "/v1/campaigns", {"a": 1.5}, 422, "document/float"),
        ("POST", "/v1/campaigns", {"a": "\ud800"}, 422, "document/text"),
        ("POST", "/v1/campaigns", snacks(name="No!"), 422, "campaign/name"),
        ("POST", "/v1/campaigns", snacks(protocol={"name": "kvue", "epsilon": "0"}), 422, "epsilon/invalid"),
        ("POST", "/v1/campaigns", snacks(protocol={"name": "grr", "epsilon": "1"}), 422, "campaign/unanswerable"),
        ("POST", "/v1/campaigns", snacks(schema={"keys": 70_000}), 422, "campaign/unanswerable"),
        ("POST", "/v1/campaigns", snacks(protocol=MANY_PAIRS, schema={"keys": 300}), 422, "campaign/unanswerable"),
        ("POST", "/v1/campaigns", snacks(), 409, "campaign/exists"),
        ("POST", "/v1/campaigns", snacks(purpose="x" * (9 << 20)), 413, "request/too-large"),
        ("PATCH", "/v1/campaigns/snacks", {"action": "open"}, 409, "campaign/state"),
        ("PATCH", "/v1/campaigns/snacks", {"action": "burn"}, 422, "request/invalid"),
        ("PATCH", "/v1/campaigns/snacks", {}, 422, "request/invalid"),
        ("PATCH", "/v1/campaigns/nothing", {"action": "open"}, 404, "campaign/unknown"),
        ("POST", "/v1/campaigns/snacks/enrolments", {"count": 3}, 409, "enrolment/none"),
        ("POST", "/v1/campaigns/snacks/enrolments", {"count": 0}, 422, "request/invalid"),
        ("GET", "/v1/campaigns/snacks/estimates?confidence=1", None, 422, "request/invalid"),
        ("GET", "/v1/campaigns/snacks/estimates?confidence=nan", None, 422, "request/invalid"),
        ("GET", "/v1/campaigns/snacks/estimates?round=0", None, 422, "request/invalid"),
        ("GET", "/v1/campaigns/snacks/estimates?round=9", None, 404, "round/unknown"),
        ("GET", "/v1/campaigns/snacks/estimates?postprocess=magic", None, 422, "postprocess/unknown"),
        ("PUT", f"/v1/dictionaries/{hashlib.sha256(b'[1]').hexdigest()}", b"[1]", 422, "dictionary/malformed"),
    ],
)
def test_whatever_is_wrong_is_a_problem_document(
    collector: Collector, method: str, path: str, body: Any, status: int, code: str
) -> None:
    collector.filled()
    answer = collector.ask(method, path, body, collector.admin)
    assert (problem(answer), answer.status) == (code, status)


def test_an_address_names_all_methods_that_it_takes(collector: Collector) -> None:
    assert collector.ask("PUT", "/v1/campaigns/snacks/reports").headers["allow"] == "GET, POST"
    assert collector.ask("PUT", "/v1/campaigns/snacks").headers["allow"] == "DELETE, GET, PATCH"


def test_our_own_mistakes_show_nothing_of_the_inside(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str, **_: object) -> Any:
        raise RuntimeError(f"secret inside of {name}")

    monkeypatch.setattr(collector.service, "view", broken)
    answer = collector.ask("GET", "/v1/campaigns/snacks")

    assert (answer.status, problem(answer)) == (500, "server/error")
    assert b"secret" not in answer.body and b"Runtime" not in answer.body


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("campaign/unknown", 404),
        ("campaign/unknowns", 422),
        ("access/whatever", 401),
        ("storage/version", 503),
        ("", 422),
    ],
)
def test_the_longest_prefix_of_a_code_decides(code: str, status: int) -> None:
    assert status_of(code) == status


def test_a_body_is_cut_off_while_it_streams_in(collector: Collector) -> None:
    """The declared length may lie or be missing; what counts is what arrives."""
    started(collector.service)
    answer = collector.ask("POST", "/v1/campaigns/snacks/reports", b" " * (9 << 20), Content_Length="10")
    assert (answer.status, problem(answer)) == (413, "request/too-large")


@pytest.mark.parametrize("depth", [100, 900, 960, 990, 50_000])
def test_nested_nonsense_is_only_nonsense(collector: Collector, depth: int) -> None:
    deep = b'{"a":' + b"[" * depth + b"]" * depth + b"}"
    started(collector.service)
    for path in ("/v1/campaigns", "/v1/campaigns/snacks/queries", "/v1/campaigns/snacks/reports"):
        assert collector.ask("POST", path, deep, collector.admin).status in (400, 422)
