"""Time as an argument: whoever needs to know what time it is takes a ``Clock``, so that tests can set it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime

Clock = Callable[[], datetime]
"""Gives the present moment, aware of its zone (UTC)."""


def system_clock() -> datetime:
    return datetime.now(UTC)


def today(clock: Clock) -> date:
    """The present day in UTC, whatever the zone of the machine."""
    return clock().astimezone(UTC).date()
