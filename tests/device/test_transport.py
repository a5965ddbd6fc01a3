"""The transport against a real server of the standard library: kept alive, bounded, and silent about the sender."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from keyveil.core.errors import TransportError
from keyveil.device import transport as module
from keyveil.device.transport import HttpTransport


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    seen: list[tuple[str, str, bytes, dict[str, str], Any]]

    def handle_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.seen.append((self.command, self.path, body, dict(self.headers), self.client_address))
        if self.path.endswith("/broken"):
            self.wfile.write(b"nonsense\r\n\r\n")
            self.close_connection = True
            return
        if self.path.endswith("/gone"):
            self.close_connection = True
            return
        content = b"x" * 5000 if self.path.endswith("/long") else b"hello"
        self.send_response(302 if self.path.endswith("/moved") else 200)
        self.send_header("Content-Length", str(len(content) + (9 if self.path.endswith("/cut") else 0)))
        self.send_header("Retry-After", "3")
        self.send_header("Location", "/elsewhere")
        self.end_headers()
        self.wfile.write(content)
        if self.path.endswith(("/last", "/cut")):
            self.close_connection = True  # without saying so

    do_GET = do_POST = handle_any  # noqa: N815

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    Handler.seen = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
        yield running
        running.shutdown()


def address(server: ThreadingHTTPServer) -> str:
    return f"http://127.0.0.1:{server.server_port}/base/"


def test_requests_share_a_connection_and_say_nothing_of_the_sender(server: ThreadingHTTPServer) -> None:
    wire = HttpTransport(address(server))

    first = wire.request("GET", "/v1/a")
    second = wire.request("POST", "/v1/b", b"body", {"Content-Type": "x/y"})
    wire.close()

    assert (first.status, first.body, first.headers["retry-after"]) == (200, b"hello", "3")
    assert second.status == 200
    (get, post) = Handler.seen
    assert (get[0], get[1], post[1], post[2]) == ("GET", "/base/v1/a", "/base/v1/b", b"body")
    assert get[4] == post[4]  # the same connection
    assert set(get[3]) <= {"Host", "Accept-Encoding"}
    assert set(post[3]) <= {"Host", "Accept-Encoding", "Content-Length", "Content-Type"}


def test_a_connection_that_was_let_go_is_opened_again(server: ThreadingHTTPServer) -> None:
    wire = HttpTransport(address(server))
    assert wire.request("GET", "/last").status == 200
    assert wire.request("GET", "/last").status == 200
    wire.close()


def test_redirects_are_not_followed(server: ThreadingHTTPServer) -> None:
    wire = HttpTransport(address(server))
    assert wire.request("GET", "/moved").status == 302
    wire.close()
    assert len(Handler.seen) == 1


def test_what_is_no_answer_is_an_error(server: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch) -> None:
    wire = HttpTransport(address(server), timeout=5)
    for path in ("/broken", "/cut"):
        with pytest.raises(TransportError) as refused:
            wire.request("GET", path)
        assert refused.value.code == "transport/unreachable"
    monkeypatch.setattr(module, "LARGEST_ANSWER", 1000)
    with pytest.raises(TransportError) as refused:
        wire.request("GET", "/long")
    assert refused.value.code == "transport/too-large"
    monkeypatch.undo()
    assert wire.request("GET", "/fine").status == 200
    with pytest.raises(TransportError):
        wire.request("GET", "/a b\r\nX: y")
    wire.close()


def test_nobody_listening_is_one_error() -> None:
    with pytest.raises(TransportError) as refused:
        HttpTransport("http://127.0.0.1:1").request("GET", "/")
    assert refused.value.code == "transport/unreachable"


def test_threads_have_connections_of_their_own(server: ThreadingHTTPServer) -> None:
    wire = HttpTransport(address(server))
    statuses: list[int] = []

    def ask() -> None:
        statuses.extend(wire.request("GET", "/").status for _ in range(20))
        wire.close()

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [200] * 80


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ("collector.example", "transport/address"),
        ("ftp://collector.example", "transport/address"),
        ("http://", "transport/address"),
        ("https://host:port", "transport/address"),
        ("https://host/?a=1", "transport/address"),
        ("https://user:secret@host", "transport/address"),
        ("http://collector.example", "transport/plain"),
        ("http://10.0.0.1:8337", "transport/plain"),
    ],
)
def test_addresses_that_are_refused(given: str, code: str) -> None:
    with pytest.raises(TransportError) as refused:
        HttpTransport(given)
    assert refused.value.code == code
    assert "secret" not in refused.value.sentence


@pytest.mark.parametrize("given", ["https://collector.example", "http://localhost:8337", "http://[::1]:8337"])
def test_addresses_that_are_taken(given: str) -> None:
    HttpTransport(given)


def test_plain_elsewhere_can_be_asked_for() -> None:
    HttpTransport("http://collector.internal:8337", plain=True)


def test_a_change_is_not_sent_again_unasked(server: ThreadingHTTPServer) -> None:
    """A connection that breaks under a POST is an error; the device's outbox decides what to do about it."""
    wire = HttpTransport(address(server))
    wire.request("GET", "/fine")
    with pytest.raises(TransportError):
        wire.request("POST", "/gone", b"x")
    assert [seen[1] for seen in Handler.seen] == ["/base/fine", "/base/gone"]
    wire.request("POST", "/last", b"x")
    time.sleep(0.2)  # the other side lets go of it now
    assert wire.request("POST", "/fine", b"y").status == 200
    wire.close()


@contextmanager
def dripping(greeting: bytes, drop: bytes) -> Iterator[str]:
    """A server that greets at once and then lets its answer drip, bit by bit."""

    def serve() -> None:
        client, _ = listening.accept()
        with client:
            client.recv(65536)
            client.sendall(greeting)
            try:
                for _ in range(200):  # four seconds: whoever waits for the end is too patient
                    if over.wait(0.02):
                        return
                    client.sendall(drop)
            except OSError:
                pass

    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        over.set()
        serving.join()


@pytest.mark.parametrize(
    ("greeting", "drop"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b"x"),  # the body
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
        (b"HTTP/1.1 200 OK\r\nX: ", b"x"),  # a header
        (b"HTTP/1.1 ", b"2"),  # the status
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    ],
    ids=["body", "chunks", "header", "status", "continue"],
)
def test_an_answer_that_drips_ends_in_time(greeting: bytes, drop: bytes) -> None:
    with dripping(greeting, drop) as url:
        wire, started = HttpTransport(url, timeout=0.1), time.monotonic()  # of one byte; four times that of an answer
        with pytest.raises(TransportError) as refused:
            wire.request("GET", "/")
        assert refused.value.code == "transport/slow"
        assert 0.3 < time.monotonic() - started < 3


def test_an_answer_that_stops_ends_in_time() -> None:
    with dripping(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", b"") as url:
        started = time.monotonic()
        with pytest.raises(TransportError) as refused:
            HttpTransport(url, timeout=0.1).request("GET", "/")
        assert refused.value.code == "transport/slow" and time.monotonic() - started < 3
