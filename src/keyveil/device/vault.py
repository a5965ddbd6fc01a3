"""The device's one file: an SQLite database, by the standard library.

What was spent, what is to be sent and what was answered change together or not at all. A transaction is on the disk
before anything else happens (``synchronous=FULL``), and deleted rows are overwritten (``secure_delete``).
"""

from __future__ import annotations

import hashlib
import hmac
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path

from keyveil.core.clock import Clock, today
from keyveil.core.coins import Coins
from keyveil.core.errors import DeviceError, KeyveilError
from keyveil.device.memory import CLOSED, IN_MEMORY, MemoryFiles
from keyveil.device.migrations import VERSION, create, migrate
from keyveil.device.place import Mark, Place

_SECRET_BYTES = 32
_PATIENCE = 30.0  # seconds to wait for another process of the same device
_PLACED = 3  # the version since which files have a mark beside them
_SQLITE = (sqlite3.Error, UnicodeError)  # the second where SQLite quotes damaged text in its message
_DAMAGE = (*_SQLITE, KeyveilError, TypeError, ValueError, ArithmeticError, AttributeError, LookupError)
_memory = MemoryFiles()
MOST_JUMP = 400  # days that a clock may be ahead of the latest day seen without the owner's word


class Vault:
    """The open file; ledger, outbox, memory and consents read and write through it."""

    def __init__(self, path: str | Path, clock: Clock, coins: Coins) -> None:
        self.path, self._clock = str(path), clock
        self.place = None if self.path == IN_MEMORY else Place(Path(self.path))
        try:
            if self.place is None:
                self.connection = _memory.open(coins.bytes(_SECRET_BYTES), today(clock).isoformat())
                return
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
            if isinstance(reason, _SQLITE):
                raise _unusable(self.path, reason) from reason
            raise

    def close(self) -> None:
        file, self.connection = self.connection, CLOSED
        if self.path != IN_MEMORY:
            file.close()
        elif file is not CLOSED:
            _memory.close(file)

    @contextmanager
    def whole(self) -> Iterator[None]:
        """While everything in the file is read once: whatever makes no sense in it is damage, and closes the file."""
        try:
            (found,) = self.connection.execute("PRAGMA quick_check(1)").fetchone()
            if found != "ok":
                raise sqlite3.DatabaseError(found)
            for (table,) in self.connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                self.connection.execute(f'SELECT * FROM "{table}"').fetchall()  # text that is none is found here
            yield
        except _DAMAGE as reason:
            self.close()
            raise reason if isinstance(reason, DeviceError) else _unusable(self.path, reason) from reason

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
            if isinstance(reason, _SQLITE):
                raise _unusable(self.path, reason) from reason
            raise

    @property
    def secret(self) -> bytes:
        """The key of the ids of reports (``identity``)."""
        return bytes(self.connection.execute("SELECT secret FROM device").fetchone()[0])

    @property
    def since(self) -> date:
        """The day since which this file is known to exist."""
        return date.fromisoformat(self.connection.execute("SELECT since FROM device").fetchone()[0])

    def today(self) -> date:
        """The latest day ever seen, so that setting the clock back gives no budget back."""
        return max(self.latest_day, today(self._clock))

    @property
    def latest_day(self) -> date:
        """The latest day on which anything was answered, or the file was made."""
        return date.fromisoformat(self.connection.execute("SELECT day FROM device").fetchone()[0])

    def refuse_jump(self) -> None:
        """Refuse a clock that is far ahead of the latest day seen: its day would end periods for good."""
        ahead = (today(self._clock) - self.latest_day).days
        if ahead > MOST_JUMP:
            raise DeviceError(
                "device/clock",
                f"The clock says {today(self._clock)}, {ahead} days after the latest day that this device has seen: "
                "set the clock, or say that it is right.",
            )

    def turn_to(self, day: date) -> None:
        """Store a day as the latest one, unless a later one was seen."""
        self.connection.execute("UPDATE device SET day = max(day, ?)", (day.isoformat(),))

    # -- copies -------------------------------------------------------------------------------------------------

    def count_change(self) -> None:
        """Note within a transaction that something changed that a restored file must not repeat."""
        mark = None if self.place is None else self.place.read()
        ahead = 0 if mark is None else mark.changes  # of a restored file the mark is ahead
        self.connection.execute("UPDATE device SET changes = max(changes, ?) + 1", (ahead,))

    @property
    def copied(self) -> bool:
        """Whether the file is a copy, or older than its mark. The mark is read first: the file is never behind it."""
        if self.place is None:
            return False
        mark = self.place.read()
        here = self._mark()
        return mark is None or (mark.device, mark.file) != (here.device, here.file) or mark.changes > here.changes

    def settle(self, anew: bool = False) -> None:
        """Bring the mark up to the file; ``anew`` also where it belongs to another file, or is ahead of this one."""
        if self.place is None:
            return
        try:
            known, here = self.place.read(), self._mark()
            if anew or known is None or known.changes < here.changes:
                self.place.write(here)
        except OSError as reason:
            raise _unusable(self.path, reason) from reason

    def _mark(self) -> Mark:
        assert self.place is not None
        changes = self.connection.execute("SELECT changes FROM device").fetchone()[0]
        return Mark(hmac.new(self.secret, b"place", hashlib.sha256).hexdigest()[:16], self.place.number(), changes)

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
            if version < _PLACED:  # before the file is there: a crash must not leave one that misses its mark
                self.settle(anew=True)


def _unusable(path: str, reason: Exception) -> DeviceError:
    return DeviceError("device/file", f"{path} cannot serve as a device's file ({reason}).")


def _prepare(path: Path) -> None:
    """The file, for its owner alone; SQLite gives its journal the same rights."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
