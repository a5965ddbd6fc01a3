"""Every key with its intervals: sorted, searched and turned page by page, by the server alone.

The script of the pages only asks for the part that changes; without it the same links load the whole page.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from starlette.responses import HTMLResponse, Response

from keyveil.core.estimates import Estimates
from keyveil.dashboard.layout import HEADERS
from keyveil.dashboard.visits import Visit
from keyveil.display.estimates import listed, panels_of, rows
from keyveil.display.markup import Child, Html, tag

AT_ONCE = 50  # rows

SORTS = ("key", "frequency", "mean", "flag")


def key_table(visit: Visit, estimates: Estimates) -> Html:
    """The table with its search field and the links to sort it."""
    by, falling, find = _wanted(visit, estimates)
    order = visit.site.results.remembered(visit.name, ("order", by, falling), lambda: _order(estimates, by, falling))
    found = _found(estimates, order, find)
    last = max((len(found) - 1) // AT_ONCE, 0)
    start = (visit.number("page", 1, last + 1) - 1) * AT_ONCE
    shown = found[start : start + AT_ONCE]
    chosen = by == "frequency" and falling and not find
    # Keys at the top of a list were chosen by their estimates, so that their intervals are wider.
    told = listed(estimates, min(start + AT_ONCE, estimates.schema.d) if chosen else estimates.schema.d)
    said = f"{len(found):,} of {estimates.schema.d:,} keys" if find else f"{estimates.schema.d:,} keys"
    wide = "; intervals allow for the choice of the most frequent keys" if chosen else ""
    part_shown = "" if len(shown) == len(found) else f", {start + 1:,} to {start + len(shown):,} are shown"
    body = [Html(row) for row in rows(told, shown, inline=False)]
    kinds = [panel.title for panel in panels_of(told, None)]
    titles = [("key", 1), *((kind, 2) for kind in kinds), ("flag", 1)]
    inside = tag(
        "table",
        tag("caption", tag("span", f"{said}{part_shown}{wide}" if len(shown) else said)),
        tag("thead", tag("tr", [_title(visit, name, span, by, falling) for name, span in titles])),
        tag("tbody", body or tag("tr", tag("td", "No key has this in its name.", colspan=6))),
        class_="numbers",
    )
    return tag(
        "section",
        _search(visit, by, falling),
        tag("p", hidden=True, class_="refused", role="alert", data_says=True),
        tag("div", inside, class_="wide", tabindex="0", role="region", aria_label="Every key", data_table=True),
        _turn(visit, start // AT_ONCE, last),
        data_rows=True,
    )


def part(visit: Visit, estimates: Estimates) -> Response:
    """The table alone, for the script."""
    return HTMLResponse(key_table(visit, estimates), headers=dict(HEADERS))


def _wanted(visit: Visit, estimates: Estimates) -> tuple[str, bool, str]:
    usual = "mean" if estimates.frequency.absent else "frequency"
    by = visit.asked("sort", usual)
    by = by if by in SORTS else usual
    falling = visit.asked("order", "down" if by in ("frequency", "mean") else "up") == "down"
    return by, falling, visit.asked("find")


def _order(estimates: Estimates, by: str, falling: bool) -> NDArray[np.intp]:
    """All keys in an order; what is not told comes last either way."""
    if by == "key":
        names = sorted(range(estimates.schema.d), key=lambda at: estimates.schema.keys[at].casefold())
        return np.array(names[::-1] if falling else names, dtype=np.intp)
    if by == "flag":
        severe = np.maximum(estimates.frequency.flag, estimates.mean.flag).astype(np.float64)
        return np.argsort(-severe if falling else severe, kind="stable")
    told = estimates.display()
    column = told.frequency if by == "frequency" else told.mean.in_units
    values = np.where(np.isnan(column.values), np.inf, -column.values if falling else column.values)
    return np.argsort(values, kind="stable")


def _found(estimates: Estimates, order: NDArray[np.intp], find: str) -> NDArray[np.intp]:
    if not find:
        return order
    wanted, keys = find.casefold(), estimates.schema.keys
    return np.array([at for at in order if wanted in keys[at].casefold()], dtype=np.intp)


def _title(visit: Visit, name: str, span: int, by: str, falling: bool) -> Html:
    """The title of a column: a link that sorts by it, or the other way round."""
    here = name == by
    down = not falling if here else name in ("frequency", "mean")
    link = tag(
        "a",
        f"{name} {'▾' if falling else '▴'}" if here else name,
        href=_address(visit, sort=name, order="down" if down else "up", page="1"),
        id=f"sort-{name}",
        data_turn_to=True,
    )
    order = ("descending" if falling else "ascending") if here else None
    return tag("th", link, scope="col", colspan=span, aria_sort=order)


def _search(visit: Visit, by: str, falling: bool) -> Html:
    return tag(
        "form",
        tag("input", type="hidden", name="sort", value=by),
        tag("input", type="hidden", name="order", value="down" if falling else "up"),
        tag("label", "Find a key", for_="find"),
        tag("input", id="find", name="find", type="search", value=visit.asked("find"), autocomplete="off"),
        tag("button", "Find"),
        method="get",
        action=visit.to(f"/campaigns/{visit.name}"),
        class_="inline search",
        role="search",
        data_search=True,
    )


def _turn(visit: Visit, at: int, last: int) -> Html:
    links: list[Child] = []
    if at > 0:
        links.append(tag("a", "Before", href=_address(visit, page=str(at)), id="turn-back", data_turn_to=True))
    if last:
        links.append(tag("span", f"Page {at + 1:,} of {last + 1:,}"))
    if at < last:
        links.append(tag("a", "Next", href=_address(visit, page=str(at + 2)), id="turn-on", data_turn_to=True))
    return tag("nav", links, class_="pages", aria_label="Pages of the table", data_turn=True)


def _address(visit: Visit, **changed: str) -> str:
    kept = {name: visit.asked(name) for name in ("sort", "order", "find", "page", "attackers") if visit.asked(name)}
    return visit.to(f"/campaigns/{visit.name}", **{**kept, **changed})
