"""Raw against processed: what a method of post-processing changed, key by key."""

from __future__ import annotations

import numpy as np
from starlette.responses import Response

from keyveil.core.errors import KeyveilError
from keyveil.dashboard.campaign_head import head
from keyveil.dashboard.code import asked, code
from keyveil.dashboard.layout import choice, facts, note, numbers, page, question, table
from keyveil.dashboard.refusals import explained
from keyveil.dashboard.visits import Visit
from keyveil.display.markup import Html, tag, together
from keyveil.display.report import contained
from keyveil.learn.methods import METHODS
from keyveil.learn.processed import SAME

USUAL = "norm-sub"
MOST_SHOWN = 50
MEANINGS = {  # docs/consistency.md says more of each
    "base": "leaves everything as it is",
    "base-pos": "negative values become 0",
    "post-pos": "negative answers become 0, frequencies stay",
    "base-cut": "what noise alone explains becomes 0",
    "norm": "all values shift to the right sum",
    "norm-mul": "positive values are scaled to the right sum",
    "norm-sub": "the nearest values that are possible",
    "norm-cut": "the largest values, as long as the sum has room",
    "mle-apx": "the most likely values, noise taken as normal",
    "mle": "the most likely values, by the exact law",
    "gauss": "as if frequencies scatter around a common one",
    "gauss-ns": "norm-sub after gauss",
    "power": "as if frequencies follow a power law",
    "power-ns": "norm-sub after power",
    "bayes": "drawn towards what other keys have",
}
CHOICES = {name: f"{name}: {MEANINGS[name]}" for name in (*METHODS, "bayes")}


def show_processed(visit: Visit) -> Response:
    """A method, what it did to the whole, and the keys that it moved most."""
    campaign, state, top = head(visit, "processed")
    method = visit.asked("method", USUAL)
    chooser = question(
        visit,
        f"/campaigns/{visit.name}/processed",
        choice("Method", "method", CHOICES, method, "Estimates are noisy: some are below 0, and their sum may be "
               "impossible. A method makes them possible, each in its own way."),
        tag("button", "Show"),
        class_="card",
    )  # fmt: skip
    try:
        draft = note("Nobody has been asked yet: this campaign is a draft.")
        body: Html = draft if state == "draft" else _changes(visit, method)
    except KeyveilError as refused:
        body = explained(refused)
    return page(visit, campaign.name, top, chooser, body)


def _changes(visit: Visit, method: str) -> Html:
    results = visit.site.results
    raw, processed = results.estimates(visit.name), results.estimates(visit.name, method)
    before, after = raw.frequency.values, processed.frequency.values
    with np.errstate(invalid="ignore"):
        change = after - before
    moved = np.flatnonzero(np.abs(np.nan_to_num(change)) > SAME)
    order = moved[np.argsort(-np.abs(change[moved]), kind="stable")][:MOST_SHOWN]
    keys = raw.schema.keys
    rows = [
        tag(
            "tr",
            tag("th", keys[at], scope="row"),
            tag("td", str(raw.frequency[keys[at]]), class_="number"),
            tag("td", str(processed.frequency[keys[at]]), class_="number"),
            tag("td", f"{change[at]:+.4f}", class_="number"),
        )
        for at in order
    ]
    shown = f"The {len(order):,} keys that moved most" if len(moved) > len(order) else "Keys that moved"
    words = ["campaign", "estimates", visit.name, "--postprocess", method, "--raw"]
    return together(
        tag("p", f"{method} moved {len(moved):,} of {raw.schema.d:,} frequencies.", class_="finding"),
        facts(
            ("Sum of all frequencies", f"{np.nansum(before):.4f} raw, {np.nansum(after):.4f} processed"),
            ("Largest change", f"{np.abs(change[order[0]]):.4f}" if len(order) else "none"),
            ("Keys below 0", f"{np.count_nonzero(before < 0):,} raw, {np.count_nonzero(after < 0):,} processed"),
        ),
        rows and table(shown, ("Key", numbers("Raw"), numbers("Processed"), numbers("Change")), rows),
        tag("p", "Raw values are unbiased. A value that was moved is biased, has no standard error and keeps the "
            "interval of the raw one, widened where it would not hold the value."),
        tag("p", contained(raw), class_="small"),
        code(visit, words, [f"answer = {asked(f'/v1/campaigns/{visit.name}/estimates?postprocess={method}')}"]),
    )  # fmt: skip
