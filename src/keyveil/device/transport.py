"""How requests reach a collector over the network: HTTP/1.1 on the standard library.

Devices and the command line use it; tests may pass another ``Transport`` instead. Nothing is sent that tells who the
client is: no user agent, no cookies, and redirects are not followed. Answers are read up to a limit and up to a
time, because a collector may be hostile.
"""

from __future__ import annotations

import http.client
import io
import ipaddress
import selectors
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from keyveil.campaign.transport import NO_HEADERS, HttpAnswer
from keyveil.core.errors import TransportError

LARGEST_ANSWER = 64 << 20  # bytes; the longest dictionary of keys that anybody should serve
_PIECE = 1 << 16
_Look = getattr(selectors, "PollSelector", selectors.DefaultSelector)  # an epoll would be made for a single look


class HttpTransport(threading.local):
    """Requests to one base address over a connection that is kept alive; every thread has its own.

    TLS trusts what the system trusts. Plain HTTP is for the same machine; elsewhere it must be allowed (``plain``),
    since anybody between could read reports beside the sender's address.
    """

    def __init__(self, base_url: str, timeout: float = 30.0, plain: bool = False) -> None:
        parts = urlsplit(base_url)
        try:
            port = parts.port
        except ValueError:
            raise _bad_address(base_url) from None
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise _bad_address(base_url)
        if parts.username is not None or parts.password is not None:
            raise TransportError("transport/address", "The collector's address must not hold a password.")
        if parts.scheme == "http" and not plain and not _same_machine(parts.hostname):
            raise TransportError("transport/plain", f"{parts.hostname} is another machine: use https, or allow plain.")
        self._secure, self._host, self._port = parts.scheme == "https", parts.hostname, port
        self._prefix, self._timeout = parts.path.rstrip("/"), timeout
        self._connection: _InOnePiece | None = None

    def request(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] = NO_HEADERS) -> HttpAnswer:
        if self._connection is not None and _let_go(self._connection):
            self.close()
        # Between this check and the request the other side may still close an idle connection. A request that only
        # reads is then repeated; whether another one had an effect is for the caller to find out.
        again = self._connection is not None and method in ("GET", "HEAD")
        try:
            return self._exchange(method, path, body, headers)
        except (http.client.HTTPException, OSError, ValueError) as reason:
            self.close()
            if not again or not isinstance(reason, ConnectionError):
                raise _unreachable(reason) from reason
        except BaseException:
            self.close()  # an unread rest of an answer may be left on it
            raise
        return self.request(method, path, body, headers)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _exchange(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> HttpAnswer:
        deadline = time.monotonic() + 4 * self._timeout
        if self._connection is None:
            self._connection = self._connect()
            self._connection.connect()
        self._connection.response_class = partial(_Timed, deadline, self._timeout)  # type: ignore[assignment]
        self._connection.sock.settimeout(self._timeout)
        self._connection.request(method, self._prefix + path, body=body or None, headers=dict(headers))
        self._connection.flush()
        response = self._connection.getresponse()
        pieces: list[bytes] = []
        total = 0
        while piece := response.read(_PIECE):
            pieces.append(piece)
            total += len(piece)
            if total > LARGEST_ANSWER:
                raise TransportError("transport/too-large", f"The collector's answer exceeds {LARGEST_ANSWER} bytes.")
        if response.length:  # read in pieces, an answer that was cut short raises nothing by itself
            raise TransportError("transport/unreachable", "The collector's answer was cut short.")
        if response.will_close:
            self.close()
        named = {name.lower(): value for name, value in response.getheaders()}
        return HttpAnswer(response.status, named, b"".join(pieces))

    def _connect(self) -> _InOnePiece:
        if self._secure:
            trust = ssl.create_default_context()
            return _SecureInOnePiece(self._host, self._port, timeout=self._timeout, context=trust)
        return _InOnePiece(self._host, self._port, timeout=self._timeout)


class _InOnePiece(http.client.HTTPConnection):
    """Sends a request when all of it is there: two pieces are two packets, and wake the collector twice."""

    _pieces: tuple[bytes, ...] = ()

    def send(self, data: Any) -> None:
        self._pieces += (data,)

    def flush(self) -> None:
        whole, self._pieces = b"".join(self._pieces), ()
        super().send(whole)


class _SecureInOnePiece(_InOnePiece, http.client.HTTPSConnection):
    pass


class _Stream(io.RawIOBase):
    """What a socket receives until a deadline; the socket's own timeout would start again with every byte."""

    def __init__(self, sock: socket.socket, raw: io.RawIOBase, deadline: float, timeout: float) -> None:
        self._sock, self._raw, self._deadline, self._timeout = sock, raw, deadline, timeout

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise _slow()
        self._sock.settimeout(min(left, self._timeout))
        try:
            return self._raw.readinto(buffer)
        except TimeoutError:
            raise _slow() from None

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Timed(http.client.HTTPResponse):
    """An answer that is read until a deadline, from the first byte of the status line on."""

    def __init__(self, deadline: float, timeout: float, sock: socket.socket, *rest: Any, **more: Any) -> None:
        super().__init__(sock, *rest, **more)
        self.fp = io.BufferedReader(_Stream(sock, self.fp.detach(), deadline, timeout))


def _slow() -> TransportError:
    return TransportError("transport/slow", "The collector's answer takes too long.")


def _let_go(connection: http.client.HTTPConnection) -> bool:
    """Whether an idle connection was closed by the other side, or holds data that belongs to no request."""
    if connection.sock is None:
        return False
    with _Look() as look:
        look.register(connection.sock, selectors.EVENT_READ)
        return bool(look.select(0))


def _same_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _bad_address(base_url: str) -> TransportError:
    return TransportError("transport/address", f"A collector's address looks like https://host:8337, not {base_url!r}.")


def _unreachable(reason: Exception) -> TransportError:
    said = str(reason).rstrip(".") or type(reason).__name__
    return TransportError("transport/unreachable", f"The collector did not answer ({said}).")
