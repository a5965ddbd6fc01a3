"""Databases for the collector's tests: a SQLite file and a real PostgreSQL server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from keyveil.collector import database, health
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


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Collectors that are opened from now on wait for a lock, and for a write that is tried, half a second."""
    monkeypatch.setattr(database, "_PATIENCE", 0.5)
    monkeypatch.setattr(health, "_PATIENCE", 0.4)


class SetClock:
    """A clock that tests can set; its steady companion moves along unless the clock is made to ``jump``."""

    def __init__(self) -> None:
        self.moment = datetime(2026, 11, 20, 12, tzinfo=UTC)

        self._start, self._jumped = self.moment, timedelta()

    def __call__(self) -> datetime:
        return self.moment

    def steady(self) -> float:
        return (self.moment - self._start - self._jumped).total_seconds()

    def jump(self, by: timedelta) -> None:
        """The machine's clock is set, while no time passes."""
        self.moment += by
        self._jumped += by


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def open_service(url: str, clock: SetClock) -> Iterator[Callable[..., Service]]:
    """Opens collectors on the same database; all are closed in the end."""
    opened: list[Service] = []

    def open_one(**options: Any) -> Service:
        opened.append(Service(url, clock, steady=clock.steady, **options))
        return opened[-1]

    yield open_one
    for service in opened:
        if service.writer.alive:
            service.close()


@pytest.fixture
def service(open_service: Callable[..., Service]) -> Service:
    return open_service()
