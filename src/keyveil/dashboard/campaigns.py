"""The first page: all campaigns that the token is good for, what came in, and what needs a look."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from keyveil.collector.buckets import BUCKET_HOURS
from keyveil.dashboard.layout import note, numbers, page, table
from keyveil.dashboard.visits import Visit
from keyveil.dashboard.words import ROUNDS, refusals_in_words, state_of
from keyveil.display.charts import arrivals, days_of
from keyveil.display.markup import Child, Html, tag

AT_ONCE = 20  # campaigns on a page
MOST_LETTERS = 90  # of a purpose in the list


def show_campaigns(visit: Visit) -> Response:
    """The list, latest first."""
    every = [one for one in visit.service.campaigns() if visit.holder.reaches(one["name"])][::-1]
    start = visit.number("from", 1) - 1
    shown = every[start : start + AT_ONCE]
    if not every:
        return page(visit, "Campaigns", _nothing(visit))
    rows = [_row(visit, one, visit.service.status(one["hash"])) for one in shown]
    head = (
        "Campaign",
        "State",
        "Round",
        numbers("Reports"),
        f"Arrivals, by {BUCKET_HOURS} hours",
        "Refused",
        "Warnings",
    )
    return page(
        visit, "Campaigns", table("The latest first", head, rows, class_="names"), _turn(visit, start, len(every))
    )


def _row(visit: Visit, one: dict[str, Any], status: dict[str, Any]) -> Html:
    warned = [told["note"] for told in status["rounds"] if told["note"]]
    last = status["rounds"][-1] if status["rounds"] else None
    return tag(
        "tr",
        tag(
            "th",
            tag("a", one["name"], href=visit.to(f"/campaigns/{one['hash'][:12]}")),
            tag("small", _short(visit.service.campaign(one["hash"]).purpose), class_="under"),
            tag("small", one["hash"][:12], class_="hash"),
            scope="row",
        ),
        tag("td", state_of(one["state"])),
        tag("td", "–" if last is None else f"{last['round']}, {ROUNDS[last['state']]}", class_="brief"),
        tag("td", f"{status['reports']:,}", class_="number"),
        tag(
            "td",
            arrivals(status["arrivals"], status["bucket_hours"]),
            tag("small", days_of(status["arrivals"], status["bucket_hours"]), class_="under"),
        ),
        tag("td", refusals_in_words(status["refused"])),
        tag("td", [tag("p", told, class_="small") for told in warned] or "none"),
    )


def _short(purpose: str) -> str:
    return purpose if len(purpose) <= MOST_LETTERS else purpose[: MOST_LETTERS - 1].rstrip() + "…"


def _turn(visit: Visit, start: int, total: int) -> Child:
    """Links to the campaigns before and after these."""
    earlier = start > 0 and tag("a", "Later ones", href=visit.to("/", **{"from": str(max(start - AT_ONCE, 0) + 1)}))
    later = start + AT_ONCE < total and tag(
        "a", "Earlier ones", href=visit.to("/", **{"from": str(start + AT_ONCE + 1)})
    )
    return tag("p", earlier or "", " ", later or "") if earlier or later else None


def _nothing(visit: Visit) -> Html:
    if visit.admin:
        return note("There is no campaign yet. ", tag("a", "Plan the first one", href=visit.to("/new")), ".")
    return note("There is no campaign yet that your token is good for. An administrator creates them.")
