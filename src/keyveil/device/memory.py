"""Device files in memory, for simulations and tests: a closed one is emptied and serves the thread's next device.

A simulation makes thousands of devices one after the other. To open a database and to prepare its statements takes
several times as long as all that a device does with it, and an emptied database has both behind it.
"""

from __future__ import annotations

import sqlite3
import threading
from functools import cache

from keyveil.device.migrations import create, migrate

IN_MEMORY = ":memory:"
CLOSED = sqlite3.connect(IN_MEMORY, check_same_thread=False)
"""What a closed device holds: a database that says so to whoever uses it."""
CLOSED.close()

_KEPT = 8  # empty databases that a thread keeps


class MemoryFiles(threading.local):
    """Empty databases with the tables of a device; each thread has its own."""

    def __init__(self) -> None:
        self._empty: list[sqlite3.Connection] = []

    def open(self, secret: bytes, day: str) -> sqlite3.Connection:
        """A new device's file, with its secret and the present day."""
        connection = self._empty.pop() if self._empty else _new()
        connection.execute("INSERT INTO device (secret, day, since) VALUES (?, ?, ?)", (secret, day, day))
        return connection

    def close(self, connection: sqlite3.Connection) -> None:
        """Delete everything in a file; one that was damaged, or whose tables were changed, does not serve again."""
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if len(self._empty) < _KEPT and _version(connection) == _version_of_new():
                connection.execute("BEGIN")
                for table in _tables():
                    connection.execute(f'DELETE FROM "{table}"')
                connection.execute("COMMIT")
                self._empty.append(connection)
                return
        except sqlite3.Error:
            pass
        connection.close()


def _new() -> sqlite3.Connection:
    connection = sqlite3.connect(IN_MEMORY, isolation_level=None)
    connection.execute("PRAGMA synchronous = FULL")  # as in a file on a disk; here it changes nothing
    connection.execute("PRAGMA secure_delete = ON")
    connection.deserialize(_new_file())
    return connection


@cache
def _new_file() -> bytes:
    """A file without a device: the steps that make its tables take two milliseconds, a copy much less."""
    connection = sqlite3.connect(IN_MEMORY)
    connection.execute("PRAGMA page_size = 512")  # most tables hold a row or two, and thousands of files may be open
    create(connection, b"", "")
    migrate(connection, 1)
    connection.execute("DELETE FROM device")
    connection.commit()
    return connection.serialize()


@cache
def _tables() -> tuple[str, ...]:
    names = _new().execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    return tuple(name for (name,) in names)


@cache
def _version_of_new() -> int:
    return _version(_new())


def _version(connection: sqlite3.Connection) -> int:
    """A number that changes with every change of the tables."""
    found: int = connection.execute("PRAGMA schema_version").fetchone()[0]
    return found
