"""Pages of other origins: those that are listed may read the routes of devices, nobody may read more."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from keyveil.campaign.wire import JSON
from keyveil.collector.cors import SharedWithPages
from tests.collector.running import running

PAGE, OTHER = "https://shop.example", "https://else.example"
UPLOAD, CAMPAIGN, KEYS = "/v1/campaigns/snacks/reports", "/v1/campaigns/snacks", f"/v1/dictionaries/{'0a' * 32}"
CLOSED = ["/v1/campaigns", "/v1/campaigns/snacks/estimates", "/v1/campaigns/snacks/enrolments", "/metrics", "/healthz"]


def ask(origins: list[str], path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bool]:
    """The status, the headers of an answer about origins, and whether the app itself was asked."""
    asked, sent = [], []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        asked.append(scope["path"])
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-own", b"1")]})
        await send({"type": "http.response.body", "body": b"{}"})

    async def send(message: Any) -> None:
        sent.append(message)

    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": method, "path": path, "headers": named}
    asyncio.run(SharedWithPages(app, origins)(scope, None, send))  # type: ignore[arg-type]
    told = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], {name: told[name] for name in told if name != "x-own"}, bool(asked)


@pytest.mark.parametrize("path", [UPLOAD, CAMPAIGN, KEYS])
def test_a_listed_page_may_read_what_devices_read(path: str) -> None:
    assert ask([PAGE], path, origin=PAGE) == (
        200,
        {"access-control-allow-origin": PAGE, "vary": "Origin", "access-control-expose-headers": "retry-after"},
        True,
    )


@pytest.mark.parametrize("path", CLOSED)
def test_nothing_else_is_shared(path: str) -> None:
    assert ask(["*"], path, origin=PAGE) == (200, {}, True)
    assert ask(["*"], path, "OPTIONS", origin=PAGE, access_control_request_method="GET") == (200, {}, True)


def test_other_pages_and_an_empty_list_are_told_nothing() -> None:
    assert ask([PAGE], UPLOAD, origin=OTHER) == ask([], UPLOAD, origin=PAGE) == ask([PAGE], UPLOAD) == (200, {}, True)


def test_a_browser_that_asks_first_hears_the_headers_of_an_upload_and_never_of_cookies() -> None:
    status, told, reached = ask([PAGE], UPLOAD, "OPTIONS", origin=PAGE, access_control_request_method="POST")
    assert (status, reached) == (204, False)
    assert told["access-control-allow-headers"] == "authorization, content-type"
    assert told["access-control-allow-methods"] == "POST"
    assert "access-control-allow-credentials" not in told


def test_all_pages_is_a_star() -> None:
    assert ask(["*"], CAMPAIGN, origin=OTHER)[1]["access-control-allow-origin"] == "*"


def test_a_page_hears_of_its_upload_although_uploads_pass_by_the_framework(tmp_path: Path) -> None:
    with running(tmp_path, origins=PAGE) as collector:
        answer = collector.transport.request("POST", UPLOAD, b"nonsense", {"Origin": PAGE, "Content-Type": JSON})
        other = collector.transport.request("POST", UPLOAD, b"nonsense", {"Origin": OTHER, "Content-Type": JSON})
    assert answer.headers["access-control-allow-origin"] == PAGE
    assert "access-control-allow-origin" not in other.headers
