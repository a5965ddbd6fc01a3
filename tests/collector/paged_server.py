"""``keyveil serve`` with a page of its own beside the API."""

from __future__ import annotations

import sys
from unittest import mock

from starlette.types import Receive, Scope, Send

from keyveil.cli.app import run
from keyveil.collector.app import Mounts
from keyveil.collector.service import Service
from keyveil.collector.settings import Settings


def pages(service: Service, _: Settings) -> Mounts:
    """A page that says which campaigns there are, at any address below its own."""

    async def page(scope: Scope, receive: Receive, send: Send) -> None:
        text = f"{len(service.campaigns())} campaigns at {scope['path']}".encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
        await send({"type": "http.response.body", "body": text})

    return {"/pages": page}


if __name__ == "__main__":
    with mock.patch("keyveil.cli.serve._pages", pages):
        sys.exit(run(["serve", *sys.argv[1:]]))
