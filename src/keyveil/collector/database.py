"""The connection to SQLite or PostgreSQL: transactions, durability, migrations, and what differs between the two."""

from __future__ import annotations

import errno
import shutil
import sqlite3
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import repeat
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Table, create_engine, event, exc, inspect, text

from keyveil.core.errors import StorageError

MIGRATIONS = Path(__file__).parent / "migrations"
VERSION = "alembic_version"  # the table that holds the number of the schema
_PATIENCE = 5  # seconds that a transaction waits for another one's lock
_ASKED_AT_ONCE = 500  # groups in one question
_MIGRATING = 0x6B65796D  # advisory locks: who migrates,
_SHARDS = 0x6B657973  # which collector process holds which shard,
_JOURNAL = 0x6B65796A  # who writes into the journal,
_FOLDING = 0x6B657966  # and who folds which round
_MOST_SHARDS = 256


# One statement, whatever the number of reports: ids and payloads come end to end and are cut up by the server.
_INSERT_REPORTS = """
INSERT INTO report (round_id, id, payload, batch_id)
SELECT %s, substr(ids, 16 * place + 1, 16), substr(payloads, size * place + 1, size), %s
FROM (SELECT %b::bytea AS ids, %b::bytea AS payloads, %s::int AS size) AS given, generate_series(0, %s::int) AS place
ORDER BY place ON CONFLICT DO NOTHING
"""


