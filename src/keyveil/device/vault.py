"""The device's one file: an SQLite database, by the standard library.

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
from keyveil.device.migrations import VERSION, create, migrate

IN_MEMORY = ":memory:"
_SECRET_BYTES = 32
_PATIENCE = 30.0  # seconds to wait for another process of the same device


class Vault:
    """The open file; ledger, outbox, memory and consents read and write through it."""

    def __init__(self, path: str | Path, clock: Clock, coins: Coins) -> None:
        self.path, self._clock = str(path), clock
        try:
            if self.path != IN_MEMORY:
                _prepare(Path(self.path))
            self.connection = sqlite3.connect(self.path, timeout=_PATIENCE, isolation_level=None)
        except (OSError, sqlite3.Error) as reason:
            raise _unusable(self.path, reason) from reason
        try:
            self.connection.execute("PRAGMA synchronous = FULL")
            self.connection.execute("PRAGMA secure_delete = ON")
            self._open(coins)
        except BaseException as reason:
            self.connection.close()
            if isinstance(reason, sqlite3.Error):
                raise _unusable(self.path, reason) from reason
            raise

    def close(self) -> None:
        self.connection.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A transaction that locks the file; any exception inside rolls it back."""
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
        """The key of the digests of records: two devices with the same record have different digests."""
        return bytes(self.connection.execute("SELECT secret FROM device").fetchone()[0])

    @property
    def since(self) -> date:
        """The day since which this file is known to exist."""
        return date.fromisoformat(self.connection.execute("SELECT since FROM device").fetchone()[0])

    def today(self) -> date:
        """The latest day ever seen, so that setting the clock back gives no budget back."""
        known = date.fromisoformat(self.connection.execute("SELECT day FROM device").fetchone()[0])
        return max(known, today(self._clock))

    def turn_to(self, day: date) -> None:
        """Store a day as the latest one, unless a later one was seen."""
        self.connection.execute("UPDATE device SET day = max(day, ?)", (day.isoformat(),))

    def _open(self, coins: Coins) -> None:
        """Make the tables of a new file, or bring an earlier version to this one: all of it in one transaction."""
        with self.transaction() as now:
            version = now.execute("PRAGMA user_version").fetchone()[0]
            if version > VERSION:
                raise DeviceError(
                    "device/newer",
                    f"{self.path} was written by a later version of Keyveil (its version is {version}, this one reads "
                    f"up to {VERSION}): update Keyveil.",
                )
            if version == 0 and not now.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                create(now, coins.bytes(_SECRET_BYTES), today(self._clock).isoformat())
                version = 1
            if version < 1:
                raise DeviceError("device/file", f"{self.path} is not a device's file.")
            migrate(now, version)


def _unusable(path: str, reason: Exception) -> DeviceError:
    return DeviceError("device/file", f"{path} cannot serve as a device's file ({reason}).")


def _prepare(path: Path) -> None:
    """The file, for its owner alone; SQLite gives its journal the same rights."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
