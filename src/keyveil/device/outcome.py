"""What became of a call: the state of a report, what it cost, and what of the record did not count."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from typing import Any, ClassVar

from keyveil.core.epsilon import decimal_text
from keyveil.core.rendering import Shown
from keyveil.device.outbox import Parcel
from keyveil.device.preview import Ignored

CLOSED, BETWEEN, NOT_ASKED = "closed", "between", "not-asked"
FREE = Fraction(0)


@dataclass(frozen=True, repr=False)
class Outcome(Shown):
    """What became of a report: ``sent``, ``waiting``, or ``refused`` by the collector; or why there is none.

    ``not-asked`` means that the round is for other people, ``between`` that the next round opens on ``opens`` (or has
    no date yet), and ``closed`` that nothing more is asked.
    """

    shown_as: ClassVar[str] = "outcome"

    series: str
    state: str
    round: int | None = None
    epsilon: Fraction = FREE  # spent by this call
    report: bytes | None = None  # its id
    code: str | None = None
    used: bool = False  # whether this call's record was read; an earlier report is sent again whatever the record is
    ignored: tuple[Ignored, ...] = ()  # what of a record that was read did not count
    opens: date | None = None

    def __repr__(self) -> str:
        which = "" if self.round is None else f", round {self.round}"
        why = "" if self.code is None else f", {self.code}"
        return f"Outcome({self.series}{which}: {self.state}{why}, ε={decimal_text(self.epsilon)} spent)"

    @classmethod
    def of(cls, parcel: Parcel) -> Outcome:
        return cls(parcel.series, parcel.state, parcel.round, FREE, parcel.report, parcel.code)

    def document(self) -> dict[str, Any]:
        return {
            "campaign": self.series,
            "state": self.state,
            "round": self.round,
            "epsilon": decimal_text(self.epsilon),
            "report": None if self.report is None else self.report.hex(),
            "code": self.code,
            "used": self.used,
            "ignored": [one.document() for one in self.ignored],
            "opens": None if self.opens is None else self.opens.isoformat(),
        }
