"""A campaign in words for the person who is asked: what, why, at what price, how often, until when, and to whom.

The price is the device's own, from the channel that it would run; the collector's word on it is shown beside.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from keyveil.campaign.documents import Campaign
from keyveil.campaign.rounds import RoundDocument
from keyveil.campaign.wire import Batch
from keyveil.core.canonical import decimal
from keyveil.core.epsilon import decimal_text
from keyveil.core.report import PUBLIC_BYTES
from keyveil.device.consent import GIVEN, Terms
from keyveil.device.ledger import Line, shown
from keyveil.device.verification import Notice, plain
from keyveil.mechanisms.questions import ASKABLE
from keyveil.protocols.one_round import OneRound

_KEYS = 12  # named in full; of more, so many
_GAP = ",\n             "


@dataclass(frozen=True)
class Explanation:
    """What a campaign asks, and what answering it now would mean."""

    series: str
    notice: Notice
    spent: tuple[Line, ...]
    consent: str | None  # given, withdrawn, or nothing said yet
    agreed: bool  # to these very terms
    refusal: str | None  # why this device would not answer
    packed: bool = True  # the form of its uploads

    @property
    def campaign(self) -> Campaign:
        return self.notice.campaign

    @property
    def asked(self) -> RoundDocument | None:
        return self.notice.asked

    @property
    def terms(self) -> Terms:
        """What one consents to after reading this."""
        return Terms.of(self.campaign)

    @property
    def epsilon(self) -> Fraction | None:
        """What the open round costs, by this device's own computation."""
        return None if self.asked is None else self.asked.cost

    @property
    def wire_bytes(self) -> int | None:
        """Bytes of the upload's body, the same for every record."""
        if self.asked is None:
            return None
        payload = bytes(self.asked.report_bytes)
        batch = Batch(self.asked.number, self.asked.hash, (bytes(PUBLIC_BYTES),), (payload,))
        return len(batch.to_packed() if self.packed else batch.to_json())

    @property
    def until(self) -> str | None:
        """The last day on which it may ask anything, if it named one."""
        last = self.campaign.until
        return None if last is None else last.isoformat()

    def document(self) -> dict[str, Any]:
        """The same for programs; no floats."""
        asked, campaign = self.asked, self.campaign
        return {
            "campaign": campaign.document(),
            "hash": campaign.hash,
            "state": self.notice.state,
            "round": None if asked is None else asked.number,
            "mechanism": None if asked is None else asked.mechanism.name,
            "stated_epsilon": None if asked is None else decimal_text(asked.mechanism.epsilon),
            "computed_epsilon": None if self.epsilon is None else decimal_text(self.epsilon),
            "report_bytes": None if asked is None else asked.report_bytes,
            "upload_bytes": self.wire_bytes,
            "until": self.until,
            "spent": {
                line.what: {"spent": decimal_text(line.budget.spent), "cap": decimal_text(line.budget.limit)}
                for line in self.spent
            },
            "consent": self.consent,
            "agreed": self.agreed,
            "refusal": self.refusal,
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
        campaign = self.campaign
        lines = [
            f"{campaign.name} ({campaign.hash[:8]}…)",
            "",
            f"Why          {plain(campaign.purpose)}",
            f"What         {self._keys(every_key)}",
            f"How often    {self._rounds()}",
            f"Until        {self.until or 'no last day is named'}",
            *self._later(),
            f"Privacy      epsilon {decimal_text(campaign.protocol.epsilon)} for the whole campaign ({campaign.asked})",
            *self._price(),
            f"Kept         single reports for at most {campaign.retention_days} days",
            f"Shown        nothing before {campaign.min_reports} people have reported",
            *self._answers(),
            f"Enrolment    {campaign.enrolment}",
            f"Contact      {plain(campaign.contact) or 'none is named'}",
            "Spent        " + "\n             ".join(str(line) for line in self.spent),
            f"Consent      {self._consent()}",
        ]
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
        return f"which of {schema.d} keys you have ({named}), {values}"

    def _rounds(self) -> str:
        if isinstance(self.campaign.protocol, OneRound):
            return "one report"
        return "one report in each round that asks you, all of them within the same epsilon"

    def _answers(self) -> list[str]:
        """What the collector will learn about everybody together, and what it will not."""
        told = [row.meaning for kind, row in ASKABLE.items() if kind in self.campaign.answers]
        untold = [row.meaning for kind, row in ASKABLE.items() if kind not in self.campaign.answers]
        lines = [f"Learned      of all people together: {_GAP.join(told)}"]
        return lines + ([f"Not learned  {_GAP.join(untold)}"] if untold else [])

    def _later(self) -> list[str]:
        if not self.terms.ends:
            return []
        return ["Later        campaigns with the same terms go on under your consent, each at this epsilon"]

    def _price(self) -> list[str]:
        if self.asked is None:
            return ["Now          nothing is asked at the moment"]
        asked, stated = self.asked, decimal_text(self.asked.mechanism.epsilon)
        return [
            f"Now          round {asked.number} costs epsilon {shown(asked.cost)}, computed on this device",
            f"             from {asked.mechanism.name} (the collector says {stated})",
            f"Leaves       a random id of {PUBLIC_BYTES} bytes and a randomised answer, filled up to",
            f"             {asked.report_bytes} bytes whatever you have ({self.wire_bytes} bytes with the envelope)",
        ]
