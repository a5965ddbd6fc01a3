"""The collector without HTTP: everything that it does, for any number of threads.

Uploads are checked against the round that they name, and then queue for the writer. Everything else reads the database
or is a step of a campaign.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from keyveil.campaign.documents import Campaign
from keyveil.campaign.recurrence import Period
from keyveil.campaign.series import drawn
from keyveil.campaign.wire import Batch
from keyveil.collector.administration import Administration
from keyveil.collector.believed_clock import AWAY, BelievedClock, Steady
from keyveil.collector.buckets import bucket_of
from keyveil.collector.database import Database
from keyveil.collector.exporting import exported
from keyveil.collector.health import FoldingHealth, Health
from keyveil.collector.journal import OPERATOR, Journal
from keyveil.collector.limits import limits_of, processed_estimates
from keyveil.collector.rates import Rates
from keyveil.collector.repository import Repository, StoredCampaign, StoredRound, dictionary
from keyveil.collector.retention import forget
from keyveil.collector.rounds import advance, shown
from keyveil.collector.sketching import read_sketch
from keyveil.collector.status import folded, headline, status
from keyveil.collector.storing import Counts, UploadResult, count_refusals, stored_reports
from keyveil.collector.tokens import Roles
from keyveil.collector.validation import checked
from keyveil.collector.writer import Writer
from keyveil.core.clock import Clock, system_clock
from keyveil.core.errors import CampaignError, KeyveilError, ReportError, StorageError
from keyveil.core.estimates import Estimates
from keyveil.core.tally import Tally
from keyveil.core.text import many
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.questions import who_is_asked
from keyveil.protocols.base import Finished, History

if TYPE_CHECKING:
    import pyarrow as pa

_FRESH = 1.0  # seconds for which a campaign's state is believed without looking again


@dataclass(frozen=True)
class ServiceLimits:
    """How much may wait for the disk, how much goes there in one commit, and how long ids are kept."""

    waiting_reports: int = 50_000
    group_reports: int = 20_000
    upload_bytes_per_second: int | None = None  # of each campaign; no limit if none
    free_bytes: int = 64 << 20  # on the disk of SQLite; with less, a collector is not ready
    id_days: int | None = None  # after a round has closed for so many days, its ids are forgotten; never if none
    sketches: bool = False  # whether a sketch is kept beside each tally, to tell crafted reports


class Service:
    """A collector's whole service on one database."""

    def __init__(
        self,
        url: str,
        clock: Clock = system_clock,
        limits: ServiceLimits | None = None,
        steady: Steady = time.monotonic,
        away: timedelta = AWAY,
    ) -> None:
        self._limits = limits = limits or ServiceLimits()
        self.database = Database(url)
        self.writer = Writer(self.database, limits.waiting_reports, limits.group_reports, limits.sketches)
        self.clock = BelievedClock(self.writer, clock, steady, away)
        self.journal = Journal(self.writer, self.clock)
        self.roles = Roles(self.journal)
        self.folding = FoldingHealth()
        self.health = Health(self.writer, self.folding, lambda: self.clock.held, limits.free_bytes)
        self._rates = Rates(limits.upload_bytes_per_second)
        self._repository = Repository()
        self._administration = Administration(self.journal, self._repository)
        self._seen: dict[tuple[str, bool], tuple[float, StoredCampaign]] = {}
        self._refusals: Counts = Counter()
        self._to_forget = False  # something was overwritten that may still be in the files
        self._overwritten = 0  # commits under enrolment up to which that was so
        self._lock = threading.Lock()

    def close(self) -> None:
        """Store what is queued, and close the database."""
        try:
            self._count_refusals()
        except KeyveilError:
            pass  # better to lose counters of refusals than to end without closing
        self.writer.close()
        self.database.close()

    # -- campaigns ----------------------------------------------------------------------------------------------

    def create(self, document: Any, by: str = OPERATOR) -> dict[str, Any]:
        """A new campaign, as a draft; its name may be that of one that is over."""
        campaign = self._administration.create(document, by)
        self._seen.clear()
        return self.view(campaign.hash, drafts=True)

    def put_dictionary(self, data: bytes, by: str = OPERATOR) -> str:
        """Keep a list of keys; its hash is its name."""
        return self._administration.put_dictionary(data, by)

    def dictionary(self, name: str) -> bytes:
        with self.database.read() as connection:
            return dictionary(connection, name)

    def act(self, name: str, action: str, by: str = OPERATOR) -> dict[str, Any]:
        """ "open" a draft, "close" the open round now, "stop" the campaign, "archive" one that is over, or "retry" to
        count what was set aside."""
        self._administration.act(name, action, by)
        self._seen.clear()
        self._to_forget = True
        return self.view(name, drafts=True)

    def delete(self, name: str, by: str = OPERATOR) -> None:
        """Forget a campaign that takes no reports; its rows go with the next ticks."""
        self._administration.delete(name, by)
        self._seen.clear()
        self._to_forget = True

    def view(self, name: str, drafts: bool = False) -> dict[str, Any]:
        """What devices may know of a campaign; drafts only for those who may know of them."""
        return self._stored(name, drafts=drafts).view()

    def campaign(self, name: str) -> Campaign:
        """A campaign, also a draft, for those who may know of it."""
        return self._stored(name, drafts=True).campaign

    def campaigns(self) -> list[dict[str, Any]]:
        with self.database.read() as connection:
            return [headline(connection, one) for one in self._repository.every(connection)]

    def status(self, name: str) -> dict[str, Any]:
        """States and counts: what came in, what was refused and why, and roughly when."""
        self._count_refusals()
        with self.database.read() as connection:
            return status(connection, self._repository.named(connection, name))

    # -- reports ------------------------------------------------------------------------------------------------

    def submit(self, name: str, batch: Batch, token: str | None = None) -> Future[UploadResult]:
        """Check a batch and queue it; the answer comes when what was accepted is durable."""
        stored = self._stored(name)
        self._rates.take(stored.id, batch.size)
        self.writer.reserve(len(batch))
        try:
            answered = self._answered(name, stored, batch)
            known = partial(self._known, answered.id)
            return self.writer.submit(checked(stored, answered, batch, token, self._bucket(), known))
        except BaseException as refused:
            self.writer.release(len(batch))
            if isinstance(refused, KeyveilError) and not isinstance(refused, StorageError):
                self.refused(name, refused.code)
            raise

    def remembers(self, name: str, document: str) -> bool:
        """Whether a batch under this document can be checked without asking the database."""
        seen = self._seen.get((name, False))
        if seen is None or time.monotonic() - seen[0] > _FRESH:
            return False
        last = seen[1].current
        return last is not None and last.state == "open" and last.document.hash == document

    def _answered(self, name: str, stored: StoredCampaign, batch: Batch) -> StoredRound:
        """The round that a batch answers, if it is open."""
        known = next((one for one in stored.rounds if one.document.hash == batch.document), None)
        if known is None or known.state != "open":  # what we remember may be a second old
            stored = self._stored(name, fresh=True)
            known = next((one for one in stored.rounds if one.document.hash == batch.document), None)
        if known is None or known.document.number != batch.round:
            raise ReportError("report/document", "The reports were made for another campaign or round than this one.")
        if known.state == "waiting":
            raise CampaignError("round/waiting", "This round takes no reports yet.")
        if known.state != "open":
            raise CampaignError("round/closed", "This round takes no more reports.")
        return known

    def refused(self, name: str, code: str, count: int = 1) -> None:
        """Count a refusal; written down with the next tick."""
        try:
            place = self._stored(name).id, self._bucket(), code
        except KeyveilError:
            return  # of no campaign that we know
        with self._lock:
            self._refusals[place] += count

    def enrol(self, name: str, count: int, by: str = OPERATOR) -> list[str]:
        """New enrolment tokens; they are shown now and never again."""
        return self._administration.enrol(name, count, by)

    def revoke(self, name: str, tokens: Sequence[str], by: str = OPERATOR) -> int:
        """Enrolment tokens that are no longer good; how many of them the campaign knew."""
        return self._administration.revoke(name, tokens, by)

    # -- what analysts ask --------------------------------------------------------------------------------------

    def estimates(
        self,
        name: str,
        round: int | None = None,
        postprocess: str | None = None,
        confidence: float = 0.95,
        attackers: int | None = None,
        recover: str | None = None,
    ) -> Estimates:
        """What all rounds so far say together, or one of them; refused below the campaign's least number.

        With ``attackers``, how far so many crafted reports could have moved it stands beside it. ``recover`` names a
        way to undo an attack, which is then written on the result.
        """
        if not 0 < confidence < 1:
            raise CampaignError("question/confidence", f"A confidence lies between 0 and 1, not at {confidence:g}.")
        mechanism: Mechanism | None = None
        if round is not None:
            finished = self.finished(name, round)
            history: History = [finished]
            mechanism, estimates = finished.round.mechanism, finished.estimates(confidence)
        else:
            with self.database.read() as connection:
                stored = self._repository.named(connection, name)
                history = self._repository.history(connection, stored, len(stored.rounds))
            most = max((one.tally.reports for one in history), default=0)
            history = shown(history, stored.campaign.min_reports)
            if not history:
                raise _too_few(stored.campaign, most)
            estimates = stored.campaign.protocol.estimate(history, confidence)
            if len(history) == 1:
                mechanism = history[0].round.mechanism
        limits = None
        if attackers is not None:
            protocol = self._stored(name).campaign.protocol
            limits = limits_of(estimates, mechanism, history, protocol, attackers)
        if recover is not None:
            return self._recovered(name, recover, replace(estimates, attacked=limits), mechanism, history, postprocess)
        if postprocess is None:
            return replace(estimates, attacked=limits)
        return processed_estimates(postprocess, estimates, mechanism, history, limits)

    def _recovered(
        self,
        name: str,
        method: str,
        estimates: Estimates,
        mechanism: Mechanism | None,
        history: History,
        postprocess: str | None,
    ) -> Estimates:
        """The estimates of one round after recovery, by its sketch where there is one."""
        from keyveil.robustness.recovery import recover

        if postprocess is not None:
            raise CampaignError("recover/postprocess", "Frequencies are recovered or post-processed, not both.")
        if mechanism is None:
            raise CampaignError(
                "recover/rounds", "Frequencies of several rounds together are not recovered; ask for one."
            )
        with self.database.read() as connection:
            stored = self._repository.named(connection, name)
            own = stored.round(history[0].round.number)
            sketch = read_sketch(connection, own.id, own.document)
        return recover(method, mechanism, history[0].tally, estimates, sketch).estimates(estimates)

    def finished(self, name: str, round: int | None = None, asks: str | None = None) -> Finished:
        """A round and its tally so far; refused below the campaign's least number.

        If none is named it is the last one, or the last that can answer what a question ``asks``.
        """
        with self.database.read() as connection:
            stored = self._repository.named(connection, name)
            number = len(stored.rounds) if round is None else round
            if round is None and asks is not None:
                number = who_is_asked([one.document.mechanism for one in stored.rounds], asks)
            stored.round(number)
            found = self._repository.history(connection, stored, number)[-1]
        if found.tally.reports < stored.campaign.min_reports:
            raise _too_few(stored.campaign, found.tally.reports)
        return found

    def counted(self, name: str) -> tuple[str, str, tuple[tuple[str, int], ...]]:
        """Hash and state of a campaign, and of each round its state and how many of its reports were counted."""
        with self.database.read() as connection:
            stored = self._repository.named(connection, name)
            rounds = tuple((one.state, folded(connection, one.id)) for one in stored.rounds)
        return stored.campaign.hash, stored.state, rounds

    def tally(self, name: str, round: int | None = None) -> tuple[Mechanism, Tally]:
        found = self.finished(name, round)
        return found.round.mechanism, found.tally

    def drawn(self, name: str) -> Period | None:
        """The days on which the reports of a campaign can have been drawn; none if it has no dates."""
        return drawn(self._stored(name).campaign)

    def min_reports(self, name: str) -> int:
        return self._stored(name).campaign.min_reports

    def own_name(self, name: str, drafts: bool = False) -> str:
        """The name of a campaign that may have been called by its hash."""
        return self._stored(name, drafts=drafts).campaign.name

    def export(self, name: str, round: int | None = None, by: str = OPERATOR) -> Iterator[pa.RecordBatch]:
        """The reports of a round as they came; that somebody took them is written down first."""
        stored = self._stored(name)
        wanted = stored.round(len(stored.rounds) if round is None else round)
        about = {"name": stored.campaign.name, "round": wanted.document.number}
        self.journal.note(by, "reports.export", stored.campaign.hash, **about)
        return exported(self.database, wanted)

    # -- time passes --------------------------------------------------------------------------------------------

    def tick(self) -> bool:
        """Fold, move campaigns on, count refusals, forget; whether there may be more to do at once."""
        with self.folding.watching():
            return self._tick()

    def _tick(self) -> bool:
        self._count_refusals()
        timely = self.clock.look()
        with self.database.read() as connection:
            running = self._repository.every(connection, running=True)
        more, failed = False, None  # type: bool, Exception | None
        for stored in running:
            try:
                moved = advance(self.journal, self._repository, stored, self.clock(), timely)
            except Exception as reason:  # one campaign must not hold up the others
                moved, failed = False, failed or reason
            if moved:
                self._seen.clear()
                more = self._to_forget = True
        if forget(self.writer, self._repository, bucket_of(self.clock()), self._limits.id_days, timely):
            more = self._to_forget = True
        if self.writer.enrolled_commits != self._overwritten:
            self._overwritten, self._to_forget = self.writer.enrolled_commits, True
        if not more and self._to_forget:
            self._to_forget = not self.database.forget()
        if failed is not None:
            raise failed
        return more

    def settle(self) -> None:
        """Ticks until nothing more is to be done."""
        while self.tick():
            pass

    def ready(self) -> None:
        """Raises unless a report that is sent now would be stored and counted."""
        self.health.refuse_unless_ready()

    # -- inside -------------------------------------------------------------------------------------------------

    def _stored(self, name: str, fresh: bool = False, drafts: bool = False) -> StoredCampaign:
        """A campaign as it was within the last second, so that uploads need not ask the database each time."""
        seen = self._seen.get((name, drafts))
        if seen is None or fresh or time.monotonic() - seen[0] > _FRESH:
            with self.database.read() as connection:
                seen = time.monotonic(), self._repository.named(connection, name, drafts=drafts)
            self._seen[name, drafts] = seen
        return seen[1]

    def _known(self, round_id: int, ids: Sequence[bytes]) -> dict[bytes, bytes | None]:
        """Of some reports those that are stored, with their payloads."""
        with self.database.read() as connection:
            return {number: payload for number, payload, _ in stored_reports(connection, round_id, ids)}

    def _bucket(self) -> int:
        return bucket_of(self.clock())

    def _count_refusals(self) -> None:
        with self._lock:
            counts, self._refusals = self._refusals, Counter()
        if not counts:
            return
        try:
            self.writer.run(lambda connection: count_refusals(self.database, connection, counts))
        except KeyveilError:
            with self._lock:
                self._refusals.update(counts)
            raise


def _too_few(campaign: Campaign, reports: int) -> CampaignError:
    return CampaignError(
        "campaign/too-few", f"{many(reports, 'report')} counted; nothing is shown below {campaign.min_reports:,}."
    )