class Database:
    """The connection to the database, brought to the present version of its tables."""

    def __init__(self, url: str) -> None:
        self.engine = open_engine(url)
        self.postgresql = self.engine.dialect.name == "postgresql"
        self._insert: Any = import_module(f"sqlalchemy.dialects.{self.engine.dialect.name}").insert
        self.shard, self._shard_lock = 0, None  # type: int, Connection | None
        self.failures = dict.fromkeys(FAILURES, 0)
        self._counting = threading.Lock()
        try:
            self.check()
            with self.write() as connection:
                self._migrate(connection)
            if self.postgresql:
                self._take_shard()
        except BaseException:
            self.engine.dispose()
            raise

    def close(self) -> None:
        if self._shard_lock is not None:
            self._shard_lock.close()
        self.engine.dispose()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that only reads: all of its queries see the same state."""
        with self.counting_failures(), translated(), self.engine.connect() as connection:
            if self.postgresql:
                connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that changes something; durable when the block has ended without an error."""
        with self.counting_failures(), translated(), self.engine.connect() as connection:
            connection.execution_options(keyveil_writes=True)
            with connection.begin():
                yield connection

    @contextmanager
    def counting_failures(self) -> Iterator[None]:
        """Count by its code what fails in here because of the database, its disk or the way to it."""
        try:
            yield
        except StorageError as reason:
            if reason.code in self.failures:
                with self._counting:
                    self.failures[reason.code] += 1
            raise

    # -- what differs between the two ---------------------------------------------------------------------------

    def insert_new(self, connection: Connection, table: Table, row: dict[str, Any]) -> bool:
        """Insert a row unless its key is there already; whether it was new."""
        new = self._insert(table).values(row).on_conflict_do_nothing().returning(*table.primary_key)
        return connection.execute(new).first() is not None

    def insert_reports(
        self, connection: Connection, round_id: int, group: int, ids: Sequence[bytes], payloads: Sequence[bytes]
    ) -> int:
        """``insert_new`` for many reports of a round, whose payloads have one size, sorted by id; how many were new.

        Two PostgreSQL transactions that insert the same ids in the same order wait for each other, but cannot
        deadlock.
        """
        raw = connection.connection.driver_connection
        assert raw is not None
        if self.postgresql:
            sizes = set(map(len, payloads))
            if len(sizes) > 1:
                raise ValueError("Reports of a round have payloads of one size.")
            all_of_them = (b"".join(ids), b"".join(payloads), sizes.pop(), len(ids) - 1)
            return int(raw.execute(_INSERT_REPORTS, (round_id, group, *all_of_them)).rowcount)
        # The driver looks for an adapter of every value of bytes, and for none of bytearrays: a tenth of the time.
        given = zip(repeat(round_id), map(bytearray, ids), map(bytearray, payloads), repeat(group))
        cursor = raw.executemany(
            "INSERT OR IGNORE INTO report (round_id, id, payload, batch_id) VALUES (?, ?, ?, ?)", given
        )
        return int(cursor.rowcount)

    def reports_of(self, connection: Connection, groups: Sequence[int]) -> list[tuple[int, bytes, bytes]]:
        """All reports of some groups: group, id and payload.

        Read by the driver itself, which makes bytes of them; a row of SQLAlchemy's would cost more than to count it.
        """
        raw = connection.connection.driver_connection
        assert raw is not None
        wanted = "SELECT batch_id, id, payload FROM report WHERE batch_id"
        rows: list[tuple[int, bytes, bytes]] = []
        if self.postgresql:
            with raw.cursor(binary=True) as cursor:
                rows += cursor.execute(f"{wanted} = ANY(%s)", (list(groups),)).fetchall()
            return rows
        for start in range(0, len(groups), _ASKED_AT_ONCE):
            some = groups[start : start + _ASKED_AT_ONCE]
            rows += raw.execute(f"{wanted} IN ({','.join('?' * len(some))})", some).fetchall()
        return rows

    def add_up(
        self, connection: Connection, table: Table, rows: Iterable[dict[str, Any]], column: str, keys: Sequence[str]
    ) -> None:
        """Insert counters, or add to those that are there."""
        rows = sorted(rows, key=lambda row: tuple(row[key] for key in keys))
        if rows:
            statement = self._insert(table)
            added = {column: table.c[column] + statement.excluded[column]}
            connection.execute(statement.on_conflict_do_update(index_elements=list(keys), set_=added), rows)

    def lock_journal(self, connection: Connection) -> None:
        """Until this transaction ends, no other one writes into the journal; SQLite has one writer anyway."""
        if self.postgresql:
            connection.execute(text("SELECT pg_advisory_xact_lock(:kind, 0)"), {"kind": _JOURNAL})

    @contextmanager
    def lease(self, round_id: int) -> Iterator[bool]:
        """Whether this process may fold a round now: one at a time does, so that none counts in vain.

        The lease ends with its connection, so a process that dies leaves none behind. Nothing but time is lost where
        two hold one (several processes on one SQLite file): a fold fails if another one has marked the same groups.
        """
        if not self.postgresql:
            yield True
            return
        place = {"kind": _FOLDING, "round": round_id & 0x7FFFFFFF}
        with translated(), self.engine.connect() as connection:
            connection.execution_options(isolation_level="AUTOCOMMIT")
            held = bool(connection.execute(text("SELECT pg_try_advisory_lock(:kind, :round)"), place).scalar())
            try:
                yield held
            finally:
                if held:
                    connection.execute(text("SELECT pg_advisory_unlock(:kind, :round)"), place)

    def forget(self) -> bool:
        """Remove overwritten rows from SQLite's write-ahead log too; false if a reader still needs it."""
        if self.postgresql:
            return True  # autovacuum does it in its own time
        with translated(), self.engine.connect() as connection:
            raw = connection.connection.driver_connection
            assert raw is not None
            busy, *_ = raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            return not busy

    # -- health -------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Refuse a damaged file; on PostgreSQL the server itself looks after that."""
        if self.postgresql:
            return
        with self.read() as connection:
            if connection.exec_driver_sql("PRAGMA quick_check(1)").scalar() != "ok":
                raise damaged()

    def probe(self, connection: Connection) -> None:
        """Write something that changes nothing, so that a disk that takes no more writes is noticed."""
        connection.execute(text(f"UPDATE {VERSION} SET version_num = version_num"))

    @property
    def free_bytes(self) -> int | None:
        """Room on the disk of a SQLite file; unknown for PostgreSQL and for databases in memory."""
        name = self.engine.url.database
        if self.postgresql or not name or name == ":memory:":
            return None
        return shutil.disk_usage(Path(name).absolute().parent).free

    # -- set-up -------------------------------------------------------------------------------------------------

    def _migrate(self, connection: Connection) -> None:
        if self.postgresql:  # several processes may start at once
            connection.execute(text("SELECT pg_advisory_xact_lock(:kind, 0)"), {"kind": _MIGRATING})
        present, known = current_revision(connection), known_revisions()
        if present is not None and present not in known:
            raise StorageError(
                "storage/version", f"The database has schema {present}, which a newer Keyveil made; use that one."
            )
        if present != known[-1]:
            upgrade(connection, "head")

    def _take_shard(self) -> None:
        """Take the first shard that no running process holds, by a lock that lasts as long as its connection."""
        self._shard_lock = self.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        lock = text("SELECT pg_try_advisory_lock(:kind, :shard)")
        for shard in range(_MOST_SHARDS):
            if self._shard_lock.execute(lock, {"kind": _SHARDS, "shard": shard}).scalar():
                self.shard = shard
                return
        raise StorageError("storage/crowded", f"{_MOST_SHARDS} collectors already use this database.")


def known_revisions() -> list[str]:
    """The schemas that this version can read, the present one last: each has its file, which its number begins."""
    return sorted(script.name.partition("_")[0] for script in (MIGRATIONS / "versions").glob("[0-9]*_*.py"))


def current_revision(connection: Connection) -> str | None:
    """The schema of a database; none if it was never a collector's."""
    if not inspect(connection).has_table(VERSION):
        return None
    revision: str | None = connection.execute(text(f"SELECT version_num FROM {VERSION}")).scalar()
    return revision


