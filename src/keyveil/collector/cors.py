"""Which pages of other origins may read campaigns and send reports: those that a setting lists, and no cookies ever.

Only the routes of devices answer them (a campaign, a list of keys, uploads, and the client's modules where they are
served), and only with the headers that an upload has. Everything else stays closed to scripts of other origins.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_DEVICES = re.compile(r"/v1/(campaigns/[^/]+|campaigns/[^/]+/reports|dictionaries/[0-9a-f]+)|/client/.+")
_KEPT = b"600"  # seconds for which a browser need not ask again


class SharedWithPages:
    """Middleware: answers of device routes say that pages of these origins may read them; ``*`` stands for all."""

    def __init__(self, app: ASGIApp, origins: Sequence[str]) -> None:
        self._app, self._origins = app, frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        allowed = self._allowed(scope)
        if allowed is None:
            return await self._app(scope, receive, send)
        headers = dict(scope["headers"])
        if scope["method"] == "OPTIONS" and b"access-control-request-method" in headers:
            method = b"POST" if scope["path"].endswith("/reports") else b"GET"
            said = [
                *_origin(allowed),
                (b"access-control-allow-methods", method),
                (b"access-control-allow-headers", b"authorization, content-type"),
                (b"access-control-max-age", _KEPT),
            ]
            await send({"type": "http.response.start", "status": 204, "headers": said})
            return await send({"type": "http.response.body", "body": b""})

        async def shared(message: Message) -> None:
            if message["type"] == "http.response.start":
                said = [*_origin(allowed), (b"access-control-expose-headers", b"retry-after")]
                message = {**message, "headers": [*message["headers"], *said]}
            await send(message)

        return await self._app(scope, receive, shared)

    def _allowed(self, scope: Scope) -> bytes | None:
        """What the header of an answer says of the origin that asks; nothing if it is not listed."""
        if scope["type"] != "http" or not _DEVICES.fullmatch(scope["path"]):
            return None
        origin = dict(scope["headers"]).get(b"origin")
        if origin is None or not self._origins:
            return None
        if "*" in self._origins:
            return b"*"
        return bytes(origin) if origin.decode("latin-1") in self._origins else None


def _origin(allowed: bytes) -> list[tuple[bytes, bytes]]:
    """The header that names who may read; caches keep answers to several origins apart."""
    named = [(b"access-control-allow-origin", allowed)]
    return named if allowed == b"*" else [*named, (b"vary", b"Origin")]
