"""``keyveil serve`` as a process: first tokens, a clean end, and one sentence for whatever keeps it from starting."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from keyveil.campaign.documents import Campaign
from keyveil.campaign.rounds import RoundDocument
from keyveil.campaign.transport import HttpAnswer
from keyveil.campaign.wire import JSON, PACKED, Batch
from keyveil.collector.app import make_app
from keyveil.collector.service import Service
from keyveil.collector.settings import Settings
from keyveil.core.errors import KeyveilError
from keyveil.device.transport import HttpTransport
from tests.collector.campaigns import batch_of, snacks
from tests.collector.processes import HONEST, ROOT, Served, served
from tests.collector.running import problem, running


def ask(server: Served, method: str, path: str, body: bytes = b"", role: str = "", form: str = JSON) -> HttpAnswer:
    headers = {"Authorization": f"Bearer {server.tokens[role]}"} if role else {}
    transport = HttpTransport(f"http://127.0.0.1:{server.port}")
    try:
        return transport.request(method, path, body, {**headers, "Content-Type": form})
    finally:
        transport.close()


def opened(server: Served, people: int) -> Batch:
    """Reports for a campaign that is open."""
    ask(server, "POST", "/v1/campaigns", json.dumps(snacks()).encode(), "admin")
    view = json.loads(ask(server, "PATCH", "/v1/campaigns/snacks", b'{"action": "open"}', "admin").body)
    return batch_of(
        RoundDocument.from_document(view["round"]["document"], Campaign.from_document(view["campaign"])), people
    )


def refused(folder: Path, *flags: str, **environment: str) -> str:
    """The one line that a collector says when it cannot start."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("KEYVEIL_")}
    finished = subprocess.run(
        [sys.executable, *HONEST, *flags],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        env={**clean, "PYTHONPATH": str(ROOT / "src"), "KEYVEIL_KERNELS": "numpy", **environment},
    )
    assert finished.returncode == 2
    begun = finished.stdout.splitlines()  # it says at once what it does, and never that it listens
    assert begun[0].startswith("Starting a collector") and all(one.startswith("Opening") for one in begun[1:])
    assert finished.stderr.count("\n") == 1 and finished.stderr.startswith("keyveil: ")
    return finished.stderr


