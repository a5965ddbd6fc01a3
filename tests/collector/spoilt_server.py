"""``keyveil serve`` with a fault on purpose, so that tests can show that they would find it.

    python -m tests.collector.spoilt_server FAULT [arguments of keyveil serve]

``leaking`` lets the user agent of whoever asks slip into the log, the database and the metrics; ``broken`` raises
exceptions that quote the request, which must not slip anywhere.
"""

from __future__ import annotations

import sys
from typing import Any
from unittest import mock

from starlette.middleware import Middleware
from starlette.types import ASGIApp, Receive, Scope, Send

from keyveil.cli.app import run
from keyveil.collector import logs, serving
from keyveil.collector.app import Mounts, make_app
from keyveil.collector.service import Service
from keyveil.collector.settings import Settings


class Spoilt:
    """Does its mischief, then what the app would do."""

    def __init__(self, app: ASGIApp, fault: str, state: Any) -> None:
        self._app, self._fault, self._state = app, fault, state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            agent = dict(scope["headers"]).get(b"user-agent", b"").decode("latin-1")
            if self._fault == "leaking":
                logs.logger().warning("A request.", software=agent)
                self._state.service.refused("snacks", agent)
                self._state.metrics.refused(None, agent)
            if self._fault == "broken" and scope["path"].endswith("/status"):
                raise RuntimeError(f"{agent} asked for {scope['path']} with {scope['headers']}")
        await self._app(scope, receive, send)


def main(fault: str, arguments: list[str]) -> int:
    def spoilt(service: Service, settings: Settings, pages: Mounts) -> Any:
        app = make_app(service, settings, pages)
        app.user_middleware.append(Middleware(Spoilt, fault=fault, state=app.state))
        return app

    with mock.patch.object(serving, "make_app", spoilt):
        return run(["serve", *arguments])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
