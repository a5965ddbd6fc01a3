"""The first page of a campaign: what was found, the picture, every key with its intervals, and what they mean."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.responses import Response

from keyveil.campaign.documents import Campaign
from keyveil.core.epsilon import decimal_text
from keyveil.core.errors import KeyveilError
from keyveil.core.estimates import Estimates
from keyveil.core.schema import Schema
from keyveil.core.text import many
from keyveil.dashboard.about import dates_in_words, days_in_words, odds_in_words, who_sees_what
from keyveil.dashboard.campaign_head import head
from keyveil.dashboard.code import asked, code
from keyveil.dashboard.key_table import key_table, part
from keyveil.dashboard.layout import facts, field, note, page, question, table
from keyveil.dashboard.refusals import explained
from keyveil.dashboard.visits import Visit
from keyveil.display.charts import forest
from keyveil.display.estimates import caption, remarks
from keyveil.display.finding import finding
from keyveil.display.markup import Child, Html, tag, together
from keyveil.display.report import MEANINGS, contained, met_flags

MOST_ATTACKERS = 1 << 53
MOST_NAMED = 12  # keys in the description of a campaign


def show_overview(visit: Visit) -> Response:
    """The results so far, or why there are none yet."""
    if visit.asked("part") == "rows":
        return part(visit, _estimates(visit))
    campaign, state, top = head(visit, "")
    try:
        body = _results(visit, _estimates(visit))
    except KeyveilError as refused:
        body = _not_yet(visit, campaign, state, refused)
    return page(visit, campaign.name, top, body, _about(visit, campaign))


def _estimates(visit: Visit) -> Estimates:
    attackers = visit.number("attackers", 1, MOST_ATTACKERS) if visit.asked("attackers") else None
    return visit.site.results.estimates(visit.name, attackers=attackers)


def _results(visit: Visit, estimates: Estimates) -> Html:
    picture = visit.site.results.remembered(visit.name, ("forest", visit.asked("attackers")), lambda: forest(estimates))
    return together(
        tag("p", finding(estimates), class_="finding"),
        tag("p", days_in_words(visit.service.campaign(visit.name)), class_="quiet"),
        tag("figure", picture, tag("figcaption", caption(estimates), class_="small")),
        tag("h2", "Every key"),
        key_table(visit, estimates),
        tag("p", remarks(estimates), class_="small"),
        tag("h2", "How to read it"),
        facts(*((flag, MEANINGS[flag]) for flag in met_flags(estimates))),
        tag("p", contained(estimates)),
        _attackers(visit, estimates),
        _code(visit),
    )


def _code(visit: Visit) -> Html:
    """The same numbers, with what crafted reports could have moved if that is shown."""
    crafted = visit.asked("attackers")
    words = ["campaign", "estimates", visit.name, *(["--attackers", crafted] if crafted else [])]
    path = f"/v1/campaigns/{visit.name}/estimates" + (f"?attackers={crafted}" if crafted else "")
    return code(visit, words, [f"answer = {asked(path)}"])


def _attackers(visit: Visit, estimates: Estimates) -> Html:
    """How far crafted reports could have moved the numbers, on demand."""
    shown = estimates.attacked is not None
    return question(
        visit,
        f"/campaigns/{visit.name}",
        field(
            "How many reports may have been crafted to deceive?",
            "attackers",
            visit.asked("attackers"),
            "Say how many, such as 100: lighter bars then show how far they could have moved each number.",
            inputmode="numeric",
            pattern="[0-9]*",
        ),
        tag("button", "Show" if not shown else "Show again"),
        class_="card",
    )


def _not_yet(visit: Visit, campaign: Campaign, state: str, refused: KeyveilError) -> Html:
    """An empty or small campaign: how far it has come, and what to do."""
    rounds = visit.service.counted(visit.name)[2]
    done, least = sum(number for _, number in rounds), campaign.min_reports
    if state == "draft":
        who = "Open it" if visit.admin else "An administrator opens it"
        step: Child = [f"{who} on the page ", _link(visit, "collection", "Collection"), "."]
        return note("Nobody has been asked yet: this campaign is a draft. ", step)
    if refused.code != "campaign/too-few":
        return explained(refused)
    so_far, step = " so far", "wait for more people; when the round closes, what waits is counted."
    if state != "open":
        so_far, step = "", f"ask again in a new campaign, of more people or with a smaller least number than {least:,}."
    return together(
        note(
            f"{many(done, 'report')} counted{so_far}. Nothing is shown below {least:,}: so few people could be told "
            f"apart. What to do: {step}",
        ),
        tag("progress", value=min(done, least), max=least, aria_label=f"{done:,} of {least:,} reports"),
        tag("p", "The page ", _link(visit, "collection", "Collection"), " shows what came in and what was refused."),
    )


def _about(visit: Visit, campaign: Campaign) -> Html:
    odds = visit.site.results.remembered(visit.name, "odds", lambda: odds_in_words(campaign))
    seen = [tag("tr", tag("th", who, scope="row"), tag("td", what)) for who, what in who_sees_what(campaign)]
    return together(
        tag("h2", "The question"),
        facts(
            ("Asked", dates_in_words(campaign)),
            ("Keys", f"{campaign.schema.d:,}: {_some(campaign.schema.keys)}"),
            ("Values", _values(campaign.schema)),
            ("Privacy", f"ε = {decimal_text(campaign.protocol.epsilon)}. {odds}"),
            ("Why this mechanism", campaign.reason),
            ("Whom people can ask", campaign.contact),
            ("Hash of the document", tag("code", campaign.hash)),
        ),
        table("Who can see what of a person", ("Who", "What"), seen),
    )


def _some(keys: Sequence[str]) -> str:
    """The first keys, as many as a reader takes in."""
    return ", ".join(keys[:MOST_NAMED]) + (", …" if len(keys) > MOST_NAMED else "")


def _values(schema: Schema) -> str:
    """Which values people may give, where they are the same for all keys."""
    document = schema.document()
    levels, ends = document.get("levels", ()), [document.get(end) for end in ("low", "high")]
    if any(part is None or isinstance(part, list) for part in levels or ends):
        return "each key has its own"
    if levels:
        return ", ".join(map(str, levels))
    return f"from {ends[0]} to {ends[1]}; values outside count as the nearer end"


def _link(visit: Visit, end: str, word: str) -> Html:
    return tag("a", word, href=visit.to(f"/campaigns/{visit.name}/{end}"))
