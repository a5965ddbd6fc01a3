"""The device's ledger: what was released, what it cost, and how much more may be spent.

An entry is written in the same transaction as the report that it pays for, and before that report is sent. Nothing is
ever given back: not when a report was never sent, nor when the collector refuses it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import date, timedelta
from fractions import Fraction
from functools import lru_cache
from typing import Any

from keyveil.campaign.rounds import RoundDocument
from keyveil.core.canonical import exact
from keyveil.core.epsilon import Number, decimal_text
from keyveil.core.errors import EpsilonError, PrivacyError
from keyveil.core.hints import did_you_mean
from keyveil.device.vault import Vault
from keyveil.privacy.budget import Budget, in_sequence


@dataclass(frozen=True)
class Caps:
    """The most epsilon that may leave the device: in any ``days`` days and ever, about one schema and about all.

    The defaults are tight: a weekly series at epsilon 1 that draws anew every time is answered in two weeks of five,
    and no more after eight answers. ``keyveil campaign check`` says it of every document.
    """

    days: int = 30
    schema_period: Number = 2
    schema_life: Number = 8
    period: Number = 4
    life: Number = 16

    def __post_init__(self) -> None:
        if type(self.days) is not int or self.days < 1:
            raise PrivacyError("budget/invalid", f"A period is a whole number of days from 1, not {self.days!r}.")
        for name in _LIMITS:
            try:
                limit = exact(getattr(self, name))
            except ValueError as reason:
                raise EpsilonError("epsilon/invalid", f"The cap {name} is an exact decimal: {reason}.") from None
            if limit < 0:
                raise EpsilonError("epsilon/invalid", f"The cap {name} cannot be below zero.")
            object.__setattr__(self, name, limit)

    @classmethod
    def read(cls, given: Any, known: Caps | None = None) -> Caps:
        """Caps as they are, or from a mapping of some of their names; the others are those ``known``, or the usual."""
        if isinstance(given, cls):
            return given
        names = [field.name for field in fields(cls)]
        if not isinstance(given, Mapping):
            kind = type(given).__name__
            raise EpsilonError("epsilon/cap", f"Caps are a mapping of {', '.join(names)} to numbers, not {kind}.")
        there_are = f"; there are {', '.join(names)}"
        for name in given:
            if name not in names:
                raise EpsilonError("epsilon/cap", f"There is no cap {name!r}{did_you_mean(name, names) or there_are}.")
        known = known or cls()
        return replace(known, **given) if given else known

    def looser(self, than: Caps) -> list[str]:
        """The caps that give more room than another's."""
        wider = [name for name in _LIMITS if Fraction(getattr(self, name)) > Fraction(getattr(than, name))]
        return wider + ["days"] * (self.days < than.days)

    def document(self) -> dict[str, Any]:
        return {"days": self.days, **{name: decimal_text(Fraction(getattr(self, name))) for name in _LIMITS}}


_LIMITS = tuple(field.name for field in fields(Caps) if field.name != "days")
_USUAL = Caps()


@dataclass(frozen=True)
class LedgerEntry:
    """One report in the ledger. ``free`` ones repeat a standing report bit by bit and cost nothing."""

    day: date
    series: str
    schema: str  # hash
    campaign: str  # hash
    round: int
    mechanism: str
    fingerprint: str
    epsilon: Fraction
    report: bytes  # its id
    free: bool = False

    @classmethod
    def of(
        cls, asked: RoundDocument, series: str, schema: str, day: date, report: bytes, epsilon: Fraction, free: bool
    ) -> LedgerEntry:
        """The entry of a report to a round."""
        mechanism, fingerprint = asked.mechanism.name, asked.mechanism.fingerprint.hex()
        return cls(day, series, schema, asked.campaign, asked.number, mechanism, fingerprint, epsilon, report, free)

    def document(self) -> dict[str, Any]:
        return {
            **{field.name: getattr(self, field.name) for field in fields(self)},
            "day": self.day.isoformat(),
            "epsilon": decimal_text(self.epsilon),
            "report": self.report.hex(),
        }


@dataclass(frozen=True)
class Reservation:
    """The part of a campaign's price that is set aside for its later rounds, and not spent yet."""

    series: str
    campaign: str  # hash
    schema: str  # hash
    epsilon: Fraction


@dataclass(frozen=True)
class Line:
    """A cap beside what was spent of it, in words for the owner."""

    what: str
    budget: Budget

    def __str__(self) -> str:
        return f"{self.what}: {shown(self.budget.spent)} of {decimal_text(self.budget.limit)}"


