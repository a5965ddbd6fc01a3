"""What was answered before: the same record and the same mechanism give the same report, not a second draw.

The record is not kept, only a digest under a secret of this device. A *seat* is the public bytes that decide to which
part of the people the device belongs; it is drawn once for each campaign. It is not kept for the next campaign, since
it would link reports of a record that has changed; so what only a part answers is drawn again there.
"""

from __future__ import annotations

import hashlib
import hmac

from keyveil.core.coins import Coins
from keyveil.core.report import PUBLIC_BYTES
from keyveil.device.vault import Vault
from keyveil.mechanisms.base import Pairs


class Memory:
    """Earlier answers, seats, and lists of keys that were fetched."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    def digest(self, pairs: Pairs) -> bytes:
        """A keyed hash of a cleaned record; without the device's file nobody can test a guess against it."""
        data = b"".join(key.to_bytes(4, "big") + value.to_bytes(4, "big", signed=True) for key, value in pairs)
        return hmac.new(self._vault.secret, data, hashlib.sha256).digest()

    def recall(self, series: str, fingerprint: str, digest: bytes, public: bytes | None) -> tuple[bytes, bytes] | None:
        """Id and payload of the earlier report; if ``public`` is given, only of one with that id."""
        row = self._vault.connection.execute(
            "SELECT report, payload FROM memo WHERE series = ?1 AND fingerprint = ?2 AND digest = ?3 "
            "AND (?4 IS NULL OR report = ?4) ORDER BY rowid LIMIT 1",
            (series, fingerprint, digest, public),
        ).fetchone()
        return None if row is None else (bytes(row[0]), bytes(row[1]))

    def keep(self, series: str, fingerprint: str, digest: bytes, report: bytes, payload: bytes) -> None:
        self._vault.connection.execute(
            "INSERT INTO memo VALUES (?, ?, ?, ?, ?)", (series, fingerprint, digest, report, payload)
        )

    def seat(self, series: str, campaign: str, coins: Coins) -> bytes:
        """The seat in a campaign, drawn when it is first needed, independently of any record."""
        row = self._vault.connection.execute(
            "SELECT public FROM seat WHERE series = ? AND campaign = ?", (series, campaign)
        ).fetchone()
        if row is not None:
            return bytes(row[0])
        drawn = coins.bytes(PUBLIC_BYTES)
        self._vault.connection.execute("INSERT INTO seat VALUES (?, ?, ?)", (series, campaign, drawn))
        return drawn

    def dictionary(self, name: str) -> bytes | None:
        """A list of keys that was fetched before."""
        row = self._vault.connection.execute("SELECT data FROM dictionary WHERE hash = ?", (name,)).fetchone()
        return None if row is None else bytes(row[0])

    def keep_dictionary(self, name: str, data: bytes) -> None:
        self._vault.connection.execute("INSERT OR IGNORE INTO dictionary VALUES (?, ?)", (name, data))
