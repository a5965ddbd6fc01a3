"""What the database does when it is upgraded, locked, full, stopped or copied."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text

from keyveil.campaign.wire import Batch
from keyveil.collector import database
from keyveil.collector.database import Database, known_revisions
from keyveil.collector.service import Service
from keyveil.collector.tables import metadata
from keyveil.core.errors import KeyveilError, StorageError
from tests.collector.campaigns import batch_of, count, merged, started
from tests.postgres import PostgreSQL, found


def test_migrations_make_the_tables_that_the_code_uses(url: str) -> None:
    opened = Database(url)
    with opened.read() as connection:
        differences = compare_metadata(MigrationContext.configure(connection), metadata)
    opened.close()

    assert differences == []


def test_the_files_of_migrations_are_named_by_their_place_in_the_order() -> None:
    """``known_revisions`` reads names, so that a start loads Alembic only where it has something to do."""
    assert [one.revision for one in ScriptDirectory(database.MIGRATIONS).walk_revisions()][::-1] == known_revisions()


def test_opening_again_changes_nothing_and_a_newer_schema_is_refused(url: str) -> None:
    Database(url).close()
    opened = Database(url)
    with opened.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    opened.close()

    with pytest.raises(StorageError) as refused:
        Database(url)
    assert refused.value.code == "storage/version"


@pytest.mark.parametrize(
    "address", ["", "nonsense", "mysql://localhost/x", "sqlite:////no/such/folder/keyveil.db", "oracle://x"]
)
def test_an_address_that_is_no_database_is_refused_in_one_sentence(address: str) -> None:
    with pytest.raises(StorageError) as refused:
        Database(address)
    assert refused.value.code in ("storage/url", "storage/unavailable")


def test_a_locked_file_refuses_and_nothing_is_half_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_PATIENCE", 0.2)
    service = Service(f"sqlite:///{tmp_path / 'keyveil.db'}")
    document = started(service)
    batch = batch_of(document, 50)
    intruder = sqlite3.connect(tmp_path / "keyveil.db", isolation_level=None)
    intruder.execute("BEGIN IMMEDIATE")

    with pytest.raises(StorageError) as refused:
        service.submit("snacks", batch).result()
    assert refused.value.code == "storage/locked"
    intruder.execute("ROLLBACK")
    intruder.close()

    assert service.submit("snacks", batch).result().accepted == 50  # the same reports, once the lock is gone
    service.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of three megabytes."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root, as in a container")
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(place)], check=True)
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_full_disk_refuses_and_every_acknowledged_report_is_kept(small_disk: Path) -> None:
    address = f"sqlite:///{small_disk / 'keyveil.db'}"
    service = Service(address)
    asked = {"name": "pckv-ue", "epsilon": "1", "max_pairs": 2}
    document = started(service, schema={"keys": 400, "low": 0, "high": 1}, protocol=asked)
    kept, refusals = [], 0
    payloads = batch_of(document, 5).payloads * 100
    for _ in range(100):
        one = Batch(1, document.hash, tuple(os.urandom(16) for _ in payloads), payloads)
        try:
            assert service.submit("snacks", one).result().accepted == len(one)
            kept.append(one)
        except StorageError as refused:
            assert refused.code == "storage/full"
            refusals += 1
            if refusals == 3:
                break
    assert refusals == 3, "a hundred batches did not fill the disk"
    assert kept
    settle(service)
    service.close()
    again = Service(address)  # opens although the disk is still full
    with again.database.read() as connection:
        stored = connection.execute(text("SELECT id FROM report")).scalars().all()
    again.close()

    assert sorted(map(bytes, stored)) == sorted(merged(*kept).ids)


def settle(service: Service) -> None:
    """Fold if there is room for it."""
    try:
        service.settle()
    except KeyveilError as refused:
        assert refused.code == "storage/full"


def test_a_database_that_restarts_loses_nothing_acknowledged() -> None:
    server = PostgreSQL()
    try:
        service = Service(server.database())
        document = started(service)
        kept = [batch_of(document, 20) for _ in range(3)]
        assert service.submit("snacks", kept[0]).result().accepted == 20
        server.stop("immediate")
        with pytest.raises(StorageError) as refused:
            service.submit("snacks", kept[1]).result()
        assert refused.value.code == "storage/unavailable"
        with pytest.raises(StorageError):
            service.ready()
        server.start()
        assert retried(lambda: service.submit("snacks", kept[1]).result()).accepted == 20
        assert service.submit("snacks", kept[2]).result().accepted == 20
        service.settle()

        assert service.tally("snacks")[1] == count(document, list(merged(*kept)))
        service.close()
    finally:
        server.remove()


def retried(call: Callable[[], Any]) -> Any:
    """What a client does: send the same again until it is acknowledged."""
    for _ in range(5):
        try:
            return call()
        except StorageError:
            continue
    return call()


def test_a_backup_taken_under_load_restores_to_a_collector(tmp_path: Path) -> None:
    service = Service(f"sqlite:///{tmp_path / 'keyveil.db'}")
    document = started(service)
    before = batch_of(document, 30)
    service.submit("snacks", before).result()
    with sqlite3.connect(tmp_path / "keyveil.db") as source, sqlite3.connect(tmp_path / "copy.db") as copy:
        service.submit("snacks", batch_of(document, 30)).result()
        source.backup(copy)
    service.close()

    restored = Service(f"sqlite:///{tmp_path / 'copy.db'}")
    assert restored.submit("snacks", before).result().duplicates == 30
    restored.settle()
    assert restored.estimates("snacks").n == 60
    restored.close()


def test_a_dump_of_postgresql_restores_to_a_collector(postgres: PostgreSQL, tmp_path: Path) -> None:
    first, second = postgres.database(), postgres.database()
    service = Service(first)
    document = started(service)
    batch = batch_of(document, 30)
    service.submit("snacks", batch).result()
    service.settle()
    dump = subprocess.run([found("pg_dump"), first], check=True, capture_output=True).stdout
    service.close()
    subprocess.run([found("psql"), "-q", "-v", "ON_ERROR_STOP=1", second], input=dump, check=True, capture_output=True)

    restored = Service(second)
    assert restored.tally("snacks")[1] == count(document, list(batch))
    assert restored.submit("snacks", batch).result().duplicates == 30
    assert restored.submit("snacks", batch_of(document, 5)).result().accepted == 5
    restored.close()


def test_who_took_part_is_gone_from_the_files_when_a_round_has_closed(tmp_path: Path) -> None:
    service = Service(f"sqlite:///{tmp_path / 'keyveil.db'}")
    document = started(service, enrolment="token", retention_days=0)
    claims = set()
    for token in service.enrol("snacks", 800)[:12]:
        service.submit("snacks", batch_of(document, 1), token).result()
        with service.database.read() as connection:
            claims.add(connection.execute(text("SELECT claimed FROM participation")).scalar_one().strip(b"\0"))
    wide = [bits for bits in claims if len(bits) > 20]
    assert len(wide) > 5 and all(bits in files(tmp_path) for bits in wide[-1:])  # the search can find them
    service.act("snacks", "stop")
    service.settle()

    assert not any(bits in files(tmp_path) for bits in wide)
    service.close()


def files(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir())
