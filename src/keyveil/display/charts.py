"""Small charts as SVG: sizes are attributes and colours are classes, so that a page's style sheet has both themes.

No script and no inline style is used: pages with a strict Content Security Policy can show them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from keyveil.core.estimates import Estimates
from keyveil.core.text import many
from keyveil.display.estimates import Panel, caption, listed, most_frequent, panels_of
from keyveil.display.markup import Html, tag

MOST_NAMED = 12  # bars

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
    ground = tag("line", x1=0, x2=width, y1=height + 0.5, y2=height + 0.5, class_="axis")
    return tag(
        "svg", tag("title", told), bars, ground, viewBox=f"0 0 {width} {height + 1}", width=width, height=height + 1,
        role="img", aria_label=told, class_="chart",
    )  # fmt: skip


def days_of(buckets: Sequence[Mapping[str, int]], hours: int) -> str:
    """The days from the first bucket to the last; nothing if nothing came."""
    if not buckets:
        return ""
    first, last = (_day(buckets[at]["bucket"], hours) for at in (0, -1))
    return f"{first} to {last}" if first != last else first


def arrivals_in_words(buckets: Sequence[Mapping[str, int]], hours: int) -> str:
    """How many reports came, from when to when; nothing if none came."""
    if not buckets:
        return ""
    days = days_of(buckets, hours)
    total, most = sum(one["reports"] for one in buckets), max(one["reports"] for one in buckets)
    return f"{many(total, 'report')} {'from' if ' to ' in days else 'on'} {days}, at most {most:,} in {hours} hours"


def forest(estimates: Estimates, top: int = 12) -> Html:
    """The most frequent keys with their intervals, a row each: frequencies beside means, or above them on a phone."""
    shown = most_frequent(estimates, top)
    estimates = listed(estimates, len(shown))
    names = [_short(estimates.schema.keys[at]) for at in shown]
    panels = panels_of(estimates, estimates.truth)
    said = f"Most frequent keys first, with intervals: {caption(estimates)}. The table has the same numbers."
    return tag("div", [_panel(panel, shown, names, f"{panel.axis}. {said}") for panel in panels], class_="panels")


_NAMES, _LETTER, _WIDE, _GAP, _ROW, _HEAD, _FOOT = 170, 7, 260, 34, 24, 26, 24  # pixels


def _panel(panel: Panel, shown: Any, names: Sequence[str], told: str) -> Html:
    low, high = panel.limits(shown)
    kind = panel.title
    left = min(_LETTER * max(map(len, names), default=0) + 24, _NAMES)

    def x(number: float) -> str:
        share = (number - low) / (high - low)
        return f"{left + _WIDE * min(max(float(share), 0.0), 1.0):.1f}"

    bottom = _HEAD + _ROW * len(shown)
    parts = [tag("text", panel.axis, x=left, y=14, class_="quiet")]
    for at in _ticks(low, high):
        parts.append(tag("line", x1=x(at), x2=x(at), y1=_HEAD - 4, y2=bottom, class_="axis"))
        parts.append(tag("text", f"{at:.10g}", x=x(at), y=bottom + 16, text_anchor="middle", class_="quiet"))
    for row, at in enumerate(shown):
        y = _HEAD + _ROW * row + 11
        parts.append(tag("text", names[row], x=left - 10, y=y + 4, text_anchor="end"))
        look = "untold" if panel.doubtful(at) else kind
        if panel.attacked is not None and not any(math.isnan(end[at]) for end in panel.attacked):
            first, last = (x(float(end[at])) for end in panel.attacked)
            parts.append(tag("line", x1=first, x2=last, y1=y, y2=y, class_=f"{look} crafted"))
        ends = float(panel.drawn.low[at]), float(panel.drawn.high[at])
        value = float(panel.drawn.values[at])
        if not any(math.isnan(end) for end in ends):
            parts.append(tag("line", x1=x(ends[0]), x2=x(ends[1]), y1=y, y2=y, class_=f"{look} interval"))
        if not math.isnan(value):
            parts.append(tag("circle", cx=x(value), cy=y, r=4, class_=f"{look} point"))
    width = left + _WIDE + _GAP
    return tag(
        "svg", tag("title", told), parts, viewBox=f"0 0 {width} {bottom + _FOOT}", width=width, role="img",
        aria_label=told, class_="chart",
    )  # fmt: skip


def _ticks(low: float, high: float) -> list[float]:
    """Three to six round numbers from the lowest to the highest."""
    rough = (high - low) / 5
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * one for one in (1, 2, 5, 10) if unit * one >= rough * (1 - _CLOSE))
    first, last = math.ceil(low / step - _CLOSE), math.floor(high / step + _CLOSE)
    return [number * step for number in range(first, last + 1)]


_CLOSE = 1e-9  # of a step, by which a number may miss another that it is equal to


def _short(key: str) -> str:
    return key if len(key) <= 22 else key[:21] + "…"


def shares(values: Sequence[float], parts: Sequence[float], told: str) -> Html:
    """Shares of a whole side by side, as bars; few bars are named by their values, many stand on an axis."""
    left, wide, high, top = 48, 600, 110, 10
    slot, most = wide / max(len(parts), 8), max([*parts, 1e-9])
    middles = [left + slot * (place + 0.5) for place in range(len(parts))]
    drawn = []
    for at in _ticks(0.0, most):
        y = f"{top + high * (1 - at / most):.1f}"
        drawn.append(tag("line", x1=left, x2=left + wide, y1=y, y2=y, class_="axis"))
        drawn.append(tag("text", f"{100 * at:.10g} %", x=left - 6, y=float(y) + 4, text_anchor="end", class_="quiet"))
    for middle, part in zip(middles, parts, strict=True):
        tall = high * part / most
        drawn.append(
            tag("rect", x=f"{middle - 0.4 * slot:.2f}", y=f"{top + high - tall:.2f}", width=f"{0.8 * slot:.2f}",
                height=f"{tall:.3f}", class_="bar")
        )  # fmt: skip
    for at in values if len(values) <= MOST_NAMED else _ticks(values[0], values[-1]):
        x = f"{np.interp(at, values, middles):.1f}"
        drawn.append(tag("text", f"{at:.4g}", x=x, y=top + high + 16, text_anchor="middle", class_="quiet"))
    width = left + wide + 16
    return tag(
        "svg", tag("title", told), drawn, viewBox=f"0 0 {width} {top + high + 24}", width=width, role="img",
        aria_label=told, class_="chart",
    )  # fmt: skip


def _day(bucket: int, hours: int) -> str:
    return f"{_EPOCH + timedelta(hours=hours * bucket):%Y-%m-%d}"
