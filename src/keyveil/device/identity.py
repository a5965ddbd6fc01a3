"""The ids of a device's reports: keyed hashes of public things under its secret, so no record has a part in them.

The id of a report depends on the series and the round (or on the terms and the period, where a report stands for one).
A restored file therefore gives its old id again, and an honest collector counts a person once, whatever happened to
the file. Different rounds and different collectors see ids that cannot be linked without the secret.

A *seat* decides to which part of the people a device belongs in a campaign whose rounds ask parts of them; it is the
id of its reports there.
"""

from __future__ import annotations

import hmac

from keyveil.campaign.recurrence import Period
from keyveil.core.canonical import canonical
from keyveil.core.report import PUBLIC_BYTES
from keyveil.device.vault import Vault


class Identity:
    """The ids that a device has in every series."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    def of_round(self, series: str, document: str) -> bytes:
        """The id of the report of a round, by the hash of the round's document."""
        return self._derived("round", series, document)

    def of_period(self, series: str, terms: str, period: Period) -> bytes:
        """The id of the report that stands for a period, by the hash of the terms."""
        return self._derived("period", series, terms, period.first.isoformat())

    def seat(self, series: str, campaign: str) -> bytes:
        """The seat in a campaign, by its hash; files of version 2 and before have drawn some seats by coins."""
        row = self._vault.connection.execute(
            "SELECT public FROM seat WHERE series = ? AND campaign = ?", (series, campaign)
        ).fetchone()
        return self._derived("seat", series, campaign) if row is None else bytes(row[0])

    def _derived(self, *parts: str) -> bytes:
        return derived(self._vault.secret, *parts)


def derived(secret: bytes, *parts: str) -> bytes:
    """The id of what the parts name, under a secret: sixteen bytes (docs/wire.md, "Ids and words")."""
    return hmac.digest(secret, canonical(list(parts)), "sha256")[:PUBLIC_BYTES]
