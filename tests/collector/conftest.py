"""Databases for the collector's tests: a SQLite file and a real PostgreSQL server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from keyveil.collector.service import Service
from tests.postgres import PostgreSQL


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgreSQL]:
    server = PostgreSQL()
    yield server
    server.remove()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty database, once on SQLite and once on PostgreSQL."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'keyveil.db'}"
    server: PostgreSQL = request.getfixturevalue("postgres")
    return server.database()


class SetClock:
    """A clock that tests can set."""

    def __init__(self) -> None:
        self.moment = datetime(2026, 11, 20, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.moment


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def open_service(url: str, clock: SetClock) -> Iterator[Callable[..., Service]]:
    """Opens collectors on the same database; all are closed in the end."""
    opened: list[Service] = []

    def open_one(**options: Any) -> Service:
        opened.append(Service(url, clock, **options))
        return opened[-1]

    yield open_one
    for service in opened:
        if service.writer.alive:
            service.close()


@pytest.fixture
def service(open_service: Callable[..., Service]) -> Service:
    return open_service()
