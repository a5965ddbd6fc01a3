"""Nothing about a sender stays: marked requests go through a real collector, then everything it has is searched."""

from __future__ import annotations

import hashlib
import http.client
import json
import secrets
import socket
from pathlib import Path

from keyveil.campaign.documents import Campaign
from keyveil.campaign.rounds import RoundDocument
from keyveil.campaign.wire import JSON
from tests.collector.campaigns import batch_of, snacks
from tests.collector.processes import HONEST, Served, served

SPOILT = ("-m", "tests.collector.spoilt_server")
ADDRESS = "127.71.82.93"  # every address of this block is the loopback, so a client can have one that is its own

Marks = dict[str, str]


def marks() -> Marks:
    """What a sender could be known by, each of it unique."""
    names = ("agent", "origin", "referer", "cookie", "query", "token", "path", "body", "trace", "language", "method")
    fresh = {name: f"{name}{secrets.token_hex(8)}" for name in names}
    return {**fresh, "forwarded": "203.0.113.94", "real": "198.51.100.87", "address": ADDRESS}


def ask(server: Served, marked: Marks, method: str, path: str, body: bytes = b"", **named: str) -> tuple[int, bytes]:
    """A request with everything that gives a sender away."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30, source_address=(ADDRESS, 0))
    headers = {
        "X-Forwarded-For": marked["forwarded"],
        "Forwarded": f"for={marked['forwarded']}",
        "X-Real-IP": marked["real"],
        "User-Agent": marked["agent"],
        "Origin": f"https://{marked['origin']}.example",
        "Referer": f"https://{marked['referer']}.example/",
        "Cookie": f"session={marked['cookie']}",
        "Accept-Language": marked["language"],
        "Traceparent": f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01",
        "Baggage": f"user={marked['trace']}",
        **{name.replace("_", "-"): value for name, value in named.items()},
    }
    try:
        connection.request(method, f"{path}?who={marked['query']}", body or None, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def go_through(server: Served, marked: Marks) -> None:
    """Success, and one failure of every sort that a client can cause."""

    def expect(status: int, method: str, path: str, body: bytes = b"", **named: str) -> bytes:
        got, answer = ask(server, marked, method, path, body, **named)
        assert got == status, (method, path, answer)
        return answer

    admin = {"Authorization": f"Bearer {server.tokens['admin']}", "Content_Type": JSON}
    stranger = {"Authorization": f"Bearer {marked['token']}", "Content_Type": JSON}
    expect(201, "POST", "/v1/campaigns", json.dumps(snacks()).encode(), **admin)
    expect(200, "PATCH", "/v1/campaigns/snacks", b'{"action": "open"}', **admin)
    view = json.loads(expect(200, "GET", "/v1/campaigns/snacks"))
    document = RoundDocument.from_document(view["round"]["document"], Campaign.from_document(view["campaign"]))
    reports, other = batch_of(document, 30), batch_of(document, 30)
    mixed = type(reports)(reports.round, reports.document, reports.ids, other.payloads)
    uploads = "/v1/campaigns/snacks/reports"

    expect(200, "POST", uploads, reports.to_json(), **stranger)
    expect(200, "POST", uploads, reports.to_json(), **stranger)  # duplicates
    expect(200, "POST", uploads, mixed.to_json(), **stranger)  # conflicts
    expect(400, "POST", uploads, f'{{"{marked["body"]}"'.encode(), **stranger)
    expect(400, "POST", uploads, json.dumps({marked["body"]: 1}).encode(), **stranger)
    expect(413, "POST", uploads, marked["body"].encode() * 500_000, **stranger)
    expect(415, "POST", uploads, b"x", Content_Type=f"text/{marked['body']}")
    expect(404, "POST", f"/v1/campaigns/{marked['path']}/reports", reports.to_json(), **stranger)
    expect(404, "GET", f"/v1/campaigns/{marked['path']}")
    expect(404, "GET", f"/{marked['path']}")
    expect(404, "GET", f"/v1/dictionaries/{marked['path']}")
    expect(405, "PUT", "/v1/campaigns/snacks")
    expect(204, "OPTIONS", uploads, Access_Control_Request_Method="POST")  # a page of another origin asks first
    expect(200, "GET", "/try/")
    expect(401, "GET", "/v1/campaigns", b"", **stranger)
    expect(401, "POST", "/v1/campaigns", json.dumps({marked["body"]: 1}).encode(), **stranger)
    expect(422, "POST", "/v1/campaigns", json.dumps({marked["body"]: 1}).encode(), **admin)
    expect(422, "POST", "/v1/campaigns/snacks/enrolments", json.dumps({marked["body"]: 1}).encode(), **admin)
    expect(400, marked["method"].upper()[:60], "/v1/campaigns/snacks")  # no method that HTTP knows
    raw(server, f"GET / HTTP/1.1\r\nbad header {marked['body']}\r\n\r\n")
    raw(server, f"POST {uploads} HTTP/1.1\r\nHost: {marked['body']}\r\nContent-Length: 100\r\n\r\n{marked['body']}")


def raw(server: Served, text: str) -> None:
    """Bytes that end before they are a request, or are none."""
    with socket.create_connection(("127.0.0.1", server.port), 30, source_address=(ADDRESS, 0)) as line:
        line.sendall(text.encode())
        line.shutdown(socket.SHUT_WR)
        line.settimeout(5)
        try:
            while line.recv(4096):
                pass
        except (TimeoutError, ConnectionError):
            pass


def traces(server: Served, marked: Marks, *more: bytes) -> set[str]:
    """Where marks were found: in any file of the collector's folder, or in what is passed, plain or hashed."""
    haystacks = {path.name: path.read_bytes() for path in server.folder.iterdir() if path.is_file()}
    haystacks |= {f"given {number}": data for number, data in enumerate(more)}
    assert "keyveil.db" in haystacks
    found = set()
    for place, data in haystacks.items():
        for name, mark in marked.items():
            digest = hashlib.sha256(mark.encode()).digest()
            needles = (
                mark.encode(),
                mark.upper().encode(),
                mark.encode().hex().encode(),
                digest,
                digest.hex().encode(),
            )
            if any(needle in data for needle in needles):
                found.add(f"{name} in {place}")
    return found


