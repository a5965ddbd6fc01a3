"""A closed file in memory serves the next device of its thread, and nothing of the earlier one is left in it."""

from __future__ import annotations

import sqlite3
import threading

import pytest

from keyveil.core.clock import system_clock
from keyveil.core.coins import Coins
from keyveil.device.memory import IN_MEMORY
from keyveil.device.vault import Vault
from tests.device.collector import Collector, document
from tests.device.owner import agreed


def contents(connection: sqlite3.Connection) -> dict[str, list[object]]:
    tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return {name: connection.execute(f'SELECT * FROM "{name}"').fetchall() for (name,) in tables}


def vault() -> Vault:
    return Vault(IN_MEMORY, system_clock, Coins())


def test_nothing_of_the_device_before_is_left() -> None:
    collector = Collector()
    collector.open(document())
    device = agreed(collector, IN_MEMORY)
    device.report("snack-survey", {"fries": 4})
    file, secret = device.vault.connection, device.vault.secret
    assert sum(map(bool, contents(file).values())) > 5
    device.close()
    assert not any(contents(file).values())

    following = vault()
    assert following.connection is file
    assert following.secret != secret
    assert {name for name, rows in contents(file).items() if rows} == {"device"}


def test_a_closed_device_cannot_be_used_and_may_be_closed_again() -> None:
    first = vault()
    first.close()
    second = vault()
    first.close()
    with pytest.raises(sqlite3.ProgrammingError):
        _ = first.secret
    assert second.secret


def test_a_transaction_that_was_left_open_is_undone() -> None:
    first = vault()
    first.connection.execute("BEGIN")
    first.connection.execute("INSERT INTO caps VALUES ('{}')")
    file = first.connection
    first.close()
    assert not file.in_transaction and not any(contents(file).values())


def test_a_file_whose_tables_were_changed_does_not_serve_again() -> None:
    first = vault()
    first.connection.execute("CREATE TABLE more (x)")
    file = first.connection
    first.close()
    with pytest.raises(sqlite3.ProgrammingError):
        file.execute("SELECT 1")


def test_threads_do_not_share_files() -> None:
    first = vault()
    file = first.connection
    first.close()
    seen: list[bool] = []

    def other() -> None:
        seen.append(vault().connection is file)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert seen == [False]