class Ledger:
    """The entries of a device, and the caps that they are held against; both last as long as its file."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    def open(self, caps: Caps | Mapping[str, Any] | None) -> None:
        """Store the caps that are given, or the usual ones in a file that has none."""
        known = self._caps()
        if caps is not None or known is None:
            self.keep(_USUAL if caps is None else Caps.read(caps, known))

    @property
    def caps(self) -> Caps:
        return self._caps() or _USUAL

    def keep(self, caps: Caps, loosen: bool = False) -> None:
        """Store these caps; looser ones than before are refused without ``loosen``."""
        with self._vault.transaction() as now:
            known = self._caps()
            wider = [] if known is None or loosen else caps.looser(known)
            if wider:
                raise PrivacyError(
                    "budget/looser", f"The device's own {' and '.join(wider)} would be loosened: say so, or leave it."
                )
            now.execute("DELETE FROM caps")
            now.execute("INSERT INTO caps VALUES (?)", (_written(caps),))

    def _caps(self) -> Caps | None:
        row = self._vault.connection.execute("SELECT document FROM caps").fetchone()
        return None if row is None else _read(row[0])

    def debit(self, entry: LedgerEntry) -> None:
        """Write an entry; only within the transaction that also stores the report."""
        row = (
            entry.day.isoformat(),
            entry.series,
            entry.schema,
            entry.campaign,
            entry.round,
            entry.mechanism,
            entry.fingerprint,
            decimal_text(entry.epsilon),
            entry.report,
            int(entry.free),
        )
        self._vault.connection.execute(
            "INSERT INTO entry (day, series, schema, campaign, round, mechanism, fingerprint, epsilon, report, free) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            row,
        )

    def entries(self) -> list[LedgerEntry]:
        """All of them, oldest first."""
        rows = self._vault.connection.execute(
            "SELECT day, series, schema, campaign, round, mechanism, fingerprint, epsilon, report, free "
            "FROM entry ORDER BY number"
        )
        return [
            LedgerEntry(
                date.fromisoformat(day), series, schema, campaign, number, name, print_, Fraction(paid), id_, bool(free)
            )
            for day, series, schema, campaign, number, name, print_, paid, id_, free in rows
        ]

    def reserve(self, series: str, campaign: str, schema: str, epsilon: Fraction, until: date | None) -> None:
        """Set the whole price of a campaign aside, to its last day or, where it has none, until a later one comes."""
        last = None if until is None else until.isoformat()
        self._vault.connection.execute(
            "INSERT OR REPLACE INTO reservation VALUES (?, ?, ?, ?, ?)",
            (series, campaign, schema, decimal_text(epsilon), last),
        )

    def release(self, series: str, besides: str | None = None) -> None:
        """End the reservations of a series, but that of one campaign: it asks nothing more. What is spent stays."""
        self._vault.connection.execute(
            "DELETE FROM reservation WHERE series = ? AND campaign IS NOT ?", (series, besides)
        )

    def reserved(self, day: date) -> list[Reservation]:
        """What is set aside on a day and not spent yet."""
        rows = self._vault.connection.execute(
            "SELECT series, campaign, schema, epsilon FROM reservation WHERE until IS NULL OR until >= ?",
            (day.isoformat(),),
        ).fetchall()
        return [
            Reservation(series, campaign, schema, self.campaign(series, campaign, Fraction(whole)).budget.left)
            for series, campaign, schema, whole in rows
        ]

    def lines(self, schema: str | None, day: date, besides: tuple[str, str] | None = None) -> list[Line]:
        """Every cap that a report about a schema is held against on a day, beside what was spent and is reserved.

        ``besides`` is the series and campaign whose own reservation does not count.
        """
        paid, caps = self.entries(), self.caps
        reserved = [one for one in self.reserved(day) if (one.series, one.campaign) != besides]
        days = f"in {caps.days} days"
        ever: list[LedgerEntry | Reservation] = [*paid, *reserved]
        recent: list[LedgerEntry | Reservation] = [*reserved]
        recent += [one for one in paid if one.day > day - timedelta(days=caps.days)]
        same = [one for one in ever if one.schema == schema]
        same_recent = [one for one in recent if one.schema == schema]
        about = [
            Line(f"about these keys {days}", Budget(Fraction(caps.schema_period), _total(same_recent))),
            Line("about these keys ever", Budget(Fraction(caps.schema_life), _total(same))),
        ]
        overall = [
            Line(f"about everything {days}", Budget(Fraction(caps.period), _total(recent))),
            Line("about everything ever", Budget(Fraction(caps.life), _total(ever))),
        ]
        return overall if schema is None else about + overall

    def campaign(self, series: str, campaign: str, epsilon: Fraction) -> Line:
        """What was spent on a campaign, beside the epsilon that its document states."""
        spent = _total(one for one in self.entries() if (one.series, one.campaign) == (series, campaign))
        return Line("for this campaign", Budget(epsilon, spent))


@lru_cache(maxsize=16)
def _written(caps: Caps) -> str:
    return json.dumps(caps.document())


@lru_cache(maxsize=16)
def _read(text: str) -> Caps:
    return Caps(**json.loads(text))


def refuse_beyond(cost: Fraction, lines: Iterable[Line]) -> None:
    """Refuse a report that would exceed one of the caps."""
    for line in lines:
        if cost > line.budget.left:
            raise PrivacyError(
                "budget/exceeded",
                f"The device does not answer: epsilon {shown(cost)} would exceed what it may release ({line}).",
            )


def shown(epsilon: Fraction) -> str:
    """Epsilon for people: six places, rounded up; what is stored and compared is exact."""
    return decimal_text(Fraction(-(-epsilon.numerator * 10**6 // epsilon.denominator), 10**6))


def _total(entries: Iterable[LedgerEntry | Reservation]) -> Fraction:
    return in_sequence(one.epsilon for one in entries)
