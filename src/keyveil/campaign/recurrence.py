"""How a campaign returns: how often, until when, and how long one draw of a device stands.

A series asks the same question again under one name. Its campaigns have the same terms (all of the document but the
dates), and what is said here is part of them. Nothing here looks at a record: whether a device answers, and whether it
draws anew, follows from the calendar and from coins (docs/decisions/0023-series.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import date
from typing import Any

from keyveil.core.errors import CampaignError

MOST_DAYS = 3660
MOST_ONE_IN = 1000
_LAST = date.max.toordinal()


@dataclass(frozen=True)
class Period:
    """Days, first and last included, in which a device sends the one report that it drew in them."""

    first: date
    last: date

    def __str__(self) -> str:
        return f"{self.first} to {self.last}"

    def document(self) -> dict[str, str]:
        """The first and the last day, for programs."""
        return {"first": self.first.isoformat(), "last": self.last.isoformat()}


def ends(days: Period | None) -> tuple[date | None, date | None]:
    """The first and the last of some days, or nothing for both."""
    return (None, None) if days is None else (days.first, days.last)


@dataclass(frozen=True)
class Recurrence:
    """The terms of a series; a campaign that says none of them draws a new report from everybody.

    ``every_days`` is the least number of days between the first days of two campaigns; the last campaign closes by
    ``series_until``. ``renew_days`` and ``renew_from`` cut the calendar into periods that are the same for everybody.
    With ``one_in`` a device answers one of so many consecutive campaigns.
    """

    every_days: int | None = None
    series_until: date | None = None
    renew_days: int | None = None
    renew_from: date | None = None
    one_in: int | None = None

    def __post_init__(self) -> None:
        if (self.renew_days is None) != (self.renew_from is None):
            raise _refused("periods", "Periods need both renew_days and renew_from, the first day of one of them.")
        if self.renew_days is not None and self.one_in is not None:
            raise _refused("periods", "Give renew_days or one_in, not both: each alone bounds what a device spends.")
        if self.series_until is not None and self.every_days is None:
            raise _refused("every", "A series that has a last day says how often it returns: every_days.")

    def period(self, day: date) -> Period | None:
        """The period that a day lies in; none if the terms have no periods."""
        if self.renew_days is None or self.renew_from is None:
            return None
        start = self.renew_from.toordinal()
        first = start + (day.toordinal() - start) // self.renew_days * self.renew_days
        last = first + self.renew_days - 1
        return Period(date.fromordinal(max(first, 1)), date.fromordinal(min(last, _LAST)))

    def renewed_from(self, closed: date) -> date | None:
        """The first day on which no device sends a report that it could have sent by the end of ``closed``.

        None where every campaign is drawn anew.
        """
        period = self.period(closed)
        return None if period is None else date.fromordinal(min(period.last.toordinal() + 1, _LAST))

    def document(self) -> dict[str, Any]:
        """What is said, as it stands in a campaign's document; what is not said is left out."""
        said = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            name: value.isoformat() if isinstance(value, date) else value
            for name, value in said.items()
            if value is not None
        }


ONCE = Recurrence()
FIELDS = frozenset(field.name for field in fields(Recurrence))


def read_recurrence(document: Mapping[str, Any]) -> Recurrence:
    """The recurrence in the fields of a campaign's document."""
    for name in sorted(FIELDS & set(document)):  # in order, so that the refusal's code is always the same
        if document[name] is None:
            raise _refused(name.replace("_", "-"), f"{name} is left out where it is not wanted, not null.")

    def whole(name: str, low: int, high: int) -> int | None:
        return read_whole(document[name], name, low, high) if name in document else None

    return Recurrence(
        every_days=whole("every_days", 1, MOST_DAYS),
        series_until=read_day(document.get("series_until")),
        renew_days=whole("renew_days", 1, MOST_DAYS),
        renew_from=read_day(document.get("renew_from")),
        one_in=whole("one_in", 2, MOST_ONE_IN),
    )


def read_day(text: Any) -> date | None:
    """A day in its one spelling; nothing for nothing."""
    if text is None:
        return None
    try:
        day = date.fromisoformat(text)
    except (TypeError, ValueError):
        raise _refused("dates", f"A day is written like 2026-11-20, not {text!r}.") from None
    if day.isoformat() != text:
        raise _refused("dates", f"A day is written like 2026-11-20, not {text!r}.")
    return day


def read_whole(given: Any, what: str, low: int, high: int) -> int:
    """A whole number within its limits."""
    if not isinstance(given, int) or isinstance(given, bool) or not low <= given <= high:
        raise _refused(what.replace("_", "-"), f"{what} is a whole number from {low} to {high}, not {given!r}.")
    return given


def _refused(code: str, sentence: str) -> CampaignError:
    return CampaignError(f"campaign/{code}", sentence)
