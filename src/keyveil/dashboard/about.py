"""What pages and reports say of a campaign besides its numbers."""

from __future__ import annotations

from keyveil.campaign.documents import Campaign
from keyveil.campaign.series import drawn
from keyveil.display.report import About
from keyveil.planning.preview import epsilon_in_words, privacy_in_words


def about_campaign(campaign: Campaign, told: str | None = None) -> About:
    """What a report on a campaign says besides the numbers; ``told`` stands under the finding, unless it is empty."""
    single, dates = campaign.protocol.single, campaign.dates
    facts = [("campaign", campaign.name), ("hash of its document", campaign.hash)]
    if dates is not None:
        facts.append(("days", f"{dates[0]} to {dates[1]}"))
    if campaign.reason:
        facts.append(("why this mechanism", campaign.reason))
    said = days_in_words(campaign) if told is None else told
    return About(
        campaign.name,
        campaign.purpose,
        notes=(said,) if said else (),
        privacy=() if single is None else privacy_in_words(single),
        facts=tuple(facts),
    )


def days_in_words(campaign: Campaign) -> str:
    """Which days the numbers speak of; nothing if the campaign has no dates."""
    days = drawn(campaign)
    return "" if days is None else f"The reports were drawn from {days}: estimates speak of these days."


def dates_in_words(campaign: Campaign) -> str:
    """When the campaign asks."""
    if campaign.dates is not None:
        return f"{campaign.dates[0]} to {campaign.dates[1]}"
    ends = [f"until {campaign.until}"] if campaign.until is not None else []
    enough = max((one.enough or 0 for one in campaign.rounds), default=0)
    ends += [f"until {enough:,} people have reported"] if enough else []
    return " or ".join(ends) or "until somebody closes it"


def odds_in_words(campaign: Campaign) -> str:
    """What epsilon means for a person, as odds."""
    first = campaign.protocol.next_round([])
    mechanism = campaign.protocol.single or (None if first is None else first.mechanism)
    return "" if mechanism is None else epsilon_in_words(mechanism, len(campaign.protocol.longest()))


def who_sees_what(campaign: Campaign) -> tuple[tuple[str, str], ...]:
    """Who can see what of a person, from the campaign's own document."""
    days = campaign.retention_days
    kept = "until it is counted" if days == 0 else f"for {days} days after it is counted"
    said = f"one randomised report, kept {kept}, and the six hours in which it came; no name, address or time"
    return (
        ("the person’s device", "what the person holds; it never leaves the device"),
        ("the collector and its database", said),
        ("administrators", "the randomised reports while they are kept, and everything that analysts see"),
        ("analysts", f"estimates for all people together, once at least {campaign.min_reports:,} have reported"),
        ("anybody", "the question: this campaign’s document"),
    )
