"""Databases for the collector's tests: a SQLite file and a real PostgreSQL server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from keyveil.collector.desk import Desk
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
def open_desk(url: str, clock: SetClock) -> Iterator[Callable[..., Desk]]:
    """Opens collectors on the same database; all are closed in the end."""
    opened: list[Desk] = []

    def open_one(**options: Any) -> Desk:
        opened.append(Desk(url, clock, **options))
        return opened[-1]

    yield open_one
    for desk in opened:
        if desk.writer.alive:
            desk.close()


@pytest.fixture
def desk(open_desk: Callable[..., Desk]) -> Desk:
    return open_desk()
