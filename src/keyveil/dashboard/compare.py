"""What has changed from one campaign of a series to another, with a test for each key."""

from __future__ import annotations

import numpy as np
from starlette.responses import Response

from keyveil.campaign.series import refuse_same_reports
from keyveil.core.errors import KeyveilError
from keyveil.core.text import many
from keyveil.dashboard.about import dates_in_words
from keyveil.dashboard.campaign_head import head
from keyveil.dashboard.code import asked, code, fetched
from keyveil.dashboard.layout import choice, note, numbers, page, question, table
from keyveil.dashboard.refusals import explained
from keyveil.dashboard.visits import Visit
from keyveil.display.charts import days_of
from keyveil.display.markup import Html, tag, together
from keyveil.display.report import contained
from keyveil.learn.comparisons import Difference, Of, compare_campaigns

MOST_COMPARED = 200  # keys, the most frequent ones
LEVEL = 0.05  # chance that any key is said to have changed where none has


def show_compare(visit: Visit) -> Response:
    """A choice among the other campaigns of the series, and the changes since the one that is chosen."""
    campaign, _, top = head(visit, "compare")
    others = [one for one in visit.service.campaigns() if one["name"] == campaign.name and one["hash"] != campaign.hash]
    others = [one for one in others if one["state"] != "draft"]
    if not others:
        alone = "This is the only campaign of its name so far. A change is shown once there are two."
        return page(visit, campaign.name, top, note(alone))
    listed = {one["hash"]: _told_apart(visit, one["hash"]) for one in others}
    chosen = visit.asked("with", others[-1]["hash"])
    kinds = {"frequency": "how many hold each key", "mean": "the mean of each key"}
    chooser = question(
        visit,
        f"/campaigns/{visit.name}/compare",
        choice("Compare with", "with", listed, chosen),
        choice("By", "of", kinds, visit.asked("of")),
        tag("button", "Compare"),
        class_="card",
    )
    try:
        body = _changes(visit, chosen, "mean" if visit.asked("of") == "mean" else "frequency")
    except KeyveilError as refused:
        body = explained(refused)
    return page(visit, campaign.name, top, chooser, body)


def _told_apart(visit: Visit, hash: str) -> str:
    """A campaign by its days, or by those on which reports came, and by its hash."""
    campaign, status = visit.service.campaign(hash), visit.service.status(hash)
    came = days_of(status["arrivals"], status["bucket_hours"])
    days = dates_in_words(campaign) if campaign.dates is not None else came or "nothing came yet"
    return f"{days} · {many(status['reports'], 'report')} · {hash[:12]}"


def _changes(visit: Visit, other: str, of: Of) -> Html:
    visit.site.access.check(visit.holder, "analyst", other)
    mine, theirs = visit.service.campaign(visit.name), visit.service.campaign(other)
    refuse_same_reports(mine, theirs)
    now, before = (visit.site.results.estimates(one.hash) for one in (mine, theirs))
    both = [key for key in mine.schema.keys if key in set(theirs.schema.keys)]
    if len(both) > MOST_COMPARED:
        size = now.frequency.values + before.frequency.values if mine.schema.keys == theirs.schema.keys else None
        order = np.argsort(-size, kind="stable") if size is not None else np.arange(len(both))
        both = [mine.schema.keys[at] for at in order[:MOST_COMPARED]]
    found = {key: compare_campaigns(now, before, key, of) for key in both}
    changed = [key for key, one in found.items() if one.p_value * len(found) < LEVEL]
    said = (
        f"{', '.join(changed[:5])}{' and others' if len(changed) > 5 else ''} changed."
        if changed
        else "No change can be told."
    )
    listed = sorted(found.items(), key=lambda one: np.nan_to_num(one[1].p_value, nan=2.0))
    rows = [_row(key, one, len(found)) for key, one in listed]
    both_asked = (("now", mine), ("before", theirs))
    reads = "Estimates.from_document({estimates}, {campaign}.schema)"
    lines = [
        *(
            f"{name} = " + reads.format(estimates=asked(f"/v1/campaigns/{one.hash}/estimates"), campaign=fetched(one))
            for name, one in both_asked
        ),
        f"answer = {{key: compare_campaigns(now, before, key, {of!r}) for key in now.schema.keys}}",
    ]
    imports = [
        "from keyveil import Estimates",
        "from keyveil.campaign.documents import Campaign",
        "from keyveil.learn.comparisons import compare_campaigns",
    ]
    words = ["campaign", "compare", theirs.hash[:12], mine.hash[:12], "--of", of]
    return together(
        tag("p", said, class_="finding"),
        table(
            f"Change of the {of}, this campaign minus the other; p-values are multiplied by the {len(found):,} tests",
            ("Key", numbers("Change"), numbers("p-value"), "Verdict"),
            rows,
        ),
        tag("p", f"A change has the noise of both campaigns. {contained(now)}", class_="small"),
        code(visit, words, lines, imports),
    )


def _row(key: str, one: Difference, tests: int) -> Html:
    chance = min(one.p_value * tests, 1.0)
    known = not np.isnan(one.p_value)
    verdict = "unknown" if not known else "changed" if chance < LEVEL else "may be the same"
    return tag(
        "tr",
        tag("th", key, scope="row"),
        tag("td", str(one.difference) if known else "not told", class_="number" if known else "number doubtful"),
        tag("td", f"{chance:.2g}" if known else "–", class_="number"),
        tag("td", verdict),
    )
