"""Logs: constant texts, no senders, no messages of exceptions, minutes instead of moments."""

from __future__ import annotations

import ast
import io
import json
import logging
import re
import threading
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from keyveil import collector
from keyveil.collector import logs
from keyveil.collector.app import make_app
from keyveil.collector.inprocess import AppTransport
from keyveil.collector.service import Service
from keyveil.collector.settings import Settings
from tests.collector.running import running


@pytest.fixture
def page() -> Iterator[io.StringIO]:
    """What is logged while a test runs."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    page = io.StringIO()
    logs.configure("info", as_json=True, stream=page)
    yield page
    logs.configure()
    root.handlers[:], root.level = handlers, level


def lines(page: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in page.getvalue().splitlines()]


@pytest.mark.parametrize(
    "name",
    ["client", "ip", "user_agent", "User-Agent", "headers", "referer", "cookie", "Authorization", "token", "id", "ids",
     "payload", "X-Forwarded-For", "query", "url", "remote_addr", "body", "seat", "peername", "host"],
)  # fmt: skip
def test_fields_about_senders_are_dropped_at_any_depth(page: io.StringIO, name: str) -> None:
    logs.logger().info("Something.", **{name: "canary"}, inside={name: "canary", "list": [{name: "canary"}]}, kept=1)

    assert "canary" not in page.getvalue()
    assert lines(page)[0]["kept"] == 1 and lines(page)[0]["inside"] == {"list": [{}]}


def test_an_exception_shows_what_and_where_but_not_its_message(page: io.StringIO) -> None:
    try:
        try:
            raise KeyError("canary-cause")
        except KeyError as cause:
            raise ValueError("canary-message") from cause
    except ValueError:
        logs.logger().error("It failed.", exc_info=True)

    (line,) = lines(page)
    assert "canary" not in page.getvalue()
    assert (line["error"], line["cause"]) == ("ValueError", "KeyError")
    assert re.fullmatch(r"test_logs\.py:\d+ test_an_exception.*", line["where"][-1])


def test_what_libraries_insert_into_their_texts_is_left_out(page: io.StringIO) -> None:
    logging.getLogger("uvicorn.error").warning("Somebody at %s did this.\nwith canary", "canary")
    logging.getLogger("uvicorn.error").info("An address: canary")
    logging.getLogger("asyncio").error(ValueError("canary"), extra={"client": "canary"})

    assert "canary" not in page.getvalue()
    assert [line["event"] for line in lines(page)] == ["Somebody at %s did this.", "(not a text)"]


def test_times_are_minutes(page: io.StringIO) -> None:
    logs.logger().info("Something.")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\dZ", lines(page)[0]["time"])


def test_levels_and_the_form_for_terminals(page: io.StringIO) -> None:
    logs.configure("warning", as_json=False, stream=page)
    logs.logger().info("Not this.")
    logs.logger().warning("This.", count=2)
    assert "Not this" not in page.getvalue() and "This." in page.getvalue() and "count=2" in page.getvalue()


def test_ordinary_requests_are_not_logged_and_mistakes_of_ours_are(
    tmp_path: Path, page: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(tmp_path) as service:
        for path in ("/healthz", "/nowhere", "/v1/campaigns", "/v1/campaigns/nothing"):
            service.ask("GET", path)
        assert page.getvalue() == ""

        def broken(name: str, **_: object) -> Any:
            raise RuntimeError(f"canary {name}")

        monkeypatch.setattr(service.service, "view", broken)
        service.ask("GET", "/v1/campaigns/canary?canary", User_Agent="canary")

    (line,) = lines(page)
    assert (line["route"], line["error"]) == ("/v1/campaigns/{name}", "RuntimeError")
    assert "canary" not in page.getvalue()


def test_time_goes_on_after_a_failure(tmp_path: Path, page: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service(f"sqlite:///{tmp_path / 'keyveil.db'}")
    calls, twice = [], threading.Event()

    def tick() -> bool:
        calls.append(1)
        if len(calls) == 1:
            raise OSError("canary")
        twice.set()
        return False

    monkeypatch.setattr(service, "tick", tick)
    with AppTransport(make_app(service, Settings(tick_seconds=0.01))):
        assert twice.wait(10)
    service.close()
    assert lines(page)[0]["event"] == "Rounds could not be moved on." and "canary" not in page.getvalue()


def test_no_traces_leave_the_collector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the process has OpenTelemetry set up, a plain app of the framework would hand it every request."""
    trace = import_module("opentelemetry.trace")  # the framework brings it
    asked: list[str] = []

    class Recorder(trace.TracerProvider):  # type: ignore[misc, name-defined]
        def get_tracer(self, name: str, *_: Any, **__: Any) -> Any:
            asked.append(name)
            return trace.NoOpTracer()

    monkeypatch.setattr(trace, "get_tracer_provider", Recorder)
    with running(tmp_path) as service:
        service.ask("GET", "/v1/campaigns/nothing")
    assert asked == []

    with AppTransport(FastAPI()) as plain:
        plain.request("GET", "/")
    assert asked == ["fastapi"]


def test_texts_in_the_collector_are_constant() -> None:
    """A text that is put together could hold anything; fields can be checked by their names."""
    calls = []
    for path in Path(str(collector.__file__)).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("log."):
                calls.append(node)
                assert isinstance(node.args[0], ast.Constant), f"{path.name}:{node.lineno}"
    assert len(calls) >= 3
