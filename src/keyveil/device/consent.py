"""What the owner agreed to; a collector that departs from it is refused.

Consent is given to the *terms* of a campaign: all of its document but the dates. A later campaign of the series with
the same terms is covered by it if all rounds of both have dates, and it opens after the earlier one has closed; where
the terms say how often and until when the series returns, no sooner and no longer than that.
Any other change must be shown and agreed to again. Within a campaign nothing may change at all, and rounds only
move forward.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date

from keyveil.campaign.documents import Campaign
from keyveil.campaign.rounds import RoundDocument
from keyveil.core.errors import CampaignError, DeviceError, KeyveilError
from keyveil.device.vault import Vault

GIVEN, WITHDRAWN = "given", "withdrawn"


@dataclass(frozen=True)
class Terms:
    """What the owner consents to, and the latest campaign that had these terms."""

    terms: str  # hash of the document without its dates
    campaign: str  # hash of the document
    starts: str = ""  # its first and last day, unless a round lacks one
    ends: str = ""
    every_days: int = 1  # between the first days of two campaigns, at least

    @classmethod
    def of(cls, campaign: Campaign) -> Terms:
        terms = cls(campaign.terms, campaign.hash, every_days=campaign.recurrence.every_days or 1)
        if campaign.dates is None:
            return terms
        first, last = campaign.dates
        return replace(terms, starts=first.isoformat(), ends=last.isoformat())

    def days_after(self, earlier: Terms) -> int:
        """Days from the first day of an earlier campaign to the first of this one; both have dates."""
        return (date.fromisoformat(self.starts) - date.fromisoformat(earlier.starts)).days


class Consents:
    """The owner's decision on every series, and the round documents that its collector has served."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    def states(self) -> dict[str, str]:
        return dict(self._vault.connection.execute("SELECT series, state FROM consent ORDER BY series").fetchall())

    def give(self, series: str, terms: Terms) -> None:
        row = (series, GIVEN, terms.terms, terms.campaign, terms.starts, terms.ends)
        self._vault.connection.execute("INSERT OR REPLACE INTO consent VALUES (?, ?, ?, ?, ?, ?)", row)

    def withdraw(self, series: str) -> None:
        self._vault.connection.execute(
            "INSERT INTO consent (series, state) VALUES (?1, ?2) ON CONFLICT (series) DO UPDATE SET state = ?2",
            (series, WITHDRAWN),
        )

    def need(self, series: str) -> None:
        """Refuse what the owner has not agreed to, or no longer agrees to."""
        state = self.states().get(series)
        if state == WITHDRAWN:
            raise DeviceError("consent/withdrawn", f"Consent to {series} was withdrawn; it can be given again.")
        if state != GIVEN:
            raise DeviceError("consent/needed", f"Nobody has agreed to {series} yet: explain it, then consent.")

    def latest(self, series: str) -> str | None:
        """The hash of the campaign of a series that was agreed to, or came last under that consent."""
        known = self._known(series)
        return None if known is None else known.campaign

    def covers(self, series: str, met: Terms) -> bool:
        """Whether a consent that was given before covers this campaign."""
        try:
            self.need(series)
            self.check(series, met)
        except KeyveilError:
            return False
        return True

    def hold(self, series: str, met: Terms) -> None:
        """``check``, and store this campaign as the latest of its series."""
        self.check(series, met)
        if self.latest(series) != met.campaign:
            self.give(series, met)

    def check(self, series: str, met: Terms) -> None:
        """Refuse a campaign that is neither the one agreed to nor a later one of its series with the same terms."""
        known = self._known(series)
        if known is None or met.campaign == known.campaign:
            return
        if met.terms != known.terms:
            raise CampaignError(
                "campaign/changed", f"{series} now asks something else than was agreed to: show it and consent again."
            )
        if not known.ends or met.starts <= known.ends:
            raise CampaignError("campaign/changed", f"{series} was changed, and is no later campaign of its series.")
        if met.days_after(known) < met.every_days:
            raise CampaignError("campaign/changed", f"{series} returns sooner than after {met.every_days} days.")

    def follow(self, series: str, document: RoundDocument) -> None:
        """``refuse_return``, and remember this round."""
        self.refuse_return(series, document)
        self._vault.connection.execute(
            "INSERT OR IGNORE INTO met_round VALUES (?, ?, ?, ?)",
            (series, document.campaign, document.number, document.hash),
        )

    def refuse_return(self, series: str, document: RoundDocument) -> None:
        """Refuse a round that was changed since it was met, or that comes after a later one."""
        rows = self._vault.connection.execute(
            "SELECT round, document FROM met_round WHERE series = ? AND campaign = ?", (series, document.campaign)
        )
        seen = dict(rows.fetchall())
        known = seen.get(document.number)
        if known is not None and known != document.hash:
            raise CampaignError("round/changed", f"Round {document.number} is not the one that was served before.")
        if known is None and document.number < max(seen, default=0):
            raise CampaignError("round/order", f"Round {document.number} comes after round {max(seen)}.")

    def _known(self, series: str) -> Terms | None:
        row = self._vault.connection.execute(
            "SELECT terms, campaign, starts, ends FROM consent WHERE series = ?", (series,)
        ).fetchone()
        return None if row is None or row[0] is None else Terms(*row)
