"""The one file in which a device keeps what it must not forget: an SQLite database of the standard library.

What was spent, what is to be sent and what was answered change together or not at all. A transaction is on the disk
before anything else happens (``synchronous=FULL``), and deleted rows are overwritten (``secure_delete``).
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path

from keyveil.core.clock import Clock, today
from keyveil.core.coins import Coins
from keyveil.core.errors import DeviceError

VERSION = 1
IN_MEMORY = ":memory:"
_SECRET_BYTES = 32
_PATIENCE = 30.0  # seconds to wait for another process of the same device

_TABLES = """
CREATE TABLE device (secret BLOB NOT NULL, day TEXT NOT NULL);
CREATE TABLE caps (document TEXT NOT NULL);
CREATE TABLE consent (
    series TEXT PRIMARY KEY, state TEXT NOT NULL, terms TEXT, campaign TEXT, starts TEXT, ends TEXT
);
CREATE TABLE asked (
    series TEXT, campaign TEXT, round INTEGER, document TEXT NOT NULL, PRIMARY KEY (series, campaign, round)
);
CREATE TABLE entry (
    number INTEGER PRIMARY KEY AUTOINCREMENT, day TEXT NOT NULL, series TEXT NOT NULL, schema TEXT NOT NULL,
    campaign TEXT NOT NULL, round INTEGER NOT NULL, mechanism TEXT NOT NULL, fingerprint TEXT NOT NULL,
    epsilon TEXT NOT NULL, report BLOB NOT NULL, free INTEGER NOT NULL
);
CREATE TABLE outbox (
    series TEXT, campaign TEXT, round INTEGER, document TEXT NOT NULL, report BLOB NOT NULL, payload BLOB, token TEXT,
    state TEXT NOT NULL, attempts INTEGER NOT NULL, code TEXT, PRIMARY KEY (series, campaign, round)
);
CREATE TABLE memo (
    series TEXT NOT NULL, fingerprint TEXT NOT NULL, digest BLOB NOT NULL, report BLOB NOT NULL,
    payload BLOB NOT NULL, PRIMARY KEY (series, fingerprint, digest, report)
);
CREATE TABLE seat (series TEXT, campaign TEXT, public BLOB NOT NULL, PRIMARY KEY (series, campaign));
CREATE TABLE dictionary (hash TEXT PRIMARY KEY, data BLOB NOT NULL);
"""


class Vault:
    """The open file; ledger, outbox, memory and consents read and write through it."""

    def __init__(self, path: str | Path, clock: Clock, coins: Coins) -> None:
        self.path, self._clock = str(path), clock
        try:
            if self.path != IN_MEMORY:
                _prepare(Path(self.path))
            self.connection = sqlite3.connect(self.path, timeout=_PATIENCE, isolation_level=None)
            self.connection.execute("PRAGMA synchronous = FULL")
            self.connection.execute("PRAGMA secure_delete = ON")
            self._open(coins)
        except (OSError, sqlite3.Error) as reason:
            raise _unusable(self.path, reason) from reason

    def close(self) -> None:
        self.connection.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing, alone with the file; whatever goes wrong inside leaves no trace."""
        try:
            self.connection.execute("BEGIN IMMEDIATE")
            yield self.connection
            self.connection.execute("COMMIT")
        except BaseException as reason:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            if isinstance(reason, sqlite3.Error):
                raise _unusable(self.path, reason) from reason
            raise

    @property
    def secret(self) -> bytes:
        """Keys the digests of records, so that two devices with the same record keep different ones."""
        return bytes(self.connection.execute("SELECT secret FROM device").fetchone()[0])

    def today(self) -> date:
        """The latest day ever seen: a clock that is set back gives no budget back."""
        known = date.fromisoformat(self.connection.execute("SELECT day FROM device").fetchone()[0])
        return max(known, today(self._clock))

    def turn_to(self, day: date) -> None:
        """Remember a day."""
        self.connection.execute("UPDATE device SET day = max(day, ?)", (day.isoformat(),))

    def _open(self, coins: Coins) -> None:
        with self.transaction() as now:
            version = now.execute("PRAGMA user_version").fetchone()[0]
            if version == VERSION:
                return
            if version or now.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                raise DeviceError("device/file", f"{self.path} is not a device's file that this version can read.")
            for statement in _TABLES.split(";"):
                now.execute(statement)
            row = coins.bytes(_SECRET_BYTES), today(self._clock).isoformat()
            now.execute("INSERT INTO device VALUES (?, ?)", row)
            now.execute(f"PRAGMA user_version = {VERSION}")


def _unusable(path: str, reason: Exception) -> DeviceError:
    return DeviceError("device/file", f"{path} cannot serve as a device's file ({reason}).")


def _prepare(path: Path) -> None:
    """The file, for its owner alone; SQLite gives its journal the same rights."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
