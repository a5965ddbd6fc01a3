"""How keys go together: of those who hold one key, the share that holds another; hatched where chance may do it."""

from __future__ import annotations

import json
from itertools import combinations
from typing import Any

from keyveil.collector.asking import ask
from keyveil.dashboard.code import code
from keyveil.dashboard.layout import note
from keyveil.dashboard.visits import Visit
from keyveil.display.answers import share_text, told
from keyveil.display.estimates import most_frequent
from keyveil.display.markup import Html, tag, together
from keyveil.display.report import contained
from keyveil.learn.conditionals import Conditionals

LEVELS = 5  # shades
CONFIDENCE = 0.95


def heat_map(visit: Visit, count: int) -> Html:
    """A table of shares: rows are whom it is about, columns what they hold. Every cell says its interval."""
    estimates = visit.site.results.estimates(visit.name)
    shares = {
        estimates.schema.keys[at]: float(estimates.frequency.values[at])
        for at in most_frequent(estimates, count)
        if estimates.told[at]
    }
    keys = list(shares)
    if len(keys) < 2:
        return note("Fewer than two keys are told from absent yet: more people must report.")
    pairs = [(one, other) for one in keys for other in keys if one != other]
    questions = [{"kind": "conditional", "key": other, "given": {one: True}} for one, other in pairs]
    found = {
        pair: rows[0]["frequency"] for pair, rows in zip(pairs, ask(visit.service, visit.name, questions), strict=True)
    }
    sure = dependent_pairs(visit, keys)
    path = f"/v1/campaigns/{visit.name}/queries"
    words = ["campaign", "ask", visit.name]
    words += [word for one in questions for word in ("--question", json.dumps(one, ensure_ascii=False))]
    lines = [
        f"keys = {keys!r}",
        "answer = {",
        f'    (one, other): ask({path!r}, {{"kind": "conditional", "key": other, "given": {{one: True}}}})["answers"]',
        "    for one in keys for other in keys if one != other",
        "}",
    ]
    body = [
        tag(
            "tr",
            tag("th", one, scope="row"),
            [
                _cell(one, other, found.get((one, other)), shares[other], frozenset((one, other)) in sure)
                for other in keys
            ],
        )
        for one in keys
    ]
    return together(
        tag("p", "Of those who hold the key of a row, the share that holds the key of a column. Hatched: these two "
            f"keys may have nothing to do with each other. All {len(keys) * (len(keys) - 1) // 2} pairs are tested "
            f"together: of those that are shaded, at most {100 * (1 - CONFIDENCE):.0f} % are expected to be there by "
            "chance. The interval in a cell is for that cell alone."),
        tag(
            "div",
            tag(
                "table",
                tag("caption", tag("span", f"The {len(keys)} most frequent keys that are told from absent")),
                tag("thead", tag("tr", tag("td"), [tag("th", key, scope="col") for key in keys])),
                tag("tbody", body),
                class_="heat",
            ),
            class_="wide",
            tabindex="0",
            role="region",
            aria_label="How keys go together",
        ),
        tag("p", contained(estimates), class_="small"),
        code(visit, words, lines),
    )  # fmt: skip


def dependent_pairs(visit: Visit, keys: list[str]) -> set[frozenset[str]]:
    """The pairs of keys that do not go together by chance alone, decided over all of them at once."""
    found, pairs = visit.service.finished(visit.name, None, "conditional"), list(combinations(keys, 2))
    told_pairs = Conditionals(
        found.round.mechanism, found.tally, visit.service.min_reports(visit.name), CONFIDENCE, population=True
    ).dependent(pairs)
    return {frozenset(pair) for pair, sure in zip(pairs, told_pairs, strict=True) if sure}


def _cell(one: str, other: str, numbers: dict[str, Any] | None, usual: float, dependent: bool) -> Html:
    if numbers is None:
        return tag("td", "–", title=one)
    if not told(numbers) or numbers["flag"] == "wide":
        return tag("td", "not told", class_="untold", title=f"{numbers['flag']}: {share_text(numbers)}")
    share = min(max(numbers["value"], 0.0), 1.0)
    shade = f"level{min(int(share * LEVELS), LEVELS - 1)}" if dependent else "untold"
    title = f"Of those who hold {one}, {share_text(numbers)} hold {other}; of all people {usual:.0%}"
    ends = f"{100 * max(numbers['low'], 0):.0f}–{100 * min(numbers['high'], 1):.0f}"
    return tag("td", f"{share:.0%} ", tag("small", ends), class_=shade, title=title)
