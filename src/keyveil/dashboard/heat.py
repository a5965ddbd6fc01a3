"""How keys go together: of those who hold one key, the share that holds another; hatched where chance may do it."""

from __future__ import annotations

from typing import Any

from keyveil.collector.asking import ask
from keyveil.dashboard.layout import note
from keyveil.dashboard.visits import Visit
from keyveil.display.answers import share_text, told
from keyveil.display.estimates import most_frequent
from keyveil.display.markup import Html, tag, together

LEVELS = 5  # shades


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
    body = [
        tag(
            "tr",
            tag("th", one, scope="row"),
            [_cell(one, other, found.get((one, other)), shares[other]) for other in keys],
        )
        for one in keys
    ]
    return together(
        tag("p", "Of those who hold the key of a row, the share that holds the key of a column. Hatched: the "
            "interval holds the share among all people, so that these keys may have nothing to do with each other."),
        tag(
            "div",
            tag(
                "table",
                tag("caption", f"The {len(keys)} most frequent keys that are told from absent"),
                tag("thead", tag("tr", tag("td"), [tag("th", key, scope="col") for key in keys])),
                tag("tbody", body),
                class_="heat",
            ),
            class_="wide",
            tabindex="0",
            role="region",
            aria_label="How keys go together",
        ),
    )  # fmt: skip


def _cell(one: str, other: str, numbers: dict[str, Any] | None, usual: float) -> Html:
    if numbers is None:
        return tag("td", "–", title=one)
    if not told(numbers) or numbers["flag"] == "wide":
        return tag("td", "not told", class_="untold", title=f"{numbers['flag']}: {share_text(numbers)}")
    share = min(max(numbers["value"], 0.0), 1.0)
    dependent = not numbers["low"] <= usual <= numbers["high"]
    shade = f"level{min(int(share * LEVELS), LEVELS - 1)}" if dependent else "untold"
    title = f"Of those who hold {one}, {share_text(numbers)} hold {other}; of all people {usual:.0%}"
    ends = f"{100 * max(numbers['low'], 0):.0f}–{100 * min(numbers['high'], 1):.0f}"
    return tag("td", f"{share:.0%} ", tag("small", ends), class_=shade, title=title)
