"""What stands between page and collector in these tests: it hears every byte, and can hold or lose some."""

from __future__ import annotations

import http.client
import re
import sys
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.clients.blackbox import CLIENT, holding

HERE = Path(__file__).parent
EDITION = re.compile(r"^/[0-9a-f]{8}(?=/)")
TYPES = {".js": "text/javascript", ".html": "text/html; charset=utf-8", ".css": "text/css"}


@dataclass(frozen=True)
class Heard:
    """A request as it came over the wire."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def everything(self) -> bytes:
        told = "".join(f"{name}: {value}\n" for name, value in self.headers.items())
        return f"{self.method} {self.path}\n{told}".encode() + self.body


@dataclass
class Gate:
    """A way to a collector. ``lose``: uploads are heard and go no further; ``mute``: they arrive, no answer does."""

    address: str
    heard: list[Heard] = field(default_factory=list)
    uploads: str = "pass"  # pass, lose or mute
    arrived: threading.Event = field(default_factory=threading.Event)  # an upload was heard
    released: threading.Event = field(default_factory=threading.Event)  # those held may end

    def hold(self, uploads: str) -> None:
        self.uploads = uploads
        self.arrived.clear()
        self.released.clear()

    def open(self) -> None:
        self.uploads = "pass"
        self.released.set()

    def sent(self) -> list[bytes]:
        """The bodies of all uploads that were heard."""
        return [one.body for one in self.heard if one.method == "POST"]


class _Quiet(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def answer(self, status: int, body: bytes, headers: list[tuple[str, str]]) -> None:
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that was closed does not hear the answer: that is what the tests are about."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


@contextmanager
def _serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    server = _Server(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def gate_to(port: int) -> Iterator[Gate]:
    """A gate before the collector on a port of this machine. It adds an ETag, which a careless client would return."""
    gate = Gate("")

    class Handler(_Quiet):
        def forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            gate.heard.append(Heard(self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body))
            upload, how = self.command == "POST", gate.uploads
            if upload and how == "lose":
                return self.silence()
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            connection.request(self.command, self.path, body or None, dict(self.headers.items()))
            answer = connection.getresponse()
            content = answer.read()
            connection.close()
            if upload and how == "mute":
                return self.silence()
            kept = [
                (name, value)
                for name, value in answer.getheaders()
                if name.lower() not in ("content-length", "connection")
            ]
            if self.command == "GET":
                kept = [one for one in kept if one[0].lower() != "cache-control"]
                kept += [("ETag", '"a-mark"'), ("Cache-Control", "max-age=600"), ("Set-Cookie", "seen=1; SameSite=Lax")]
            self.answer(answer.status, content, kept)
            return None

        def silence(self) -> None:
            gate.arrived.set()
            gate.released.wait(60)
            self.close_connection = True

        do_GET = do_POST = do_OPTIONS = forward  # noqa: N815

    with _serving(Handler) as listening:
        gate.address = f"http://localhost:{listening}"  # of the same site as the pages, which is worse for cookies
        yield gate
        gate.open()


@dataclass
class Pages:
    """A web site that uses the client from its own origin; ``spoil`` changes the client, to plant a mistake."""

    origin: str
    changes: list[tuple[str, str]] = field(default_factory=list)
    own: dict[str, str] = field(default_factory=dict)  # pages by their paths, beside those of this folder

    @property
    def edition(self) -> str:
        """The address of these files as they now are: below it they never change, so that browsers may keep them."""
        return f"{self.origin}/{zlib.crc32(repr(self.changes).encode()):08x}"

    def spoil(self, before: str, after: str) -> None:
        assert len(holding(CLIENT, before)) == 1
        self.changes.append((before, after))


@contextmanager
def pages() -> Iterator[Pages]:
    """The pages beside this file, and the client below /client/ and /keyveil/, on a port of their own."""
    site = Pages("")

    class Handler(_Quiet):
        def do_GET(self) -> None:
            path, editions = EDITION.subn("", self.path.partition("?")[0])
            folder, _, rest = path.removeprefix("/").partition("/")
            file = CLIENT / rest if folder in ("client", "keyveil") else HERE / path.removeprefix("/")
            if path in site.own:
                text = site.own[path]
            elif ".." not in path and file.is_file():
                text = file.read_text(encoding="utf-8")
            else:
                return self.answer(204 if path == "/favicon.ico" else 404, b"", [])
            for before, after in site.changes:
                text = text.replace(before, after)
            kept = "max-age=3600" if editions else "no-store"
            headers = [("Content-Type", TYPES[Path(path).suffix]), ("Cache-Control", kept)]
            return self.answer(200, text.encode(), headers)

    with _serving(Handler) as listening:
        site.origin = f"http://localhost:{listening}"
        yield site