def test_a_collector_from_its_first_start_to_its_second(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        assert set(server.tokens) == {"admin", "analyst"}
        assert not any(token in server.said for token in server.tokens.values())  # a file has it, and no log
        assert all((tmp_path / f"keyveil-{role}.token").stat().st_mode & 0o777 == 0o600 for role in server.tokens)
        batch = opened(server, 12)
        sent = ask(server, "POST", "/v1/campaigns/snacks/reports", batch.to_packed(), form=PACKED)
        assert json.loads(sent.body)["accepted"] == 12
        assert "server" not in sent.headers
        patience = time.monotonic() + 30  # nobody calls tick here but the collector itself
        while ask(server, "GET", "/v1/campaigns/snacks/estimates", role="analyst").status != 200:
            assert time.monotonic() < patience
            time.sleep(0.2)
        assert server.stop() == 0
    assert (tmp_path / "keyveil.db").stat().st_mode & 0o077 == 0

    with served(tmp_path) as again:
        assert again.tokens == {}  # made only once
        again.tokens.update(server.tokens)
        assert json.loads(ask(again, "GET", "/v1/campaigns/snacks/status", role="admin").body)["reports"] == 12


def test_a_hang_up_ends_nothing_and_token_files_are_read_again(tmp_path: Path) -> None:
    path = tmp_path / "admin"
    path.touch(0o600)
    path.write_text("the-first-token-of-the-file")
    with served(tmp_path / "collector", KEYVEIL_ADMIN_TOKEN_FILE=str(path)) as server:
        path.write_text("the-second-token-of-the-file")
        server.process.send_signal(signal.SIGHUP)
        server.tokens["admin"] = "the-second-token-of-the-file"
        assert ask(server, "GET", "/v1/tokens", role="admin").status == 200
        server.tokens["admin"] = "the-first-token-of-the-file"
        assert ask(server, "GET", "/v1/tokens", role="admin").status == 401
        assert server.process.poll() is None
        assert server.stop() == 0
        assert "Token files were read." in server.said


def test_workers_share_a_port_and_one_that_dies_is_started_again(tmp_path: Path) -> None:
    with served(tmp_path, "--workers", "2") as server:
        batch = opened(server, 12)
        children = workers_of(server)
        assert len(children) == 2
        os.kill(children[0], signal.SIGKILL)
        os.kill(server.process.pid, signal.SIGHUP)
        sent = ask(server, "POST", "/v1/campaigns/snacks/reports", batch.to_packed(), form=PACKED)
        assert json.loads(sent.body)["accepted"] == 12
        patience = time.monotonic() + 60
        while len(workers_of(server)) < 2 or children[0] in workers_of(server):
            assert time.monotonic() < patience
            time.sleep(0.2)
        metrics = [ask(server, "GET", "/metrics").body.decode() for _ in range(4)]
        for text in metrics:  # whichever answers, and whoever took the reports
            assert 'keyveil_reports_total{campaign="snacks",outcome="accepted"} 12.0' in text
            assert text.count("\nkeyveil_fold_age_seconds ") == text.count("\nkeyveil_commits_total ") == 1
        asked = [float(re.findall(r'route="/metrics",status="200"} (\S+)', text)[0]) for text in metrics[1:]]
        assert asked == [1, 2, 3]
        last = workers_of(server)
        assert server.stop() == 0
    assert not any(Path(f"/proc/{number}").exists() for number in last)


def test_workers_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    with served(tmp_path, "--workers", "2") as server:
        children = workers_of(server)
        server.process.kill()
        patience = time.monotonic() + 60
        while any(Path(f"/proc/{number}").exists() for number in children):
            assert time.monotonic() < patience
            time.sleep(0.2)


def workers_of(server: Served) -> list[int]:
    """The processes that answer requests: children that run more than the bookkeeping of multiprocessing."""
    found = []
    for number in Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split():
        try:
            line = Path(f"/proc/{number}/cmdline").read_text()
        except OSError:
            continue
        if "spawn_main" in line:
            found.append(int(number))
    return found


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_what_is_under_way_is_answered_and_stored_before_it_ends(tmp_path: Path, how: signal.Signals) -> None:
    with served(tmp_path) as server:
        batch = opened(server, 5)
        answers: list[HttpAnswer] = []
        with sqlite3.connect(tmp_path / "keyveil.db", isolation_level=None) as other:
            other.execute("BEGIN IMMEDIATE")  # so that the upload has to wait
            uploading = threading.Thread(
                target=lambda: answers.append(ask(server, "POST", "/v1/campaigns/snacks/reports", batch.to_json()))
            )
            uploading.start()
            time.sleep(1)
            server.process.send_signal(how)
            time.sleep(1)
            assert server.process.poll() is None
            other.execute("ROLLBACK")
        assert server.process.wait(30) == 0
        uploading.join(30)
    assert [json.loads(one.body)["accepted"] for one in answers] == [5]
    with sqlite3.connect(tmp_path / "keyveil.db") as found:
        assert found.execute("SELECT count(*) FROM report").fetchone() == (5,)


def test_a_port_in_use_is_one_sentence_and_no_database_appears(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"port {port}" in refused(tmp_path, "--port", str(port))
    assert list(tmp_path.iterdir()) == []


def test_a_database_that_cannot_be_opened_is_one_sentence(tmp_path: Path) -> None:
    assert "storage/unavailable" in refused(tmp_path, "--port", "0", "--database", "sqlite:////nowhere/keyveil.db")
    (tmp_path / "text.db").write_text("This is no database. " * 100)
    assert "storage/" in refused(tmp_path, "--port", "0", "--database", "sqlite:///text.db")


def test_other_machines_only_behind_tls(tmp_path: Path) -> None:
    assert "settings/plain" in refused(tmp_path, "--host", "0.0.0.0")
    with served(tmp_path, "--host", "0.0.0.0", "--behind-tls") as server:
        assert ask(server, "GET", "/healthz").status == 200


def test_settings_come_from_environment_and_file(tmp_path: Path) -> None:
    assert "KEYVEIL" not in refused(tmp_path, KEYVEIL_PORT="many")
    (tmp_path / "keyveil.toml").write_text('database_url = "sqlite:///other.db"\n')
    (tmp_path / "admin").touch(0o600)
    (tmp_path / "admin").write_text("a-token-of-the-operator\n")
    with served(tmp_path, "--config", "keyveil.toml", KEYVEIL_ADMIN_TOKEN_FILE="admin") as server:
        assert set(server.tokens) == {"analyst"}
        server.tokens["admin"] = "a-token-of-the-operator"
        assert ask(server, "POST", "/v1/campaigns", json.dumps(snacks()).encode(), "admin").status == 201
    assert (tmp_path / "other.db").exists() and not (tmp_path / "keyveil.db").exists()


def test_slow_and_endless_bodies_are_cut_off(tmp_path: Path) -> None:
    with served(tmp_path, KEYVEIL_BODY_SECONDS="1", KEYVEIL_BODY_BYTES="2048") as server:
        opened(server, 1)
        head = b"POST /v1/campaigns/snacks/reports HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        assert b" 408 " in _raw(server, head + b"Content-Length: 100\r\n\r\n{")
        endless = b"Transfer-Encoding: chunked\r\n\r\n" + (b"400\r\n" + b" " * 1024 + b"\r\n") * 5
        assert b" 413 " in _raw(server, head + endless + b"0\r\n\r\n")
        told = json.loads(ask(server, "GET", "/v1/campaigns/snacks/status", role="analyst").body)
        assert told["refused"] == {"request/slow": 1, "request/too-large": 1}


def test_all_bodies_together_have_a_limit(tmp_path: Path) -> None:
    """Senders that each stay below the limit of a body, and never finish, cannot fill the memory."""
    body = 7 << 20
    head = "POST /v1/campaigns/snacks/reports HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    upload = f"{head}Content-Length: {body}\r\n\r\n".encode() + b" " * body
    with served(tmp_path, KEYVEIL_MEMORY_BYTES=str(15 << 20)) as server:
        batch = opened(server, 1)
        unfinished = [socket.create_connection(("127.0.0.1", server.port), 30) for _ in range(2)]
        for line in unfinished:
            line.sendall(upload[:-1])
        patience, told = time.monotonic() + 20, b""  # the collector may still be reading what was sent
        while b" 429 " not in told and time.monotonic() < patience:
            told = _raw(server, upload)
        for line in unfinished:
            line.close()
        assert b" 429 " in told and b"retry-after" in told
        while (sent := ask(server, "POST", "/v1/campaigns/snacks/reports", batch.to_json())).status == 429:
            assert time.monotonic() < patience + 20  # those who have gone hold nothing any more
        assert json.loads(sent.body)["accepted"] == 1


def _raw(server: Served, data: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", server.port), 30) as line:
        line.sendall(data)
        return line.recv(4096)


def test_pages_stand_beside_the_api(tmp_path: Path) -> None:
    with served(tmp_path, program=("-m", "tests.collector.paged_server")) as server:
        opened(server, 1)
        page = ask(server, "GET", "/pages/overview")

        assert (page.status, page.body) == (200, b"1 campaigns at /pages/overview")
        assert page.headers["x-content-type-options"] == "nosniff"
        assert ask(server, "GET", "/v1/campaigns/snacks").status == 200
        assert ask(server, "GET", "/").status == ask(server, "GET", "/elsewhere").status == 404
        assert ask(server, "PUT", "/v1/campaigns/snacks").status == 405
        assert server.stop() == 0


def test_without_pages_other_addresses_answer_as_ever(tmp_path: Path) -> None:
    with running(tmp_path) as collector:
        for path in ("/", "/pages", "/dashboard/"):
            assert problem(collector.ask("GET", path)) == "request/not-found"


@pytest.mark.parametrize("path", ["", "pages", "/v1", "/v1/pages", "/metrics", "/healthz/pages", "/openapi.json"])
def test_a_page_needs_a_path_that_the_api_does_not_have(path: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'keyveil.db'}"
    service = Service(url)
    try:
        with pytest.raises(KeyveilError) as refused:
            make_app(service, Settings(database_url=url), {path: lambda *_: None})  # type: ignore[dict-item]
        assert refused.value.code == "serve/page"
    finally:
        service.close()
