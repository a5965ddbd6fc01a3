"""Small charts as SVG: sizes are attributes and colours are classes, so that a page's style sheet has both themes.

No script and no inline style is used: pages with a strict Content Security Policy can show them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

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
    total = sum(one["reports"] for one in buckets)
    days = f"{_day(first, hours)} to {_day(last, hours)}" if first != last else str(_day(first, hours))
    told = f"{total:,} reports from {days}, at most {most:,} in {hours} hours"
    return tag(
        "svg", tag("title", told), bars, viewBox=f"0 0 {width} {height}", width=width, height=height, role="img",
        aria_label=told, class_="chart",
    )  # fmt: skip


def _day(bucket: int, hours: int) -> str:
    return f"{_EPOCH + timedelta(hours=hours * bucket):%Y-%m-%d}"
