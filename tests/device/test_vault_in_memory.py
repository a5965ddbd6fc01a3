"""Devices in memory are copied from one empty file: each has its own secret, and the tables of a file."""

from __future__ import annotations

from pathlib import Path

from keyveil.core.clock import system_clock
from keyveil.core.coins import Coins
from keyveil.device.memory import IN_MEMORY
from keyveil.device.vault import Vault

TABLES = "SELECT name, sql FROM sqlite_master ORDER BY name"


def test_a_device_in_memory_is_a_new_file_with_a_secret_of_its_own(tmp_path: Path) -> None:
    one, other = (Vault(IN_MEMORY, system_clock, Coins()) for _ in range(2))
    file = Vault(tmp_path / "device.db", system_clock, Coins())
    assert len({one.secret, other.secret, file.secret}) == 3 and len(one.secret) == 32
    assert (one.since, one.latest_day) == (file.since, file.latest_day)
    for question in (TABLES, "PRAGMA user_version", "PRAGMA secure_delete", "PRAGMA synchronous"):
        assert one.connection.execute(question).fetchall() == file.connection.execute(question).fetchall()