def searched(folder: Path, program: tuple[str, ...], fault: str = "") -> set[str]:
    """What a collector keeps of marked requests: while it runs (with its write-ahead log) and after it has stopped."""
    marked = marks()
    with served(
        folder, program=(*program, fault) if fault else program, KEYVEIL_LOG_LEVEL="debug", KEYVEIL_ORIGINS="*"
    ) as server:
        if fault != "broken":
            go_through(server, marked)
        else:
            status, answer = ask(server, marked, "GET", f"/v1/campaigns/{marked['path']}/status")
            assert status == 500 and not any(mark.encode() in answer for mark in marked.values())
        ask(server, marked, "GET", "/readyz")
        analyst = {"Authorization": f"Bearer {server.tokens['analyst']}"}
        if fault != "broken":
            told = json.loads(ask(server, marked, "GET", "/v1/campaigns/snacks/status", b"", **analyst)[1])
            assert told["reports"] == 30 and told["duplicates"] >= 30
        found = traces(server, marked, ask(server, marked, "GET", "/metrics")[1])
        assert server.stop() == 0
        assert '"event": "Stopped."' in server.said
        return found | traces(server, marked)


def test_nothing_about_a_sender_is_stored_logged_or_metered(tmp_path: Path) -> None:
    assert searched(tmp_path / "honest", HONEST) == set()


def test_an_exception_that_quotes_the_request_tells_nobody(tmp_path: Path) -> None:
    assert searched(tmp_path / "broken", SPOILT, "broken") == set()


def test_the_search_finds_wherever_a_collector_leaks(tmp_path: Path) -> None:
    found = searched(tmp_path / "leaking", SPOILT, "leaking")
    for place in ("stderr", "keyveil.db", "given 0"):  # the log, the database, the metrics
        assert any(where.startswith(f"agent in {place}") for where in found), place
