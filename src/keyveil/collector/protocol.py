"""HTTP on a connection, with limits that hold before the app sees a request.

The head of a request (its line and headers) has a size and a time; so a client that sends one byte now and then, or
headers without end, costs a connection for some seconds and nothing else. Connections can be limited for each address:
then addresses are counted under a key that only this process knows, while they are connected, and never told.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections import Counter
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

WHOLE = "keyveil.whole"
"""Where a request says that all of its body has arrived: then nobody need watch the time while it is read."""

_PACKET = 1 << 18  # bytes that may arrive together with the end of a head
_GRACE = 1.0  # seconds to read what arrived while the server itself was busy


def guarded(head_bytes: int, head_seconds: float, per_address: int | None) -> type[asyncio.Protocol]:
    """The protocol of a server with these limits."""

    class Guarded(_Guarded):
        most_of_head, head_patience, most_per_address = head_bytes, head_seconds, per_address
        address_key, address_counts = secrets.token_bytes(32), Counter()

    return Guarded


class _Guarded(HttpToolsProtocol):
    most_of_head: int
    head_patience: float
    most_per_address: int | None
    address_key: bytes
    address_counts: Counter[bytes]  # connections by hashed address

    _clock: asyncio.TimerHandle | None = None
    _in_head = False  # a head has begun and is not complete
    _head = 0  # bytes of the head that is being read
    _arrived = 0  # bytes since it began
    _peer: bytes | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._start_clock()
        if self.most_per_address is not None:
            address = str((transport.get_extra_info("peername") or ("",))[0])
            self._peer = hmac.digest(self.address_key, address.encode(), "sha256")
            self.address_counts[self._peer] += 1
            if self.address_counts[self._peer] > self.most_per_address:
                transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_clock()
        if self._peer is not None:
            self.address_counts[self._peer] -= 1
            if not self.address_counts[self._peer]:
                del self.address_counts[self._peer]
            self._peer = None

    def data_received(self, data: bytes) -> None:
        self._arrived += len(data)
        super().data_received(data)
        if self._in_head and self._clock is None:  # most heads arrive whole, and need no clock
            self._start_clock()
        if self._clock is not None and self._arrived > self.most_of_head + _PACKET:  # a header that does not end
            self._refuse()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head = self._arrived = 0
        self._in_head = True
        self._stop_clock()  # of the connection; it begins anew if this head does not end with these bytes

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._stop_clock()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self.scope[WHOLE] = True  # type: ignore[literal-required]
        super().on_message_complete()

    def _count(self, size: int) -> None:
        self._head += size
        if self._head > self.most_of_head:
            raise ValueError("The head of the request is too long.")  # the parser makes a 400 of it

    def _start_clock(self) -> None:
        self._stop_clock()
        self._clock = self.loop.call_later(self.head_patience, self._last_call)

    def _last_call(self) -> None:
        self._clock = self.loop.call_later(_GRACE, self._refuse)

    def _stop_clock(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _refuse(self) -> None:
        self._stop_clock()
        if not self.transport.is_closing():
            self.send_400_response("The head of a request was too long or too slow.")
