"""Questions beyond frequencies and means: forms for those that the reports can answer, and their answers in words."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from starlette.responses import Response

from keyveil.campaign.documents import Campaign
from keyveil.collector.asking import ask
from keyveil.core.errors import KeyveilError
from keyveil.dashboard.answers import ANSWERS
from keyveil.dashboard.campaign_head import head
from keyveil.dashboard.code import asked, code
from keyveil.dashboard.heat import heat_map
from keyveil.dashboard.layout import choice, field, note, page, question, table
from keyveil.dashboard.refusals import explained
from keyveil.dashboard.visits import Visit
from keyveil.display.answers import told
from keyveil.display.charts import shares
from keyveil.display.markup import Child, Html, tag, together
from keyveil.display.report import contained
from keyveil.learn.distributions import distribution
from keyveil.mechanisms.capabilities import Windows, can
from keyveil.mechanisms.questions import ASKABLE, who_answers

LEVELS = ("0.1", "0.25", "0.5", "0.75", "0.9")  # quantiles that are asked together
MOST_LISTED = 1000  # keys that fields propose
MOST_RANKED = 1000
SPREAD = {  # what the bars of a distribution stand for
    "levels": "",
    "points": "; devices rounded values to these points",
    "cells": "; each bar is a range of values",
}


def show_ask(visit: Visit) -> Response:
    """The forms, and above them the answer to the question in the address."""
    campaign, state, top = head(visit, "ask")
    if state == "draft":
        return page(
            visit,
            campaign.name,
            top,
            note("Nobody has been asked yet: this campaign is a draft, and there is nothing to ask about."),
            _limits(campaign),
        )
    asked = visit.asked("kind")
    body = (
        tag("section", tag("h2", "Answer", id="answer"), _answer(visit, asked), aria_live="polite") if asked else None
    )
    forms = [form(visit, campaign) for kind, form in FORMS.items() if kind in campaign.answers]
    listed = tag("datalist", [tag("option", value=key) for key in campaign.schema.keys[:MOST_LISTED]], id="keys")
    return page(
        visit, campaign.name, top, body, tag("h2", "Ask"), tag("div", forms, class_="cards"), listed, _limits(campaign)
    )


def _answer(visit: Visit, kind: str) -> Html:
    try:
        if kind == "heat":
            return heat_map(visit, visit.number("count", 6, 12))
        if kind not in READERS:
            raise KeyveilError("question/kind", "Choose one of the questions below.")
        document = READERS[kind](visit)
        (rows,) = ask(visit.service, visit.name, [document])
    except KeyveilError as refused:
        return explained(refused)
    words = ["campaign", "ask", visit.name, "--question", json.dumps(document, ensure_ascii=False)]
    lines = [f'answer = {asked(f"/v1/campaigns/{visit.name}/queries", document)}["answers"]']
    drawn = spread(visit, document["keys"][0]) if kind == "quantiles" and told(rows[0]["value"]) else None
    return together(
        ANSWERS[kind](rows), drawn, tag("p", _allowed(visit, kind), class_="small"), code(visit, words, lines)
    )


def _allowed(visit: Visit, kind: str) -> str:
    """What the intervals of an answer allow for."""
    estimates = visit.site.results.estimates(visit.name)
    if kind != "quantiles":
        return contained(estimates)
    mechanism = visit.service.finished(visit.name, None, kind).round.mechanism
    return contained(estimates, population=can(mechanism, Windows) is not None)  # as laws found by EM always do


def spread(visit: Visit, key: str) -> Html:
    """How the values of a key are distributed among those who hold it, as bars."""
    found = visit.service.finished(visit.name, None, "quantiles")
    law = distribution(found.round.mechanism, found.tally).of(key)
    values, parts = law.values.tolist(), [max(float(share), 0.0) for share in law.shares]
    listed = ", ".join(f"{value:.3g}: {part:.0%}" for value, part in zip(values, parts, strict=True))
    said = f"Of those who hold {key}, the share at each value" + SPREAD[law.kind]
    return tag("figure", tag("div", shares(values, parts, f"{said}: {listed}"), class_="wide"), tag("figcaption", said))


# -- what the address asks --------------------------------------------------------------------------------------------


def _conditional(visit: Visit) -> dict[str, Any]:
    given = dict.fromkeys(visit.several("has"), True) | dict.fromkeys(visit.several("lacks"), False)
    return {"kind": "conditional", "key": visit.asked("key"), "given": given}


READERS: dict[str, Callable[[Visit], dict[str, Any]]] = {
    "top": lambda visit: {"kind": "top", "count": visit.number("count", 10, MOST_RANKED)},
    "conditional": _conditional,
    "quantiles": lambda visit: {"kind": "quantiles", "quantiles": list(LEVELS), "keys": [visit.asked("key")]},
    "subset": lambda visit: {"kind": "subset", "keys": visit.several("keys")},
    "compare": lambda visit: {
        "kind": "compare",
        "keys": [visit.asked("first"), visit.asked("second")],
        "of": visit.asked("of", "frequency"),
    },
}


# -- the forms --------------------------------------------------------------------------------------------------------


def _form(visit: Visit, kind: str, title: str, *fields: Child) -> Html:
    hidden = tag("input", type="hidden", name="kind", value=kind)
    button = tag("button", "Ask")
    inside = tag("h3", title), hidden, *fields, button
    return question(visit, f"/campaigns/{visit.name}/ask", *inside, class_="card", aria_label=title)


def _key(label: str, name: str, value: str = "", hint: str = "", id: str = "") -> Html:
    """A field for a key, with the names of all keys to choose from."""
    return field(label, name, value, hint, id=id, list="keys", autocomplete="off")


def _top(visit: Visit, _: Campaign) -> Html:
    count = field(
        "How many", "count", visit.asked("count", "10") if visit.asked("kind") == "top" else "10", inputmode="numeric"
    )
    return _form(visit, "top", "Which keys are most frequent?", count)


def _conditionals(visit: Visit, campaign: Campaign) -> Html:
    held = visit.several("has")
    first = _form(
        visit,
        "conditional",
        "Of those who …, how many …?",
        _key("Of those who hold", "has", held[0] if held else "", id="has-1"),
        _key("and hold", "has", held[1] if len(held) > 1 else "", "May stay empty.", id="has-2"),
        _key("and do not hold", "lacks", next(iter(visit.several("lacks")), ""), "May stay empty."),
        _key("how many hold", "key", visit.asked("key"), id="conditional-key"),
    )
    size = field("Most frequent keys", "count", "6", id="heat-count", inputmode="numeric")
    heat = _form(visit, "heat", "How do keys go together?", size)
    return together(first, heat)


def _quantiles(visit: Visit, _: Campaign) -> Html:
    return _form(visit, "quantiles", "How are the values of a key spread?", _key("Key", "key", visit.asked("key")))


def _subset(visit: Visit, _: Campaign) -> Html:
    lines = "\n".join(visit.several("keys"))
    area = tag(
        "div",
        tag("label", "Keys, one in each line", for_="subset-keys"),
        tag("textarea", lines, id="subset-keys", name="keys", rows="4"),
        class_="field",
    )
    return _form(visit, "subset", "How many of these does a person have on average?", area)


def _compare(visit: Visit, campaign: Campaign) -> Html:
    kinds = {"frequency": "how many hold it", **({"mean": "its mean"} if "compare-means" in campaign.answers else {})}
    return _form(
        visit,
        "compare",
        "Do two keys differ?",
        _key("First", "first", visit.asked("first")),
        _key("Second", "second", visit.asked("second")),
        choice("By", "of", kinds, visit.asked("of")),
    )


FORMS: dict[str, Callable[[Visit, Campaign], Html]] = {
    "top": _top,
    "conditional": _conditionals,
    "quantiles": _quantiles,
    "subset": _subset,
    "compare": _compare,
}


def _limits(campaign: Campaign) -> Html:
    """What these reports can never tell, and what could."""
    rows = [
        tag(
            "tr",
            tag("th", row.meaning, scope="row"),
            tag("td", "yes" if kind in campaign.answers else f"no; that takes {', '.join(who_answers(kind))}"),
        )
        for kind, row in ASKABLE.items()
    ]
    return together(
        tag("h2", "What can be asked"), table("Decided when the campaign was made", ("Question", "Told"), rows)
    )
