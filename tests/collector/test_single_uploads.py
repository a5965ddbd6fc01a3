"""Single reports on their short way: past the framework, checked together, and woken for once."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import Any

import pytest

from keyveil.campaign.wire import PACKED, Batch
from keyveil.collector import storing, writer
from keyveil.collector.app import make_app
from keyveil.collector.inprocess import AppTransport
from keyveil.collector.mailbox import Mailbox
from keyveil.collector.service import Service
from keyveil.collector.settings import Settings
from keyveil.collector.storing import UploadResult
from tests.collector.campaigns import batch_of, started

PATH = "/v1/campaigns/snacks/reports"


def singles(batch: Batch) -> list[Batch]:
    return [Batch(batch.round, batch.document, (number,), (payload,)) for number, payload in batch]


def held_back(service: Service, batches: list[Batch]) -> list[Future[UploadResult]]:
    """Uploads that all wait before the writer can take the first, so that one commit holds them."""
    busy, over = threading.Event(), threading.Event()

    def hold(_: object) -> None:
        busy.set()
        over.wait(120)

    holding = threading.Thread(target=service.writer.run, args=(hold,))
    holding.start()
    busy.wait(120)
    queued = [service.submit("snacks", batch) for batch in batches]
    over.set()
    holding.join()
    return queued


def test_single_reports_of_one_commit_are_each_judged_alone(service: Service) -> None:
    document = started(service)
    good = singles(batch_of(document, 5))
    bad = Batch(1, document.hash, (b"x" * 16,), (b"\xff" * document.report_bytes,))
    short = Batch(1, document.hash, (b"y" * 16,), (b"\x80" * (document.report_bytes + 1),))
    again = good[0]
    before = service.writer.commits

    queued = held_back(service, [*good[:2], bad, *good[2:], short, again])

    told = [one.result(120) for one in queued]
    assert service.writer.commits == before + 1
    assert [one.accepted for one in told] == [1, 1, 0, 1, 1, 1, 0, 0]
    assert told[2].refused == ((b"x" * 16, "report/malformed"),)
    assert told[6].refused == ((b"y" * 16, "report/size"),)
    assert told[7] == UploadResult(0, 1)


def test_a_report_on_which_the_check_itself_fails_holds_up_no_other(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = started(service)
    good = singles(batch_of(document, 3))
    poison = Batch(1, document.hash, (b"p" * 16,), (good[0].payloads[0],))
    check = storing.check_together

    def failing(group: Any) -> Any:
        if any(upload.reports and upload.reports[0][0] == b"p" * 16 for upload in group):
            raise ZeroDivisionError
        return check(group)

    monkeypatch.setattr(writer, "check_together", failing)
    queued = held_back(service, [good[0], poison, *good[1:]])

    assert [queued[place].result(120) for place in (0, 2, 3)] == [UploadResult(1, 0)] * 3
    with pytest.raises(ZeroDivisionError):
        queued[1].result(120)
    assert service.writer.waiting == 0


def test_the_short_and_the_long_way_answer_alike(service: Service) -> None:
    """A body in one piece goes past the framework; the same in two pieces does not."""
    document = started(service)
    one, other = batch_of(document, 3), batch_of(document, 3)
    bad = Batch(1, document.hash, (b"x" * 16,), (b"\xff" * document.report_bytes,))
    app = make_app(service, Settings(tick_seconds=0))
    headers = [(b"content-type", PACKED.encode())]

    async def asked(path: str, pieces: list[bytes], headers: list[tuple[bytes, bytes]]) -> tuple[int, Any, bytes]:
        waiting = [
            {"type": "http.request", "body": piece, "more_body": place + 1 < len(pieces)}
            for place, piece in enumerate(pieces)
        ]
        sent: list[Any] = []

        async def receive() -> Any:
            return waiting.pop(0)

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": path, "headers": headers, "query_string": b"", "app": app}
        await app(scope, receive, send)
        return sent[0]["status"], sorted(sent[0]["headers"]), sent[1]["body"]

    async def both(path: str, bodies: tuple[bytes, bytes], headers: list[tuple[bytes, bytes]]) -> None:
        whole = await asked(path, [bodies[0]], headers)
        pieces = await asked(path, [bodies[1][:7], bodies[1][7:]], headers)
        assert whole == pieces

    async def story() -> None:
        await both(PATH, (one.to_packed(), other.to_packed()), headers)
        await both(PATH, (one.to_packed(), other.to_packed()), headers)  # now duplicates
        await both(PATH, (bad.to_packed(), bad.to_packed()), headers)
        await both(PATH, (b"nonsense", b"nonsense"), headers)
        await both(PATH, (one.to_packed(), one.to_packed()), [(b"content-type", b"text/plain")])
        await both(PATH.replace("snacks", "others"), (one.to_packed(), one.to_packed()), headers)
        await both(PATH.replace("snacks", "%%%"), (one.to_packed(), one.to_packed()), headers)

    asyncio.run(story())


def test_both_ways_are_counted_under_one_route(service: Service) -> None:
    document = started(service)
    with AppTransport(make_app(service, Settings(tick_seconds=0))) as app:
        assert app.request("POST", PATH, batch_of(document, 2).to_packed(), {"Content-Type": PACKED}).status == 200
        told = app.request("GET", "/metrics").body.decode()
    route = 'method="POST",route="/v1/campaigns/{name}/reports",status="200"'
    assert f"keyveil_requests_total{{{route}}} 1.0" in told
    assert 'keyveil_reports_total{campaign="snacks",outcome="accepted"} 2.0' in told


def test_a_mailbox_hands_out_everything_once_whatever_happens_meanwhile() -> None:
    async def story() -> list[Any]:
        mailbox: Mailbox[int] = Mailbox()
        futures: list[Future[int]] = [Future() for _ in range(300)]
        answers = [mailbox.outcome(one) for one in futures]
        answers[7].cancel()  # a client that went

        def settle() -> None:
            for number, one in enumerate(futures):
                if number % 100 == 50:
                    one.set_exception(ValueError(str(number)))
                else:
                    one.set_result(number)

        thread = threading.Thread(target=settle)
        thread.start()
        async with asyncio.timeout(120):
            told = await asyncio.gather(*answers, return_exceptions=True)
        thread.join()
        return told

    told = asyncio.run(story())
    assert isinstance(told[7], asyncio.CancelledError)
    wrong = [number for number, one in enumerate(told) if isinstance(one, ValueError)]
    assert wrong == [50, 150, 250]
    assert all(one == number for number, one in enumerate(told) if number not in (7, *wrong))