def upgrade(connection: Connection, revision: str) -> None:
    """Bring the tables to a schema."""
    from alembic import command  # half a second, which only a database with another schema has to pay
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def in_use(connection: Connection) -> bool:
    """Whether a collector uses a PostgreSQL database now: each holds the lock of its shard."""
    held = text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = :kind AND granted")
    return bool(connection.execute(held, {"kind": _SHARDS}).scalar())


@contextmanager
def translated() -> Iterator[None]:
    """Turn errors of the database's driver into a ``StorageError`` that shows nothing of the statement."""
    try:
        yield
    except StorageError:
        raise
    except exc.IntegrityError as reason:
        raise _conflict() from reason
    except _driver_errors() as reason:
        raise _storage_error(getattr(reason, "orig", reason)) from reason


def _driver_errors() -> tuple[type[Exception], ...]:
    """What the drivers raise that are loaded: SQLAlchemy loads psycopg for an address of PostgreSQL, and only then."""
    psycopg = sys.modules.get("psycopg")
    return exc.SQLAlchemyError, sqlite3.Error, OSError, *([psycopg.Error] if psycopg else [])


# What a driver says, as a code: SQLite's primary result code, PostgreSQL's SQLSTATE, or the system's number.
_KINDS: Mapping[str, frozenset[object]] = {
    "conflict": frozenset(("40P01", "40001")),  # deadlock, serialisation failure
    "full": frozenset((sqlite3.SQLITE_FULL, "53100", errno.ENOSPC, errno.EDQUOT)),
    "read-only": frozenset((sqlite3.SQLITE_READONLY, "25006", errno.EROFS)),
    "corrupt": frozenset((sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, "XX001", "XX002")),
    "locked": frozenset((sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, "55P03")),
}
FAILURES = tuple(f"storage/{kind}" for kind in ("corrupt", "full", "locked", "read-only", "slow", "unavailable"))
_SENTENCES = {
    "full": "The disk of the database is full.",
    "read-only": "The database cannot be written to: it is read-only.",
    "locked": "The database is locked by somebody else.",
    "unavailable": "The database cannot be reached or does not work.",
}


def _storage_error(reason: object) -> StorageError:
    """The error of the kind that the driver's own error is of; it shows nothing of the statement."""
    if isinstance(reason, sqlite3.Error):
        told: object = getattr(reason, "sqlite_errorcode", 0) & 0xFF
    else:
        told = getattr(reason, "sqlstate", None) or getattr(reason, "errno", None)
    kind = next((kind for kind, codes in _KINDS.items() if told in codes), "unavailable")
    if kind == "conflict":
        return _conflict()
    return damaged() if kind == "corrupt" else StorageError(f"storage/{kind}", _SENTENCES[kind])


def damaged() -> StorageError:
    return StorageError("storage/corrupt", "The file of the database is damaged: restore a backup (keyveil restore).")


def _conflict() -> StorageError:
    return StorageError("storage/conflict", "Somebody else changed the same thing at the same time.")


def open_engine(url: str) -> Engine:
    """The engine of a database, with our settings; nothing is opened yet."""
    driver, rest = url.partition("://")[::2]
    named = f"postgresql+psycopg://{rest}" if driver in ("postgresql", "postgres") else url
    try:
        engine = create_engine(named, **_options(named))
    except (exc.ArgumentError, exc.NoSuchModuleError, ImportError, ValueError) as reason:
        raise StorageError(
            "storage/url", "The database is named like sqlite:///keyveil.db or postgresql://user@host/name."
        ) from reason
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    elif engine.dialect.name != "postgresql":
        raise StorageError("storage/url", f"Reports lie in SQLite or PostgreSQL, not in {engine.dialect.name}.")
    return engine


def _options(url: str) -> dict[str, Any]:
    if url.startswith("sqlite"):
        return {"connect_args": {"timeout": _PATIENCE, "check_same_thread": False}}
    patience = f"-c lock_timeout={_PATIENCE}s -c idle_in_transaction_session_timeout={6 * _PATIENCE}s"
    limits = {"connect_timeout": _PATIENCE, "tcp_user_timeout": 2000 * _PATIENCE, "options": patience}
    return {"pool_pre_ping": True, "connect_args": limits}


def _prepare_sqlite(raw: Any, _: Any) -> None:
    raw.isolation_level = None  # transactions begin where we say so
    for setting in (
        "journal_mode=WAL",
        "synchronous=FULL",  # a commit is on the disk, not only handed over
        "foreign_keys=ON",
        "secure_delete=ON",
        "cache_size=-65536",
        "wal_autocheckpoint=8000",  # pages; ids are random, so a page is written often before it is full
        "journal_size_limit=67108864",
    ):
        raw.execute(f"PRAGMA {setting}")


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("keyveil_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
