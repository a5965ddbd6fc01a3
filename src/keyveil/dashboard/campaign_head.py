"""What stands above every page of one campaign: its name, state, purpose and the way to the other pages."""

from __future__ import annotations

from keyveil.campaign.documents import Campaign
from keyveil.dashboard.layout import note, tabs
from keyveil.dashboard.visits import Visit
from keyveil.dashboard.words import DONE, state_of, what_state_means
from keyveil.display.markup import Html, tag, together


def head(visit: Visit, tab: str) -> tuple[Campaign, str, Html]:
    """The campaign, its state, and the upper part of its page."""
    campaign, (_, state, rounds) = visit.service.campaign(visit.name), visit.service.counted(visit.name)
    said = DONE.get(visit.asked("done"), "")
    return (
        campaign,
        state,
        together(
            said and note(said, kind="done"),
            tag("p", state_of(state), " ", tag("span", what_state_means(state, rounds), class_="quiet")),
            tag("p", campaign.purpose, class_="purpose"),
            tabs(visit, tab),
        ),
    )
