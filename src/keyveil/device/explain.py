"""A campaign in words for the person who decides: what, why, at what price, how often, until when, and to whom.

The price is computed on the device, from the channel that it would run; what the collector states is shown beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from textwrap import wrap
from typing import Any

from keyveil.campaign.documents import Campaign
from keyveil.campaign.rounds import RoundDocument
from keyveil.campaign.verification import Notice
from keyveil.campaign.wire import Batch
from keyveil.core.canonical import decimal
from keyveil.core.epsilon import decimal_text, read_fraction
from keyveil.core.report import PUBLIC_BYTES
from keyveil.core.text import plain
from keyveil.device.consent import GIVEN, Terms
from keyveil.device.ledger import Line, shown
from keyveil.mechanisms.capabilities import Capped, can
from keyveil.mechanisms.questions import ASKABLE

_KEYS = 12  # so many are named; of the others only their number
_GAP = ",\n             "


@dataclass(frozen=True)
class Explanation:
    """What a campaign asks, and what answering it now would mean."""

    series: str
    notice: Notice
    spent: tuple[Line, ...]
    consent: str | None  # given, withdrawn, or nothing said yet
    agreed: bool  # whether that consent covers these terms
    refusal: str | None  # why this device would not answer
    draws: bool = False  # whether answering now would draw a new report, and pay for it
    remarks: tuple[str, ...] = ()  # about the device's file and its clock
    packed: bool = True  # the form of its uploads

    @property
    def campaign(self) -> Campaign:
        return self.notice.campaign

    @property
    def open_round(self) -> RoundDocument | None:
        return self.notice.open_round

    @property
    def terms(self) -> Terms:
        """What one consents to after reading this."""
        return Terms.of(self.campaign)

    @property
    def epsilon(self) -> Fraction | None:
        """What the open round costs, by this device's own computation."""
        return None if self.open_round is None else self.open_round.cost

    @property
    def wire_bytes(self) -> int | None:
        """Bytes of the upload's body, the same for every record."""
        if self.open_round is None:
            return None
        payload = bytes(self.open_round.report_bytes)
        batch = Batch(self.open_round.number, self.open_round.hash, (bytes(PUBLIC_BYTES),), (payload,))
        return len(batch.to_packed() if self.packed else batch.to_json())

    @property
    def until(self) -> str | None:
        """The last day on which it may ask anything, if it named one."""
        last = self.campaign.until
        return None if last is None else last.isoformat()

    def document(self) -> dict[str, Any]:
        """The same for programs; no floats."""
        current, campaign = self.open_round, self.campaign
        return {
            "campaign": campaign.document(),
            "hash": campaign.hash,
            "state": self.notice.state,
            "round": None if current is None else current.number,
            "mechanism": None if current is None else current.mechanism.name,
            "stated_epsilon": None if current is None else decimal_text(current.mechanism.epsilon),
            "computed_epsilon": None if self.epsilon is None else decimal_text(self.epsilon),
            "report_bytes": None if current is None else current.report_bytes,
            "upload_bytes": self.wire_bytes,
            "until": self.until,
            "spent": {
                line.what: {"spent": decimal_text(line.budget.spent), "cap": decimal_text(line.budget.limit)}
                for line in self.spent
            },
            "consent": self.consent,
            "agreed": self.agreed,
            "refusal": self.refusal,
            "draws": self.draws,
            "remarks": list(self.remarks),
        }

    @property
    def text(self) -> str:
        """The page that a person reads before agreeing; of many keys it names some, and says how many it does not."""
        return self.page()

    @property
    def unnamed(self) -> int:
        """How many keys ``text`` does not name."""
        return max(0, self.campaign.schema.d - _KEYS)

    def page(self, every_key: bool = False) -> str:
        """``text``, if wanted with the name of every key."""
        campaign, epsilon = self.campaign, decimal_text(self.campaign.protocol.epsilon)
        lines = [
            f"{campaign.name} ({campaign.hash[:8]}…)",
            "",
            f"Why          {plain(campaign.purpose)}",
            f"What         {self._keys(every_key)}",
            f"How often    {self._rounds()}",
            f"Until        {self.until or 'no last day is named'}",
            *self._series(),
            f"Privacy      epsilon {epsilon} for the whole campaign ({campaign.protocol_name})",
            *self._price(),
            f"Kept         single reports for at most {campaign.retention_days} days",
            f"Shown        nothing before {campaign.min_reports} people have reported",
            *self._answers(),
            f"Enrolment    {campaign.enrolment}",
            f"Contact      {plain(campaign.contact) or 'none is named'}",
            "Spent        " + "\n             ".join(str(line) for line in self.spent),
            f"Consent      {self._consent()}",
        ]
        lines += [f"Note         {remark}" for remark in self.remarks]
        if self.refusal is not None:
            lines.append(f"Verdict      {self.refusal}")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text

    def _consent(self) -> str:
        if self.consent == GIVEN and not self.agreed:
            return "given to something else: this campaign has changed"
        return self.consent or "not given yet"

    def _keys(self, every_key: bool) -> str:
        schema = self.campaign.schema
        named = ", ".join(plain(key) for key in schema.keys[: None if every_key else _KEYS])
        if self.unnamed and not every_key:
            named += f", and {self.unnamed} that are not named here"
        if isinstance(schema.low, tuple) or isinstance(schema.high, tuple):
            values = "values within a range of its own each"
        else:
            values = f"values from {decimal(schema.low)} to {decimal(schema.high)}"
        if schema.levels is not None:
            values += ", rounded at random to the nearest levels above and below"
        return f"which of {schema.d} keys you have ({named}), {values}"

    def _rounds(self) -> str:
        if self.campaign.protocol.single is not None:
            return "one report"
        return "one report in each round that asks you, all of them within the same epsilon"

    def _answers(self) -> list[str]:
        """What the collector will learn about everybody together, and what it will not."""
        told = [row.meaning for kind, row in ASKABLE.items() if kind in self.campaign.answers]
        untold = [row.meaning for kind, row in ASKABLE.items() if kind not in self.campaign.answers]
        lines = [f"Learned      of all people together: {_GAP.join(told)}"]
        return lines + ([f"Not learned  {_GAP.join(untold)}"] if untold else [])

    def _series(self) -> list[str]:
        """What goes on under the same consent, and what the whole series reveals and costs: two sentences."""
        recurrence, epsilon = self.campaign.recurrence, decimal_text(self.campaign.protocol.epsilon)
        if not self.terms.ends:
            return []
        rhythm = "" if recurrence.every_days is None else f", at most every {recurrence.every_days} days"
        last = "" if recurrence.series_until is None else f", until {recurrence.series_until}"
        goes_on = f"Later        campaigns with the same terms go on under your consent{rhythm}{last}."
        if recurrence.renew_days is not None:
            price = (
                f"One report is drawn at epsilon {epsilon} for each {recurrence.renew_days} days and sent to every "
                "campaign in them, even if what you have changes: these can be linked to each other, not to you."
            )
        elif recurrence.one_in is not None:
            price = (
                f"You are asked in one of {recurrence.one_in} of them, chosen by a coin, each time at epsilon "
                f"{epsilon} for what you have then."
            )
        else:
            price = f"Each is answered anew at epsilon {epsilon} for what you have then, until a cap ends it."
        return [goes_on, *wrap(price, 92, initial_indent=" " * 13, subsequent_indent=" " * 13)]

    def _price(self) -> list[str]:
        if self.open_round is None:
            return ["Now          nothing is asked at the moment"]
        current, stated = self.open_round, decimal_text(self.open_round.mechanism.epsilon)
        return [
            f"Now          round {current.number} costs epsilon {shown(current.cost)}, computed on this device",
            f"             from {current.mechanism.name} (the collector says {stated})",
            *self._asked_instead(),
            f"Leaves       a random id of {PUBLIC_BYTES} bytes and a randomised answer, filled up to",
            f"             {current.report_bytes} bytes whatever you have ({self.wire_bytes} bytes with the envelope)",
        ]

    def _asked_instead(self) -> list[str]:
        """Who is asked something else than the main question; the public id decides, and nothing that they have."""
        mechanism = None if self.open_round is None else self.open_round.mechanism
        capped = None if mechanism is None else can(mechanism, Capped)
        share = None if mechanism is None else mechanism.options.get("overflow")
        if share is None:
            return []
        of_hundred, cap = decimal_text(100 * read_fraction(share)), None if capped is None else capped.cap()
        keys = "the keys that count" if cap is None else "1 key" if cap == 1 else f"{cap} keys"
        return [
            f"Asked        {of_hundred} of 100 people, chosen by the random id, are asked how far they exceed",
            f"             {keys}, at the same epsilon; all others are asked which keys they have",
        ]
