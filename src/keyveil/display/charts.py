"""Small charts as SVG: sizes are attributes and colours are classes, so that a page's style sheet has both themes.

No script and no inline style is used: pages with a strict Content Security Policy can show them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from keyveil.core.estimates import Estimates
from keyveil.display.estimates import Panel, caption, listed, most_frequent, panels_of
from keyveil.display.markup import Html, tag

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def arrivals(buckets: Sequence[Mapping[str, int]], hours: int, width: int = 160, height: int = 36) -> Html | str:
    """How many reports came in each bucket of hours, as bars; empty buckets in between are gaps."""
    if not buckets:
        return "none yet"
    first, last = buckets[0]["bucket"], buckets[-1]["bucket"]
    most, slot = max(one["reports"] for one in buckets), width / max(last - first + 1, 8)
    bars = [
        tag(
            "rect",
            x=f"{slot * (one['bucket'] - first):.2f}",
            y=f"{height - max(height * one['reports'] / most, 1):.2f}",
            width=f"{max(0.85 * slot, 0.5):.2f}",
            height=f"{max(height * one['reports'] / most, 1):.2f}",
            class_="bar",
        )
        for one in buckets
    ]
    told = arrivals_in_words(buckets, hours)
    return tag(
        "svg", tag("title", told), bars, viewBox=f"0 0 {width} {height}", width=width, height=height, role="img",
        aria_label=told, class_="chart",
    )  # fmt: skip


def arrivals_in_words(buckets: Sequence[Mapping[str, int]], hours: int) -> str:
    """How many reports came, from when to when; nothing if none came."""
    if not buckets:
        return ""
    first, last = (_day(buckets[at]["bucket"], hours) for at in (0, -1))
    days = f"from {first} to {last}" if first != last else f"on {first}"
    total, most = sum(one["reports"] for one in buckets), max(one["reports"] for one in buckets)
    return f"{total:,} reports {days}, at most {most:,} in {hours} hours"


def forest(estimates: Estimates, top: int = 12) -> Html:
    """The most frequent keys with their intervals, a row each: frequencies beside means, each on its own scale."""
    shown = most_frequent(estimates, top)
    estimates = listed(estimates, len(shown))
    panels = panels_of(estimates, estimates.truth)
    height = _HEAD + _ROW * len(shown) + _FOOT
    names = [
        tag("text", _short(estimates.schema.keys[at]), x=_NAMES - 10, y=_HEAD + _ROW * row + 15, text_anchor="end")
        for row, at in enumerate(shown)
    ]
    drawn = [_panel(panel, shown, _NAMES + place * (_WIDE + _GAP)) for place, panel in enumerate(panels)]
    told = f"Most frequent keys first, with intervals: {caption(estimates)}. The table has the same numbers."
    width = _NAMES + len(panels) * (_WIDE + _GAP)
    return tag(
        "svg", tag("title", told), names, drawn, viewBox=f"0 0 {width} {height}", width=width, role="img",
        aria_label=told, class_="chart",
    )  # fmt: skip


_NAMES, _WIDE, _GAP, _ROW, _HEAD, _FOOT = 170, 260, 34, 24, 26, 24  # pixels


def _panel(panel: Panel, shown: Any, left: int) -> list[Html]:
    low, high = panel.limits(shown)
    kind = panel.title

    def x(number: float) -> str:
        share = (number - low) / (high - low)
        return f"{left + _WIDE * min(max(float(share), 0.0), 1.0):.1f}"

    bottom = _HEAD + _ROW * len(shown)
    parts = [tag("text", panel.axis, x=left, y=14, class_="quiet")]
    for end in (low, (low + high) / 2, high):
        parts.append(tag("line", x1=x(end), x2=x(end), y1=_HEAD - 4, y2=bottom, class_="axis"))
        anchor = "start" if end == low else "end" if end == high else "middle"
        parts.append(tag("text", f"{end:.3g}", x=x(end), y=bottom + 16, text_anchor=anchor, class_="quiet"))
    for row, at in enumerate(shown):
        y = _HEAD + _ROW * row + 11
        ends = float(panel.drawn.low[at]), float(panel.drawn.high[at])
        value, look = float(panel.drawn.values[at]), "untold" if panel.doubtful(at) else kind
        if not any(math.isnan(end) for end in ends):
            parts.append(tag("line", x1=x(ends[0]), x2=x(ends[1]), y1=y, y2=y, class_=f"{look} interval"))
        if not math.isnan(value):
            parts.append(tag("circle", cx=x(value), cy=y, r=4, class_=f"{look} point"))
    return parts


def _short(key: str) -> str:
    return key if len(key) <= 22 else key[:21] + "…"


def shares(labels: Sequence[str], parts: Sequence[float], told: str) -> Html:
    """Shares of a whole side by side, as bars with their labels."""
    width, height, most = 52, 110, max([*parts, 1e-9])
    bars = [
        (
            tag("rect", x=place * width, y=f"{height - 90 * part / most:.1f}", width=width - 6,
                height=f"{90 * part / most:.1f}", class_="bar"),
            tag("text", f"{part:.0%}", x=place * width + 23, y=f"{height - 90 * part / most - 4:.1f}",
                text_anchor="middle"),
            tag("text", label, x=place * width + 23, y=height + 16, text_anchor="middle", class_="quiet"),
        )
        for place, (label, part) in enumerate(zip(labels, parts, strict=True))
    ]  # fmt: skip
    total = width * len(parts)
    return tag(
        "svg", tag("title", told), bars, viewBox=f"0 0 {total} {height + 22}", width=total, role="img",
        aria_label=told, class_="chart",
    )  # fmt: skip


def _day(bucket: int, hours: int) -> str:
    return f"{_EPOCH + timedelta(hours=hours * bucket):%Y-%m-%d}"
