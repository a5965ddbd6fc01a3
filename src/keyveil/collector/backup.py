"""The whole database of a collector in one file, and back: the same form for SQLite and PostgreSQL.

A backup is one consistent view of all tables, taken while collectors run, with rows in the order of their keys, so that
it does not tell in which order reports came. A file is::

    "keyveil backup 1\\n" | (length u32 | MessagePack)… | length 0 | SHA-256 of everything before it

The first message says which schema the tables have; after it, a list of names begins a table, and lists of rows follow.
A file whose hash is wrong is refused before anything is touched. A restore replaces everything or nothing; what stood
in a SQLite file before, also a crashed one, is moved aside together with its write-ahead log.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from sqlalchemy import Connection, Engine, MetaData, Table, func, insert, select, text

from keyveil.collector.database import (
    VERSION,
    current_revision,
    in_use,
    known_revisions,
    open_engine,
    translated,
    upgrade,
)
from keyveil.core.errors import StorageError

MAGIC = b"keyveil backup 1\n"
_LENGTH = struct.Struct("<I")
_HASH_BYTES = 32
_ROWS = 5000  # in one message
_LONGEST = 1 << 30  # bytes of one message
_ASIDE = ".before-restore"
_PASSING = "session"  # whoever is signed in: after a restore everybody signs in again

Progress = Callable[[str, int], None]
"""Hears the name of a table, and how many of its rows were done since."""


def backup(url: str, target: Path, progress: Progress = lambda table, rows: None) -> dict[str, int]:
    """Write a backup of a database to a new file that only its owner may read; how many rows each table has."""
    engine = open_engine(url)
    try:
        with _new_file(target) as file, _snapshot(engine) as connection:
            return _write(connection, _Hashed(file), progress)
    finally:
        engine.dispose()


def verify(source: Path) -> str:
    """Refuse a file that is no backup, damaged or cut off; returns the schema of its tables."""
    hashed, revision = hashlib.sha256(), None
    with _opened(source) as file:
        for message in _messages(file, hashed.update):
            if revision is None:
                revision = _revision(message)
        if file.read(_HASH_BYTES + 1) != hashed.digest() or revision is None:
            raise _damaged(source)
    return revision


def restore(source: Path, url: str, replace: bool = False, progress: Progress = lambda table, rows: None) -> None:
    """Put a backup into a database that nobody uses; one that holds something only if it is to be replaced."""
    revision = verify(source)
    if revision not in known_revisions():
        raise StorageError(
            "storage/version", f"The backup has schema {revision}, which a newer Keyveil made; use that."
        )
    engine = open_engine(url)
    try:
        if engine.dialect.name == "sqlite":
            engine.dispose()
            _restore_sqlite(source, Path(str(engine.url.database)), revision, replace, progress)
        else:
            with translated(), engine.begin() as connection:
                _refuse_used(connection, replace)
                _empty(connection)
                _load(source, connection, revision, progress)
    finally:
        engine.dispose()


# -- writing ----------------------------------------------------------------------------------------------------------


class _Hashed:
    """Messages into a file, and their hash at its end."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._hash = file, hashlib.sha256()
        self._put(MAGIC)

    def message(self, content: Any) -> None:
        data = msgspec.msgpack.encode(content)
        self._put(_LENGTH.pack(len(data)))
        self._put(data)

    def end(self) -> None:
        self._put(_LENGTH.pack(0))
        self._file.write(self._hash.digest())

    def _put(self, data: bytes) -> None:
        self._hash.update(data)
        self._file.write(data)


def _write(connection: Connection, file: _Hashed, progress: Progress) -> dict[str, int]:
    revision = current_revision(connection)
    if revision is None:
        raise StorageError("backup/empty", "There is no collector's database at this address.")
    file.message({"schema": revision})
    counts = {}
    for table in _tables(connection):
        if table.name == _PASSING:
            continue
        file.message([str(table.name), *(str(column.name) for column in table.columns)])
        rows = connection.execution_options(yield_per=_ROWS).execute(select(table).order_by(*table.primary_key))
        counts[table.name] = 0
        for part in rows.partitions(_ROWS):
            file.message([[_plain(value) for value in row] for row in part])
            counts[table.name] += len(part)
            progress(table.name, len(part))
    file.end()
    return counts


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, memoryview) else value


@contextmanager
def _snapshot(engine: Engine) -> Iterator[Connection]:
    """One view of the whole database, while others go on writing."""
    if engine.dialect.name == "sqlite" and not Path(str(engine.url.database)).is_file():
        raise StorageError("backup/empty", "There is no collector's database at this address.")
    with translated(), engine.connect() as connection:
        if engine.dialect.name == "postgresql":
            connection.execution_options(isolation_level="REPEATABLE READ")
        with connection.begin():
            yield connection


@contextmanager
def _new_file(target: Path) -> Iterator[BinaryIO]:
    """A file for its owner alone that has its name only when it is whole and on the disk."""
    if target.exists():
        raise StorageError("backup/exists", f"{target} is there already; give the backup another name.")
    partial = target.with_name(target.name + ".partial")
    try:
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.rename(target)
        _sync_folder(target.parent)
    except OSError as reason:
        raise StorageError("backup/write", f"The backup cannot be written to {target}: {reason.strerror}.") from None
    finally:
        partial.unlink(missing_ok=True)


# -- reading ----------------------------------------------------------------------------------------------------------


@contextmanager
def _opened(source: Path) -> Iterator[BinaryIO]:
    try:
        file = source.open("rb")
    except OSError as reason:
        raise StorageError("backup/read", f"The backup {source} cannot be read: {reason.strerror}.") from None
    with file:
        yield file


