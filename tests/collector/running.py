"""A real collector for tests: a service on SQLite behind its app, and a way to ask it something."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from keyveil.campaign.rounds import RoundDocument
from keyveil.campaign.transport import HttpAnswer, Transport
from keyveil.campaign.wire import JSON
from keyveil.collector.app import make_app
from keyveil.collector.database import Database
from keyveil.collector.inprocess import AppTransport
from keyveil.collector.service import Service, ServiceLimits
from keyveil.collector.settings import Settings
from tests.collector.campaigns import batch_of, started


@dataclass(frozen=True)
class Collector:
    """A collector, a way to it, and the tokens of those who may ask it something."""

    service: Service
    transport: Transport
    admin: str
    analyst: str

    def ask(self, method: str, path: str, body: Any = None, token: str | None = None, **headers: str) -> HttpAnswer:
        """A request; a body that is not bytes goes as JSON, and headers are written with underscores."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if token is not None:
            named["Authorization"] = f"Bearer {token}"
        if body is not None:
            named.setdefault("Content-Type", JSON)
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        return self.transport.request(method, path, data, named)

    @property
    def stored(self) -> int:
        """Reports in the database, whatever anybody says."""
        path = self.service.database.engine.url.database
        assert path is not None
        with sqlite3.connect(path) as connection:
            count: int = connection.execute("SELECT count(*) FROM report").fetchone()[0]
        return count

    def filled(self, reports: int = 20, **fields: Any) -> RoundDocument:
        """A campaign with folded reports."""
        asked = started(self.service, **fields)
        self.service.submit(fields.get("name", "snacks"), batch_of(asked, reports)).result(30)
        self.service.settle()
        return asked


@cache
def empty_database() -> bytes:
    """A database with all tables and no rows: migrating one anew takes longer than most tests."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "keyveil.db"
        Database(f"sqlite:///{file}").close()
        return file.read_bytes()


@contextmanager
def running(folder: Path, limits: ServiceLimits | None = None, **settings: Any) -> Iterator[Collector]:
    """A collector in this process. Time passes only when a test says so (``service.settle``)."""
    file = folder / "keyveil.db"
    if not file.exists():
        file.write_bytes(empty_database())
    url = f"sqlite:///{file}"
    service = Service(url, limits=limits)
    try:
        app = make_app(service, Settings(database_url=url, tick_seconds=0, **settings))
        with AppTransport(app) as transport:
            yield Collector(service, transport, service.roles.grant("admin"), service.roles.grant("analyst"))
    finally:
        service.close()


def problem(answer: HttpAnswer) -> str:
    """The code of a refusal, once its form has been checked."""
    document = json.loads(answer.body)
    assert answer.headers["content-type"] == "application/problem+json"
    assert set(document) == {"type", "title", "status", "detail", "code"}
    assert document["status"] == answer.status
    assert document["type"] == f"/problems/{document['code']}"
    assert document["detail"].strip().endswith(".")
    code: str = document["code"]
    return code
