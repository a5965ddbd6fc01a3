"""Reports to be sent: each is stored before it is sent, and sent again unchanged until the collector has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from keyveil.campaign.wire import Batch
from keyveil.device.vault import Vault

WAITING, SENT, REFUSED, WITHDRAWN = "waiting", "sent", "refused", "withdrawn"
_COLUMNS = "series, campaign, round, document, report, payload, token, state, attempts, code"


@dataclass(frozen=True)
class Parcel:
    """One stored report with its state; at most one for each round of a collector's campaign."""

    series: str
    campaign: str
    round: int
    document: str  # hash of the round's document
    report: bytes  # its id
    payload: bytes | None  # padded; None once withdrawn
    token: str | None = None
    state: str = WAITING
    attempts: int = 0
    code: str | None = None  # why the collector refused it

    @property
    def name(self) -> str:
        """The campaign's name, without the collector that a series belongs to."""
        return self.series.rpartition("/")[2]

    @property
    def batch(self) -> Batch:
        assert self.payload is not None
        return Batch(self.round, self.document, (self.report,), (self.payload,))


class Outbox:
    """All parcels of a device. Those that arrived stay, so that the owner can see what was sent."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    def put(self, parcel: Parcel) -> None:
        """Store a report; only within the transaction that also debits it."""
        self._vault.connection.execute(
            f"INSERT INTO outbox ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                parcel.series,
                parcel.campaign,
                parcel.round,
                parcel.document,
                parcel.report,
                parcel.payload,
                parcel.token,
                parcel.state,
                parcel.attempts,
                parcel.code,
            ),
        )

    def find(self, series: str, campaign: str, round: int) -> Parcel | None:
        """The report that was made for a round of this collector, if there is one."""
        found = self._parcels("WHERE series = ? AND campaign = ? AND round = ?", series, campaign, round)
        return found[0] if found else None

    def waiting(self, prefix: str = "") -> list[Parcel]:
        """Reports that wait for the collector whose series begin with ``prefix``; oldest first."""
        return [one for one in self._parcels("WHERE state = ?", WAITING) if one.series == prefix + one.name]

    def everything(self) -> list[Parcel]:
        return self._parcels("")

    def mark(self, parcel: Parcel, state: str, code: str | None, attempts: int) -> None:
        """Store what became of an upload, unless the report was withdrawn meanwhile."""
        self._vault.connection.execute(
            "UPDATE outbox SET state = ?, code = ?, attempts = attempts + ?, token = CASE ? WHEN ? THEN token END "
            "WHERE series = ? AND campaign = ? AND round = ? AND state = ?",
            (state, code, attempts, state, WAITING, parcel.series, parcel.campaign, parcel.round, WAITING),
        )

    def renew(self, parcel: Parcel, token: str) -> None:
        """Try a report again that was refused for want of a token."""
        self._vault.connection.execute(
            "UPDATE outbox SET state = ?, code = NULL, token = ? "
            "WHERE series = ? AND campaign = ? AND round = ? AND state = ?",
            (WAITING, token, parcel.series, parcel.campaign, parcel.round, parcel.state),
        )

    def withdraw(self, series: str) -> int:
        """Delete the unsent reports of a series; the ledger stays."""
        return self._vault.connection.execute(
            "UPDATE outbox SET state = ?, payload = NULL, token = NULL WHERE series = ? AND state = ?",
            (WITHDRAWN, series, WAITING),
        ).rowcount

    def _parcels(self, where: str, *values: Any) -> list[Parcel]:
        rows = self._vault.connection.execute(f"SELECT {_COLUMNS} FROM outbox {where} ORDER BY rowid", values)
        return [Parcel(*row) for row in rows]
