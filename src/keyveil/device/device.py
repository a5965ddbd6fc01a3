"""The device: reads a campaign, refuses what exceeds its owner's caps, answers once, and sends until it arrives.

The guarantee rests on the order of steps. Documents are read and checked; then one local transaction refuses or draws,
debits the ledger and stores the report; only then is it sent. A failure leaves either nothing, or a report whose ε is
in the ledger.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any, Self

import msgspec

from keyveil.campaign.rounds import RoundDocument
from keyveil.campaign.transport import Transport
from keyveil.campaign.wire import pad
from keyveil.core.clock import Clock, system_clock, today
from keyveil.core.coins import Coins
from keyveil.core.epsilon import decimal_text
from keyveil.core.errors import DeviceError, KeyveilError
from keyveil.device.consent import Consents, Terms
from keyveil.device.explain import Explanation
from keyveil.device.ledger import Caps, Ledger, LedgerEntry, Line, refuse_beyond
from keyveil.device.memory import Memory
from keyveil.device.outbox import REFUSED, WAITING, WITHDRAWN, Outbox, Parcel
from keyveil.device.upload import Patience, Sleep, Uploader
from keyveil.device.vault import Vault
from keyveil.device.verification import DeviceLimits, Notice, read_notice
from keyveil.mechanisms.base import Pairs
from keyveil.mechanisms.parting import EVERYONE, parting_word

CLOSED, NOT_ASKED = "closed", "not-asked"
_FREE = Fraction(0)


@dataclass(frozen=True)
class Outcome:
    """What became of a report: ``sent``, ``waiting``, ``refused`` by the collector, ``not-asked`` or ``closed``."""

    series: str
    state: str
    round: int | None = None
    epsilon: Fraction = _FREE  # spent by this call
    report: bytes | None = None  # its id
    code: str | None = None

    def document(self) -> dict[str, Any]:
        return {
            "campaign": self.series,
            "state": self.state,
            "round": self.round,
            "epsilon": decimal_text(self.epsilon),
            "report": None if self.report is None else self.report.hex(),
            "code": self.code,
        }


class Device:
    """One person's device. All it knows lies in one file (``":memory:"`` for simulation); use it from one thread.

    ``collector`` names where the transport leads, for owners who answer several collectors from one file: series and
    unsent reports then belong to that collector, caps hold for all of them together.

    ``caps`` are kept in the file; a mapping such as ``{"life": 4}`` names some of them. What is not named stays as it
    was, or is the usual in a new file; caps that are looser than those in the file are refused here.
    """

    def __init__(
        self,
        path: str | Path,
        transport: Transport,
        caps: Caps | Mapping[str, Any] | None = None,
        clock: Clock = system_clock,
        coins: Coins | None = None,
        limits: DeviceLimits | None = None,
        patience: Patience | None = None,
        packed: bool = True,
        sleep: Sleep = time.sleep,
        collector: str = "",
    ) -> None:
        if caps is not None:
            Caps.read(caps)  # mistakes are refused before a file is made
        self._transport, self._clock, self._coins = transport, clock, coins or Coins()
        self._limits = limits or DeviceLimits()
        self._prefix = f"{collector.rstrip('/')}/" if collector else ""
        self._uploader = Uploader(transport, self._coins, clock, patience or Patience(), packed, sleep)
        self.vault = Vault(path, clock, self._coins)
        self._ledger = Ledger(self.vault, caps)
        self._outbox, self._memory, self._consents = Outbox(self.vault), Memory(self.vault), Consents(self.vault)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.vault.close()

    # -- what the owner sees and decides ------------------------------------------------------------------------

    def explain(self, name: str) -> Explanation:
        """What a campaign asks now, by its name or at least six digits of its hash; changes nothing."""
        notice = self._read(name)
        series, day = self._prefix + notice.campaign.name, self.vault.today()
        return Explanation(
            series=series,
            notice=notice,
            spent=(self._campaign_line(notice), *self._ledger.lines(notice.campaign.schema.hash, day)),
            consent=self._consents.states().get(series),
            agreed=self._consents.covers(series, Terms.of(notice.campaign)),
            refusal=self._refusal(notice, day),
            packed=self._uploader.packed,
        )

    def consent(self, name: str, shown: Explanation | None = None) -> None:
        """Agree to a campaign: to what was ``shown``, or else to what its collector serves now."""
        shown = shown or self.explain(name)
        self._refuse_other(name, shown)
        with self.vault.transaction():
            self._consents.give(shown.series, shown.terms)

    def withdraw(self, name: str) -> int:
        """Withdraw consent: no more reports are made, unsent ones are deleted (returns how many); the ledger stays."""
        with self.vault.transaction():
            self._consents.withdraw(self._prefix + name)
            return self._outbox.withdraw(self._prefix + name)

    def consents(self) -> dict[str, str]:
        """The owner's decision on every series: given or withdrawn."""
        return self._consents.states()

    @property
    def caps(self) -> Caps:
        """The most that may leave the device, as its file has it."""
        return self._ledger.caps

    def limit(self, changes: Mapping[str, Any], loosen: bool = False) -> None:
        """Change some caps for good; looser ones than before only with ``loosen``."""
        if changes:
            self._ledger.keep(Caps.read(changes, self.caps), loosen)

    def ledger(self) -> list[LedgerEntry]:
        """Everything that was paid for, or repeated for free, oldest first."""
        return self._ledger.entries()

    def spent(self) -> list[Line]:
        """What was spent of the caps on everything."""
        return self._ledger.lines(None, self.vault.today())

    def export(self) -> bytes:
        """Ledger, caps, consents and what was sent, as JSON; no secrets and no tokens."""
        parcels = {(one.series, one.campaign, one.round): one for one in self._outbox.everything()}

        def told(entry: LedgerEntry) -> dict[str, Any]:
            parcel = parcels[entry.series, entry.campaign, entry.round]
            payload = None if parcel.payload is None else parcel.payload.hex()
            return {**entry.document(), "state": parcel.state, "code": parcel.code, "payload": payload}

        document = {
            "keyveil": 1,
            "since": self.vault.since.isoformat(),
            "caps": self.caps.document(),
            "spent": {line.what: decimal_text(line.budget.spent) for line in self.spent()},
            "consents": self.consents(),
            "entries": [told(entry) for entry in self.ledger()],
        }
        return msgspec.json.format(msgspec.json.encode(document), indent=2)

    # -- reporting ----------------------------------------------------------------------------------------------

    def report(self, name: str, record: Any, token: str | None = None, shown: Explanation | None = None) -> Outcome:
        """Answer the open round of a campaign, at most once; what cannot be sent now waits for ``flush``.

        The round is the one that was just ``shown``, or else the one that its collector serves now.
        """
        self._consents.need(self._prefix + name)
        if shown is not None:
            self._refuse_other(name, shown)
        if token is not None and not (token.isascii() and token.isprintable() and 0 < len(token) <= 1000):
            raise DeviceError("enrolment/token", "An enrolment token is a short line of printable characters.")
        notice = self._read(name) if shown is None else shown.notice
        if notice.open_round is None:
            return Outcome(self._prefix + name, CLOSED)
        with self.vault.transaction():
            parcel, spent = self._answer(notice, notice.open_round, record, token)
        if parcel is None:
            return Outcome(self._prefix + name, NOT_ASKED, notice.open_round.number)
        return self._send(parcel, spent) if parcel.state == WAITING else _outcome(parcel)

    def flush(self) -> list[Outcome]:
        """Try again to send what waits; if one still has to wait, so do those after it."""
        outcomes: list[Outcome] = []
        for parcel in self._outbox.waiting(self._prefix):
            outcomes.append(self._send(parcel, _FREE))
            if outcomes[-1].state == WAITING:
                break
        return outcomes

    def _answer(
        self, notice: Notice, document: RoundDocument, record: Any, token: str | None
    ) -> tuple[Parcel | None, Fraction]:
        """Within a transaction: the report of a round and what it cost; None if the round is for other people."""
        series, day = self._prefix + notice.campaign.name, self.vault.today()
        self.vault.turn_to(day)
        self._hold(notice, document, series)
        earlier = self._outbox.find(series, document.campaign, document.number)
        if earlier is not None:
            return self._renewed(earlier, token), _FREE
        pairs = document.mechanism.read(record)
        seat = None if document.part == EVERYONE else self._memory.seat(series, document.campaign, self._coins)
        if seat is not None and not document.part.holds(parting_word(seat, bytes.fromhex(document.campaign))):
            return None, _FREE
        fingerprint, digest = document.mechanism.fingerprint.hex(), self._memory.digest(pairs)
        known = self._memory.recall(series, fingerprint, digest, seat)
        if (
            notice.campaign.enrolment == "token" and token is None
        ):  # the collector would refuse a report that has cost ε
            raise DeviceError("enrolment/needed", f"{notice.campaign.name} takes reports of enrolled devices only.")
        if known is None:
            refuse_beyond(document.cost, self._lines(notice, day))
            public, payload = self._draw(document, pairs, seat)
            self._memory.keep(series, fingerprint, digest, public, payload)
        else:
            public, payload = known
        cost = document.cost if known is None else _FREE
        self._ledger.debit(_entry(notice, document, series, day, public, cost, free=known is not None))
        parcel = Parcel(series, document.campaign, document.number, document.hash, public, payload, token)
        self._outbox.put(parcel)
        return parcel, cost

    def _draw(self, document: RoundDocument, pairs: Pairs, public: bytes | None) -> tuple[bytes, bytes]:
        """Id and padded payload of a new report: the only place where randomness is drawn for a record."""
        report = document.mechanism.perturb_pairs(pairs, self._coins, public)
        payload = document.mechanism.encode(report)
        return report.public, pad(payload, document.report_bytes, document.mechanism.codec.varies)

    def _hold(self, notice: Notice, document: RoundDocument, series: str) -> None:
        """Refuse a campaign or round that departs from the consent, from its dates, or from what was served before."""
        self._consents.need(series)
        self._consents.hold(series, Terms.of(notice.campaign))
        notice.refuse_closed(today(self._clock))
        self._consents.follow(series, document)
        if notice.dictionary is not None and notice.campaign.dictionary is not None:
            self._memory.keep_dictionary(notice.campaign.dictionary, notice.dictionary)

    def _renewed(self, earlier: Parcel, token: str | None) -> Parcel:
        """The report that was made before; with a new token if it waits, or was refused because of its token."""
        if earlier.state == WITHDRAWN:
            raise DeviceError("report/withdrawn", f"The report of round {earlier.round} was withdrawn for good.")
        lacks = earlier.state == REFUSED and (earlier.code or "").startswith("enrolment/")
        if token is not None and (lacks or earlier.state == WAITING):
            self._outbox.renew(earlier, token)
            return replace(earlier, state=WAITING, token=token, code=None)
        return earlier

    def _send(self, parcel: Parcel, spent: Fraction) -> Outcome:
        receipt = self._uploader.deliver(parcel)
        with self.vault.transaction():
            self._outbox.mark(parcel, receipt.state, receipt.code, receipt.attempts)
        return Outcome(parcel.series, receipt.state, parcel.round, spent, parcel.report, receipt.code)

    def _refuse_other(self, name: str, shown: Explanation) -> None:
        if shown.series != self._prefix + name:
            raise DeviceError("consent/other", f"What was shown is {shown.series}, not {name}.")

    def _read(self, name: str) -> Notice:
        return read_notice(self._transport, name, self._limits, self._memory.dictionary)

    def _lines(self, notice: Notice, day: date) -> list[Line]:
        """Every budget that a new report must fit into."""
        return [self._campaign_line(notice), *self._ledger.lines(notice.campaign.schema.hash, day)]

    def _campaign_line(self, notice: Notice) -> Line:
        campaign = notice.campaign
        return self._ledger.campaign(self._prefix + campaign.name, campaign.hash, campaign.protocol.epsilon)

    def _refusal(self, notice: Notice, day: date) -> str | None:
        """Why no new report would be made, whatever the record; nothing if one would."""
        document, series = notice.open_round, self._prefix + notice.campaign.name
        if document is None or self._outbox.find(series, document.campaign, document.number) is not None:
            return None
        try:
            notice.refuse_closed(today(self._clock))
            refuse_beyond(document.cost, self._lines(notice, day))
        except KeyveilError as refused:
            return refused.sentence
        return None


def _entry(
    notice: Notice, document: RoundDocument, series: str, day: date, public: bytes, cost: Fraction, free: bool
) -> LedgerEntry:
    return LedgerEntry(
        day=day,
        series=series,
        schema=notice.campaign.schema.hash,
        campaign=document.campaign,
        round=document.number,
        mechanism=document.mechanism.name,
        fingerprint=document.mechanism.fingerprint.hex(),
        epsilon=cost,
        report=public,
        free=free,
    )


def _outcome(parcel: Parcel) -> Outcome:
    return Outcome(parcel.series, parcel.state, parcel.round, _FREE, parcel.report, parcel.code)


__all__ = ["Device", "Outcome"]
