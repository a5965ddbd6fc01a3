"""How a collection goes: rounds, arrivals, refusals and warnings; and the steps that administrators take."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from keyveil.campaign.documents import Campaign
from keyveil.campaign.series import next_document
from keyveil.core.errors import CampaignError, KeyveilError
from keyveil.core.text import many
from keyveil.dashboard.campaign_head import head
from keyveil.dashboard.layout import facts, field, form, note, numbers, page, redirect, table
from keyveil.dashboard.visits import Visit
from keyveil.dashboard.words import ROUNDS, refusals_in_words
from keyveil.display.charts import arrivals, arrivals_in_words
from keyveil.display.markup import Html, tag, together

STEPS = {  # in each state: the step, its word, what it does, and whether it cannot be taken back
    "draft": (("open", "Open", "From now on devices may answer. Nothing in the document can change any more.", False),),
    "open": (
        (
            "close",
            "Close this round",
            "Nobody can answer it any more; what waits is counted. It never opens again.",
            True,
        ),
        ("stop", "Stop the campaign", "Closes this round, and no further round follows.", True),
    ),
    "closed": (),
    "estimated": (("archive", "Archive", "Deletes the reports that are left; results and counts stay.", True),),
}


def show_collection(visit: Visit) -> Response:
    """Counts of what came in, and for administrators what can be done next."""
    campaign, state, top = head(visit, "collection")
    status = visit.service.status(visit.name)
    rounds = [
        tag(
            "tr",
            tag("th", str(one["round"]), scope="row"),
            tag("td", one["mechanism"]),
            tag("td", ROUNDS[one["state"]]),
            tag("td", f"{one['reports']:,}", class_="number"),
            tag("td", f"{one['folded']:,}", class_="number"),
            tag("td", one["note"] or "none"),
        )
        for one in status["rounds"]
    ]
    head_row = ("Round", "Mechanism", "State", numbers("Reports"), numbers("Counted"), "Warnings")
    return page(
        visit,
        campaign.name,
        top,
        table("Rounds", head_row, rows=rounds) if rounds else note("Nobody has been asked yet: no round has begun."),
        tag("h2", "What came in"),
        tag(
            "figure",
            arrivals(status["arrivals"], status["bucket_hours"], 480, 90),
            tag("figcaption", arrivals_in_words(status["arrivals"], status["bucket_hours"]), class_="small"),
        ),
        facts(
            ("Reports", f"{status['reports']:,}"),
            ("Sent twice", f"{status['duplicates']:,}, each counted once" if status["duplicates"] else "none"),
            ("Refused", refusals_in_words(status["refused"])),
            ("Nothing is shown below", many(campaign.min_reports, "report")),
        ),
        _steps(visit, campaign, state),
    )


def _steps(visit: Visit, campaign: Campaign, state: str) -> Html:
    if not visit.admin:
        return note("Administrators open, close and stop campaigns.")
    here = f"/campaigns/{visit.name}"
    cards = [
        form(
            visit,
            f"{here}/act",
            tag("h3", word),
            tag("p", does),
            tag("input", type="hidden", name="action", value=action),
            tag("button", word, class_="danger" if final else None, data_sure=f"{word}? {does}" if final else None),
            class_="card",
        )
        for action, word, does, final in STEPS.get(state, ())
    ]
    if campaign.recurrence.every_days is not None and state != "draft":
        said = tag("h3", "The next campaign"), tag("p", "The same question with the next dates, as a draft.")
        cards.append(form(visit, f"{here}/next", said, tag("button", "Write it down"), class_="card"))
    if campaign.enrolment == "token" and state in ("draft", "open"):
        count = field("How many", "count", "10", inputmode="numeric", required=True)
        said = tag("h3", "Enrolment tokens"), tag("p", "One for each person. They are shown once.")
        cards.append(form(visit, f"{here}/enrol", said, count, tag("button", "Make tokens"), class_="card"))
    if not cards:
        return note("Nothing is left to do here.")
    return together(tag("h2", "What to do next"), tag("div", cards, class_="cards"))


def act(visit: Visit) -> Response:
    """A step of the campaign; the journal says whose."""
    action = visit.given("action")
    if action not in {one[0] for steps in STEPS.values() for one in steps}:
        raise CampaignError("campaign/action", "Choose one of the steps on the page.")
    view = visit.service.act(visit.name, action, visit.holder.name)
    return redirect(visit, f"/campaigns/{view['hash'][:12]}/collection", done=action)


def next_one(visit: Visit) -> Response:
    """The next campaign of a series, as a draft."""
    view = visit.service.create(next_document(visit.service.campaign(visit.name)), visit.holder.name)
    return redirect(visit, f"/campaigns/{view['hash'][:12]}/collection", done="next")


def enrol(visit: Visit) -> Response:
    """New enrolment tokens, on a page that is shown this once."""
    count = visit.given("count")
    if not (count.isascii() and count.isdigit() and len(count) < 7):
        raise KeyveilError("enrolment/count", "Say how many tokens to make, as a whole number.")
    tokens: list[Any] = visit.service.enrol(visit.name, int(count), visit.holder.name)
    return page(
        visit,
        "Enrolment tokens",
        note("Copy them now: they are shown this once, and only their hashes are kept."),
        tag("pre", "\n".join(tokens)),
        tag("p", tag("a", "Back to the collection", href=visit.to(f"/campaigns/{visit.name}/collection"))),
    )
