"""The device: reads a campaign, refuses what exceeds its owner's caps, answers once, and sends until it arrives.

The guarantee rests on the order of steps. Documents are read and checked. Then one local transaction decides, by the
calendar, by coins and by the ledger, and before the record is looked at, whether anything is sent and whether it is
drawn anew; it draws, debits the ledger and stores the report. Only then is it sent. A failure leaves either nothing, or
a report whose ε is in the ledger.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any, Self

import msgspec

from keyveil.campaign.recurrence import Period
from keyveil.campaign.rounds import RoundDocument
from keyveil.campaign.transport import Transport
from keyveil.campaign.verification import DeviceLimits, Notice, read_notice
from keyveil.campaign.wire import pad
from keyveil.core.clock import Clock, system_clock, today
from keyveil.core.coins import Coins, FreshCoins
from keyveil.core.epsilon import decimal_text
from keyveil.core.errors import CampaignError, DeviceError, KeyveilError
from keyveil.device.consent import Consents, Terms
from keyveil.device.dictionaries import Dictionaries
from keyveil.device.explain import Explanation
from keyveil.device.identity import Identity
from keyveil.device.ledger import Caps, Ledger, LedgerEntry, Line, refuse_beyond
from keyveil.device.outbox import REFUSED, WAITING, WITHDRAWN, Outbox, Parcel
from keyveil.device.outcome import BETWEEN, CLOSED, FREE, NOT_ASKED, Outcome
from keyveil.device.preview import Preview, look_at
from keyveil.device.schedule import EVERY_SERIES, RESTORED, Pauses, Standing, StandingReports, Turns
from keyveil.device.upload import PASSING, Patience, Sleep, Uploader
from keyveil.device.vault import Vault
from keyveil.mechanisms.base import Pairs
from keyveil.mechanisms.parting import EVERYONE, parting_word


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
        self._transport, self._clock, self._coins = transport, clock, coins or FreshCoins()
        self._limits = limits or DeviceLimits()
        self._prefix = f"{collector.rstrip('/')}/" if collector else ""
        self._uploader = Uploader(transport, self._coins, clock, patience or Patience(), packed, sleep)
        self._read_at = self._uploader.seconds()  # when a campaign was read last
        self.vault = Vault(path, clock, self._coins)
        self._outbox, self._consents, self._identity = Outbox(self.vault), Consents(self.vault), Identity(self.vault)
        self._standing, self._turns, self._pauses = StandingReports(self.vault), Turns(self.vault), Pauses(self.vault)
        self._dictionaries, self._ledger = Dictionaries(self.vault), Ledger(self.vault)
        if self.vault.place is not None:
            with self.vault.whole():
                self.export()
                for series in self._consents.states():
                    self._consents.latest(series)
                self._notice_copy()
        self._ledger.open(caps)

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
            draws=self._draws(notice, day),
            remarks=self._remarks(),
            packed=self._uploader.packed,
        )

    def preview(self, name: str, record: Any, strict: bool = False) -> Preview:
        """What a report would see of a record, and what it would not; draws, spends and sends nothing.

        With ``strict`` a record of which something does not count is refused, for developers; reports never are.
        """
        notice = self._read(name)
        asked = notice.campaign.protocol.single if notice.open_round is None else notice.open_round.mechanism
        if asked is None:
            raise CampaignError(
                "round/closed", f"{name} asks nothing at the moment that a record could be held against."
            )
        seen = look_at(record, asked)
        if strict:
            seen.refuse_ignored()
        return seen

    def trust_clock(self) -> None:
        """Take the clock's day for right, however far it is ahead of the latest day seen."""
        with self.vault.transaction():
            self.vault.turn_to(today(self._clock))

    def consent(self, name: str, shown: Explanation | None = None) -> None:
        """Agree to a campaign: to what was ``shown``, or else to what its collector serves now."""
        shown = shown or self.explain(name)
        self._refuse_other(name, shown)
        with self.vault.transaction():
            self._consents.give(shown.series, shown.terms)

    def withdraw(self, name: str) -> int:
        """Withdraw consent: no more reports are made, unsent ones are deleted (returns how many); the ledger stays.

        The report that stands is deleted too. What has begun counts as answered: consent given again goes on with the
        next round or period.
        """
        series, day = self._prefix + name, self.vault.today()
        with self.vault.transaction():
            self._pauses.begin(series, day, WITHDRAWN, self._consents.latest(series))
            self._consents.withdraw(series)
            self._standing.end(series)
            self._ledger.release(series)
            self.vault.count_change()
            deleted = self._outbox.withdraw(series)
        self.vault.settle()
        return deleted

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
            "reserved": decimal_text(sum((one.epsilon for one in self._ledger.reserved(self.vault.today())), FREE)),
            "consents": self.consents(),
            "entries": [told(entry) for entry in self.ledger()],
        }
        return msgspec.json.format(msgspec.json.encode(document), indent=2)

    # -- reporting ----------------------------------------------------------------------------------------------

    def report(self, name: str, record: Any, token: str | None = None, shown: Explanation | None = None) -> Outcome:
        """Answer the open round of a campaign, at most once; what cannot be sent now waits for ``flush``.

        The round is the one that was just ``shown``, or else the one that its collector serves now. Whatever the record
        is, it is no reason to raise: what cannot be read counts as absent, and the outcome says so.
        """
        self._consents.need(self._prefix + name)
        if shown is not None:
            self._refuse_other(name, shown)
        if token is not None and not (token.isascii() and token.isprintable() and 0 < len(token) <= 1000):
            raise DeviceError("enrolment/token", "An enrolment token is a short line of printable characters.")
        notice = self._read(name) if shown is None else shown.notice
        if notice.open_round is None:
            state = BETWEEN if notice.state in ("open", "draft") else CLOSED
            opens = notice.next_opening(today(self._clock)) if state == BETWEEN else None
            return Outcome(self._prefix + name, state, opens=opens)
        self._notice_copy()
        with self.vault.transaction():
            parcel, outcome = self._answer(notice, notice.open_round, record, token)
        if parcel is None or parcel.state != WAITING:
            return outcome
        if outcome.used:
            self._uploader.keep_pace(self._read_at)
        return self._send(parcel, outcome)

    def flush(self) -> list[Outcome]:
        """Try again to send what waits; if the collector cannot be reached, those after it wait too."""
        outcomes: list[Outcome] = []
        for parcel in self._outbox.waiting(self._prefix):
            outcomes.append(self._send(parcel, Outcome.of(parcel)))
            if outcomes[-1].state == WAITING and outcomes[-1].code not in PASSING:
                break
        return outcomes

    def _answer(
        self, notice: Notice, document: RoundDocument, record: Any, token: str | None
    ) -> tuple[Parcel | None, Outcome]:
        """Within a transaction: the report of a round, if this device has one, and what became of this call.

        Three things decide, in this order: calendar and terms, then the ledger, and only then the record.
        """
        campaign, terms = notice.campaign, notice.campaign.terms
        series, day = self._prefix + campaign.name, self.vault.today()
        self._hold(notice, document, series)
        earlier = self._outbox.find(series, document.campaign, document.number)
        if earlier is not None:
            parcel = self._renewed(earlier, token)
            return parcel, Outcome.of(parcel)
        if campaign.enrolment == "token" and token is None:  # the collector would refuse a report that has cost ε
            raise DeviceError("enrolment/needed", f"{campaign.name} takes reports of enrolled devices only.")
        self.vault.refuse_jump()
        self.vault.turn_to(day)
        period, one_in = campaign.recurrence.period(day), campaign.recurrence.one_in
        self._pauses.refuse(series, document.campaign, notice.opened, period)
        not_asked = Outcome(series, NOT_ASKED, document.number)
        if one_in is not None and not self._turns.has(series, terms, document.campaign, one_in, self._coins):
            return None, not_asked
        public = self._id(series, terms, document, period)
        if document.part != EVERYONE and not document.part.holds(
            parting_word(public, bytes.fromhex(document.campaign))
        ):
            return None, not_asked

        standing = None if period is None else self._standing.find(series, terms, period)
        seen, cost = None, FREE
        if standing is None:
            self._pay(notice, document, series, day)
            seen, cost = look_at(record, document.mechanism), document.cost
            standing = Standing(public, self._draw(document, seen.pairs, public))
            if period is not None:
                self._standing.keep(series, terms, period, day, standing)
            self.vault.count_change()
        free = seen is None
        self._ledger.debit(LedgerEntry.of(document, series, campaign.schema.hash, day, standing.report, cost, free))
        parcel = Parcel(
            series, document.campaign, document.number, document.hash, standing.report, standing.payload, token
        )
        self._outbox.put(parcel)
        ignored = () if seen is None else seen.ignored
        return parcel, replace(Outcome.of(parcel), epsilon=cost, used=not free, ignored=ignored)

    def _id(self, series: str, terms: str, document: RoundDocument, period: Period | None) -> bytes:
        """The id of a report: of the period where it stands for one, of the seat where people are parted."""
        if period is not None:
            return self._identity.of_period(series, terms, period)
        if document.part != EVERYONE:
            return self._identity.seat(series, document.campaign)
        return self._identity.of_round(series, document.hash)

    def _pay(self, notice: Notice, document: RoundDocument, series: str, day: date) -> None:
        """Refuse a draw that does not fit the caps; the first draw of a campaign must fit with all that may follow."""
        campaign = notice.campaign
        refuse_beyond(document.cost, [self._campaign_line(notice)])
        refuse_beyond(self._price(notice, document, series, day), self._lines(notice, day))
        if campaign.protocol.single is None:
            self._ledger.reserve(series, campaign.hash, campaign.schema.hash, campaign.protocol.epsilon, campaign.until)

    def _price(self, notice: Notice, document: RoundDocument, series: str, day: date) -> Fraction:
        """What must fit now: the whole campaign at its first round, afterwards only the round."""
        here = [one for one in self._ledger.reserved(day) if (one.series, one.campaign) == (series, document.campaign)]
        if here or notice.campaign.protocol.single is not None:
            return document.cost
        return self._campaign_line(notice).budget.left

    def _draw(self, document: RoundDocument, pairs: Pairs, public: bytes) -> bytes:
        """The padded payload of a new report: the only place where randomness is drawn for a record."""
        payload = document.mechanism.encode(document.mechanism.perturb_pairs(pairs, self._coins, public))
        return pad(payload, document.report_bytes, document.mechanism.codec.varies)

    def _hold(self, notice: Notice, document: RoundDocument, series: str) -> None:
        """Refuse a campaign or round that departs from the consent, from its dates, or from what was served before."""
        self._consents.need(series)
        self._consents.hold(series, Terms.of(notice.campaign))
        notice.refuse_closed(today(self._clock))
        self._consents.follow(series, document)
        if notice.dictionary is not None and notice.campaign.dictionary is not None:
            self._dictionaries.keep(notice.campaign.dictionary, notice.dictionary)
        self._ledger.release(series, besides=notice.campaign.hash)

    def _renewed(self, earlier: Parcel, token: str | None) -> Parcel:
        """The report that was made before; with a new token if it waits, or was refused because of its token."""
        if earlier.state == WITHDRAWN:
            raise DeviceError("report/withdrawn", f"The report of round {earlier.round} was withdrawn for good.")
        lacks = earlier.state == REFUSED and (earlier.code or "").startswith("enrolment/")
        if token is not None and (lacks or earlier.state == WAITING):
            self._outbox.renew(earlier, token)
            return replace(earlier, state=WAITING, token=token, code=None)
        return earlier

    def _send(self, parcel: Parcel, outcome: Outcome) -> Outcome:
        """Send a stored report; the mark beside the file comes first, so that a copy notices what it has missed."""
        self.vault.settle()
        receipt = self._uploader.deliver(parcel)
        with self.vault.transaction():
            self._outbox.mark(parcel, receipt.state, receipt.code, receipt.attempts)
        return replace(outcome, state=receipt.state, code=receipt.code)

    def _notice_copy(self) -> None:
        """If the file was copied or restored, count what has begun as answered, for every record alike."""
        if not self.vault.copied:
            return
        with self.vault.transaction():
            self._pauses.begin(EVERY_SERIES, self.vault.today(), RESTORED)
            self._standing.end(EVERY_SERIES)
            self.vault.count_change()
        self.vault.settle(anew=True)

    def _remarks(self) -> tuple[str, ...]:
        """What the owner should know about the file and the clock."""
        found, latest, now = self._pauses.restored(), self.vault.latest_day, today(self._clock)
        restored = f"This device's file was copied or restored (noticed on {found}); its ledger may lack reports."
        ahead = f"The clock was once at {latest}, after today ({now}): until then no period of a cap ends."
        return (restored,) * (found is not None) + (ahead,) * (latest > now)

    def _refuse_other(self, name: str, shown: Explanation) -> None:
        if shown.series != self._prefix + name:
            raise DeviceError("consent/other", f"What was shown is {shown.series}, not {name}.")

    def _read(self, name: str) -> Notice:
        """What a collector serves now; what is drawn afterwards leaves at a pace that is counted from here."""
        notice = read_notice(self._transport, name, self._limits, self._dictionaries.find)
        self._read_at = self._uploader.seconds()
        return notice

    def _lines(self, notice: Notice, day: date) -> list[Line]:
        """Every cap that a new report must fit into; what the campaign itself has set aside is for it."""
        own = self._prefix + notice.campaign.name, notice.campaign.hash
        return self._ledger.lines(notice.campaign.schema.hash, day, besides=own)

    def _campaign_line(self, notice: Notice) -> Line:
        campaign = notice.campaign
        return self._ledger.campaign(self._prefix + campaign.name, campaign.hash, campaign.protocol.epsilon)

    def _draws(self, notice: Notice, day: date) -> bool:
        """Whether an answer to the open round would be drawn now: there is none yet, and no report stands."""
        document, series = notice.open_round, self._prefix + notice.campaign.name
        if document is None or self._outbox.find(series, document.campaign, document.number) is not None:
            return False
        period = notice.campaign.recurrence.period(day)
        return period is None or self._standing.find(series, notice.campaign.terms, period) is None

    def _refusal(self, notice: Notice, day: date) -> str | None:
        """Why no new report would be made, whatever the record; nothing if one would."""
        document, series = notice.open_round, self._prefix + notice.campaign.name
        if document is None or self._outbox.find(series, document.campaign, document.number) is not None:
            return None
        period = notice.campaign.recurrence.period(day)
        try:
            notice.refuse_closed(today(self._clock))
            self._consents.refuse_return(series, document)
            self.vault.refuse_jump()
            self._pauses.refuse(series, document.campaign, notice.opened, period)
            if self._draws(notice, day):
                refuse_beyond(document.cost, [self._campaign_line(notice)])
                refuse_beyond(self._price(notice, document, series, day), self._lines(notice, day))
        except KeyveilError as refused:
            return refused.sentence
        return None
