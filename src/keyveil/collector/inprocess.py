"""Requests to an app in the same process, without a network: what demonstrations and tests of devices speak through."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping
from types import TracebackType
from typing import Any, TypeVar

from fastapi import FastAPI
from starlette.types import Message

from keyveil.campaign.transport import NO_HEADERS, HttpAnswer

T = TypeVar("T")


class AppTransport:
    """A ``Transport`` to an app, which runs on an event loop in a thread of its own until ``close``."""

    def __init__(self, app: FastAPI) -> None:
        self._app, self._loop = app, asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="keyveil-app", daemon=True)
        self._thread.start()
        self._lifespan = app.router.lifespan_context(app)
        self._run(self._lifespan.__aenter__())

    def request(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] = NO_HEADERS) -> HttpAnswer:
        return self._run(self._request(method, path, body, headers))

    def close(self) -> None:
        if not self._loop.is_closed():
            self._run(self._lifespan.__aexit__(None, None, None))
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def __enter__(self) -> AppTransport:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _request(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> HttpAnswer:
        place, _, query = path.partition("?")
        named = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": place,
            "raw_path": place.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(b"host", b"localhost"), (b"content-length", str(len(body)).encode()), *named],
        }
        messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
        told: list[Message] = []
        finished = asyncio.Event()

        async def receive() -> Message:
            if messages:
                return messages.pop()
            await finished.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            told.append(message)
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                finished.set()

        await self._app(scope, receive, send)
        begin = next(message for message in told if message["type"] == "http.response.start")
        names = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in begin["headers"]}
        return HttpAnswer(begin["status"], names, b"".join(message.get("body", b"") for message in told))
