"""Campaigns of one series beside each other: the next one, the days that estimates speak of, and what may be compared.

Two campaigns of one period hold the same reports of the same people. A comparison of them would take equal noise for
no change; it is refused, with the day from which it is possible.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from keyveil.campaign.documents import Campaign
from keyveil.campaign.recurrence import Period
from keyveil.core.errors import CampaignError


def next_document(campaign: Campaign) -> dict[str, Any]:
    """The document of the next campaign of a series: the same terms, all dates moved on by ``every_days``."""
    every, last = campaign.recurrence.every_days, campaign.recurrence.series_until
    if every is None or campaign.until is None:
        raise CampaignError("campaign/every", f"{campaign.name} does not say how often it returns (every_days).")
    step = timedelta(days=every)
    if last is not None and campaign.until + step > last:
        raise CampaignError("campaign/over", f"The series {campaign.name} ends on {last}: there is no next campaign.")
    moved = [
        {**window.document(), "opens": (window.opens + step).isoformat(), "closes": (window.closes + step).isoformat()}
        for window in campaign.rounds
        if window.opens is not None and window.closes is not None
    ]
    return {**campaign.document(), "rounds": moved}


def drawn(campaign: Campaign) -> Period | None:
    """The days on which the reports of a campaign can have been drawn; none if it has no dates.

    A report that stands was drawn at any time since its period began, so estimates speak of these days together.
    """
    if campaign.dates is None:
        return None
    first, last = campaign.dates
    period = campaign.recurrence.period(first)
    return Period(first if period is None else period.first, last)


def refuse_same_reports(one: Campaign, other: Campaign) -> None:
    """Refuse to compare campaigns that may hold the same reports; those of other terms never do."""
    if one.hash == other.hash:
        raise CampaignError("question/renewed", "A campaign cannot be compared with itself.")
    if one.recurrence.renew_days is None or one.terms != other.terms:
        return
    if one.dates is None or other.dates is None:
        raise CampaignError("question/renewed", "Campaigns without dates may hold the same reports: name their days.")
    (opened, closed), (following, _) = sorted((one.dates, other.dates))
    renewed = one.recurrence.renewed_from(closed)
    if renewed is not None and following < renewed:
        raise CampaignError(
            "question/renewed",
            f"These campaigns hold the same reports, drawn once for a period: compare {one.name} of {opened} "
            f"with a campaign that opens on {renewed} or later.",
        )