def _messages(file: BinaryIO, see: Callable[[bytes], object] = lambda data: None) -> Iterator[Any]:
    """The messages of a backup; ``see`` is given all bytes but the hash."""

    def take(size: int) -> bytes:
        data = file.read(size)
        if len(data) != size:
            raise _damaged(Path(file.name))
        see(data)
        return data

    if take(len(MAGIC)) != MAGIC:
        raise _damaged(Path(file.name))
    while size := _LENGTH.unpack(take(_LENGTH.size))[0]:
        if size > _LONGEST:
            raise _damaged(Path(file.name))
        try:
            yield msgspec.msgpack.decode(take(size))
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise _damaged(Path(file.name)) from None


def _revision(message: Any) -> str:
    revision = message.get("schema") if isinstance(message, dict) else None
    return revision if isinstance(revision, str) else ""


def _damaged(source: Path) -> StorageError:
    return StorageError("backup/damaged", f"{source} is not a backup, or is damaged or cut off; nothing was changed.")


def _load(source: Path, connection: Connection, revision: str, progress: Progress) -> None:
    """Make the tables of a schema in an empty database, and fill them."""
    upgrade(connection, revision)
    tables = {table.name: table for table in _tables(connection)}
    with _opened(source) as file:
        messages = _messages(file)
        next(messages)
        table: Table | None = None
        columns: list[str] = []
        for message in messages:
            if message and isinstance(message[0], str):
                name, *columns = message
                if name not in tables or set(columns) != {column.name for column in tables[name].columns}:
                    raise _damaged(source)
                table = tables[name]
                connection.execute(table.delete())  # a migration may have put something into it
            elif table is not None:
                connection.execute(insert(table), [dict(zip(columns, row, strict=True)) for row in message])
                progress(table.name, len(message))
    if connection.dialect.name == "postgresql":
        _count_on(connection, tables.values())


def _count_on(connection: Connection, tables: Any) -> None:
    """Let numbered rows go on after the last number."""
    for table in tables:
        for column in table.primary_key:
            place = {"table": f'"{table.name}"', "column": column.name}
            sequence = connection.execute(text("SELECT pg_get_serial_sequence(:table, :column)"), place).scalar()
            if sequence is not None:
                last = connection.execute(select(func.max(column))).scalar()
                connection.execute(select(func.setval(sequence, last or 1, last is not None)))


def _tables(connection: Connection) -> list[Table]:
    """The tables as they are, each after those it refers to."""
    found = MetaData()
    found.reflect(connection)
    return [table for table in found.sorted_tables if table.name != VERSION]


# -- replacing --------------------------------------------------------------------------------------------------------


def _refuse_used(connection: Connection, replace: bool) -> None:
    if in_use(connection):
        raise StorageError("restore/in-use", "A collector uses this database: stop all of them first.")
    if _holds_campaigns(connection) and not replace:
        raise _holds_something()


def _holds_campaigns(connection: Connection) -> bool:
    tables = {table.name: table for table in _tables(connection)}
    return "campaign" in tables and connection.execute(select(tables["campaign"]).limit(1)).first() is not None


def _holds_something() -> StorageError:
    return StorageError("restore/not-empty", "The database holds campaigns; say --replace to give them up.")


def _empty(connection: Connection) -> None:
    found = MetaData()
    found.reflect(connection)
    found.drop_all(connection)


def _restore_sqlite(source: Path, path: Path, revision: str, replace: bool, progress: Progress) -> None:
    """Make a new file beside the old one, and put it in its place when it is whole."""
    _refuse_used_file(path, replace)
    fresh = path.with_name(path.name + ".restoring")
    _remove(fresh)
    engine = open_engine(f"sqlite:///{fresh}")
    try:
        with translated(), engine.begin() as connection:
            _load(source, connection, revision, progress)
        with translated(), engine.connect() as connection:
            connection.exec_driver_sql("ROLLBACK")
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    except BaseException:
        engine.dispose()
        _remove(fresh)
        raise
    engine.dispose()
    os.chmod(fresh, 0o600)
    # The log goes first: a file that stands in another one's place must never find that one's log beside it.
    for ending in ("-wal", "-shm", ""):
        old = path.with_name(path.name + ending)
        if old.exists():
            old.replace(path.with_name(path.name + _ASIDE + ending))
    fresh.replace(path)
    _sync_folder(path.parent)


def _refuse_used_file(path: Path, replace: bool) -> None:
    """Refuse a file that somebody has open or that holds campaigns; a damaged one may be replaced if that is said."""
    if not path.exists():
        return
    engine = open_engine(f"sqlite:///{path}")
    try:
        with translated(), engine.connect() as connection:
            connection.exec_driver_sql("ROLLBACK")
            connection.exec_driver_sql("PRAGMA locking_mode = EXCLUSIVE")
            connection.exec_driver_sql("PRAGMA busy_timeout = 200")
            connection.exec_driver_sql("BEGIN EXCLUSIVE")
            holds = _holds_campaigns(connection)
            connection.exec_driver_sql("ROLLBACK")
    except StorageError as reason:
        if reason.code == "storage/locked":
            raise StorageError("restore/in-use", "A collector uses this database: stop it first.") from None
        holds = True  # it cannot be read, so nobody knows what it holds
    finally:
        engine.dispose()
    if holds and not replace:
        raise _holds_something()


def _remove(path: Path) -> None:
    for ending in ("", "-wal", "-shm", "-journal"):
        path.with_name(path.name + ending).unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Make renamed files durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
