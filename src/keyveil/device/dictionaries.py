"""Lists of keys that lie beside a campaign's document: each is fetched once and kept."""

from __future__ import annotations

from keyveil.device.vault import Vault


class Dictionaries:
    """The lists of keys that were fetched, by their hash."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    def find(self, name: str) -> bytes | None:
        """A list of keys that was fetched before."""
        row = self._vault.connection.execute("SELECT data FROM dictionary WHERE hash = ?", (name,)).fetchone()
        return None if row is None else bytes(row[0])

    def keep(self, name: str, data: bytes) -> None:
        self._vault.connection.execute("INSERT OR IGNORE INTO dictionary VALUES (?, ?)", (name, data))
