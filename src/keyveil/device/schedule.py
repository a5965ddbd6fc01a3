"""Whether a device answers at all, by calendar and coins: standing reports, turns, and pauses.

Everything here is decided before a record is read and without looking at one. If it were not, a collector that only
counts ids, or only notices silence, would learn about records what no ledger says.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from keyveil.campaign.recurrence import Period
from keyveil.core.coins import Coins
from keyveil.core.errors import DeviceError
from keyveil.device.vault import Vault

EVERY_SERIES = ""  # a pause of the whole device
WITHDRAWN, RESTORED = "withdrawn", "restored"


@dataclass(frozen=True)
class Standing:
    """A report that is sent again to every campaign of its period."""

    report: bytes  # its id
    payload: bytes  # padded


class StandingReports:
    """The reports that stand: at most one for each series and its terms."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    def find(self, series: str, terms: str, period: Period) -> Standing | None:
        """The report that stands in a period under these terms."""
        row = self._vault.connection.execute(
            "SELECT report, payload FROM standing WHERE series = ? AND terms = ? AND first = ?",
            (series, terms, period.first.isoformat()),
        ).fetchone()
        return None if row is None else Standing(*map(bytes, row))

    def keep(self, series: str, terms: str, period: Period, day: date, report: Standing) -> None:
        """Let a report stand for the period of a day; those of the series whose periods are over are deleted.

        A report under other terms stays to the end of its own period: if these terms came back, a second draw would
        have its id.
        """
        now = self._vault.connection
        now.execute("DELETE FROM standing WHERE series = ? AND last < ?", (series, day.isoformat()))
        now.execute(
            "INSERT OR REPLACE INTO standing VALUES (?, ?, ?, ?, ?, ?)",
            (series, terms, period.first.isoformat(), period.last.isoformat(), report.report, report.payload),
        )

    def end(self, series: str) -> None:
        """Delete what stands in a series, or everywhere."""
        self._vault.connection.execute("DELETE FROM standing WHERE ?1 IN (series, ?2)", (series, EVERY_SERIES))


class Turns:
    """Which campaigns of a series with ``one_in`` a device answers: by one coin for the series, and by counting."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    def has(self, series: str, terms: str, campaign: str, one_in: int, coins: Coins) -> bool:
        """Whether this campaign is the device's turn. The first call draws the coin; a new campaign counts as one."""
        now = self._vault.connection
        row = now.execute(
            "SELECT place, met, campaign FROM turn WHERE series = ? AND terms = ?", (series, terms)
        ).fetchone()
        place, met, latest = (coins.below(one_in), -1, None) if row is None else row
        if latest != campaign:
            met += 1
            now.execute("INSERT OR REPLACE INTO turn VALUES (?, ?, ?, ?, ?)", (series, terms, place, met, campaign))
        return bool(met % one_in == place)


class Pauses:
    """Days up to which whatever had begun counts as answered, because something was deleted or may be missing."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    def begin(self, series: str, day: date, why: str, campaign: str | None = None) -> None:
        """Count every round and period that has begun by a day as answered, and this campaign if it has no dates."""
        self._vault.connection.execute(
            "INSERT OR REPLACE INTO pause VALUES (?, ?, ?, ?)", (series, day.isoformat(), why, campaign)
        )

    def refuse(self, series: str, campaign: str, opened: date | None, period: Period | None) -> None:
        """Refuse a round that counts as answered. ``opened`` is the first day on which it could have been open."""
        rows = self._vault.connection.execute(
            "SELECT day, why, campaign FROM pause WHERE series IN (?, ?) ORDER BY series", (series, EVERY_SERIES)
        )
        for text, why, known in rows.fetchall():
            day = date.fromisoformat(text)
            begun = known == campaign or why == RESTORED if opened is None else opened <= day
            if begun or (period is not None and period.first <= day):
                raise DeviceError(f"report/{why}", _PAUSED[why].format(series=series, day=day))

    def restored(self) -> date | None:
        """The day on which the file found itself copied or old, if it ever did."""
        row = self._vault.connection.execute(
            "SELECT day FROM pause WHERE series = ? AND why = ?", (EVERY_SERIES, RESTORED)
        ).fetchone()
        return None if row is None else date.fromisoformat(row[0])


_PAUSED = {
    WITHDRAWN: "Consent to {series} was withdrawn on {day}: what had begun by then is not answered, the next one is.",
    RESTORED: (
        "This device's file was copied or restored (noticed on {day}): another copy may have answered what had begun "
        "by then, or has no first day, so this one is silent until the next."
    ),
}
