"""The one thread that writes: uploads that wait together are committed together.

While a commit is written to the disk the next uploads queue up, and the next commit stores all of them. An upload is
acknowledged after the commit that holds it and never before; what a full queue cannot take is refused at once, and
nothing of it is kept. Large uploads are stored in pieces, each in a commit of its own, so that small ones need not wait
for all of them (``queueing``); they are acknowledged after the last piece.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sqlalchemy import Connection, delete, insert, select, update

from keyveil.collector.database import Database
from keyveil.collector.pieces import gather, in_pieces
from keyveil.collector.queueing import FairQueue
from keyveil.collector.tables import UNFOLDED, batch, enrolment, participation, refusal, report, round
from keyveil.core.errors import AccessError, CampaignError, KeyveilError, StorageError

DUPLICATE = "report/duplicate"
CONFLICT = "report/conflict"

_ASKED_AT_ONCE = 500  # ids in one question to the database
_GROUP_BYTES = 2 << 20  # bytes after which a commit takes no further uploads
_ROW = 64  # bytes of a row besides its payload, and the work of a task

T = TypeVar("T")
Counts = Counter[tuple[int, int, str]]
"""How many refusals of a campaign there were in a bucket of time, by code."""


@dataclass(frozen=True)
class UploadResult:
    """What became of an upload."""

    accepted: int
    duplicates: int
    refused: tuple[tuple[bytes, str], ...] = ()


@dataclass(frozen=True, eq=False)
class Upload:
    """Checked reports of one request on their way to the disk."""

    campaign_id: int
    round_id: int
    bucket: int
    reports: Sequence[tuple[bytes, bytes]]  # id and padded payload
    reserved: int = 0  # places in the queue
    refused: tuple[tuple[bytes, str], ...] = ()  # those that were found malformed before
    repeated: int = 0  # times that one of them was in the request again
    token_hash: bytes | None = None  # of the enrolment, where the campaign asks for one
    pseudonym: bytes | None = None
    done: Future[UploadResult] = field(default_factory=Future)

    @property
    def work(self) -> int:
        """Bytes to be written, roughly."""
        return _ROW + sum(_ROW + len(payload) for _, payload in self.reports)


@dataclass(frozen=True, eq=False)
class _Task:
    """Something else to do in a transaction of its own."""

    step: Callable[[Connection], Any]
    done: Future[Any] = field(default_factory=Future)


class Writer:
    """Takes uploads and tasks in order; ``waiting`` reports at most may queue up."""

    def __init__(self, database: Database, waiting: int, group: int) -> None:
        self.database = database
        self.commits, self.failed_commits, self.commit_seconds = 0, 0, 0.0
        self._most, self._group = waiting, group
        self._queue: FairQueue[Upload | _Task] = FairQueue()
        self._waiting = 0
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="keyveil-writer", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Reports that are not on the disk yet."""
        return self._waiting

    @property
    def alive(self) -> bool:
        return self._thread.is_alive() and not self._closing

    def refuse_when_full(self, size: int = 1) -> None:
        """Refuse what would have to wait too long; an empty queue takes anything."""
        if self._waiting and self._waiting + size > self._most:
            raise StorageError("queue/full", "The collector is busy; send the same reports again a little later.")

    def reserve(self, reports: int) -> None:
        """Take places in the queue, before any work goes into what will stand there."""
        with self._changed:
            self._refuse_closed()
            self.refuse_when_full(reports)
            self._waiting += reports

    def release(self, reports: int) -> None:
        with self._changed:
            self._waiting -= reports

    def submit(self, upload: Upload) -> Future[UploadResult]:
        """Queue an upload whose places were reserved."""
        pieces = in_pieces(upload)
        with self._changed:
            self._refuse_closed()
            for piece in pieces:
                self._queue.put(upload.campaign_id, piece.work, piece)
            self._changed.notify()
        if len(pieces) > 1:
            gather(upload.done, [piece.done for piece in pieces])
        return upload.done

    def run(self, step: Callable[[Connection], T], patience: float | None = None) -> T:
        """Do something in a transaction of its own, in turn, and wait for it; so many seconds at most, if told."""
        task = _Task(step)
        with self._changed:
            self._refuse_closed()
            self._queue.put(None, _ROW, task)
            self._changed.notify()
        try:
            result: T = task.done.result(patience)
        except TimeoutError:
            raise StorageError("storage/slow", f"The database took longer than {patience:g} seconds.") from None
        return result

    def close(self) -> None:
        """Finish what is queued, and stop."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def _refuse_closed(self) -> None:
        if not self.alive:
            raise StorageError("storage/unavailable", "The collector is shutting down.")

    def _run(self) -> None:
        while (group := self._next()) is not None:
            if isinstance(group, _Task):
                _settle(group.done, lambda task=group: self._alone(task))  # type: ignore[misc]
            else:
                self._commit(group)

    def _next(self) -> list[Upload] | _Task | None:
        """The next task, or all uploads that wait before it, up to the size of a group."""
        with self._changed:
            while not self._queue and not self._closing:
                self._changed.wait()
            if not self._queue:
                return None
            first = self._queue.take()
            if isinstance(first, _Task):
                return first
            group, reports, work = [first], len(first.reports), first.work
            while self._queue and isinstance(following := self._queue.peek(), Upload):
                reports, work = reports + len(following.reports), work + following.work
                if reports > self._group or work > _GROUP_BYTES:
                    break
                group.append(following)
                self._queue.take()
            return group

    def _store(self, group: list[Upload], again: bool = True) -> list[UploadResult | KeyveilError]:
        try:
            with self.database.write() as connection:
                return store(self.database, connection, group)
        except StorageError as reason:
            if reason.code != "storage/conflict" or not again:
                raise
            return self._store(group, again=False)  # a conflict with another collector's transaction; it is tried again

    def _alone(self, task: _Task) -> Any:
        with self.database.write() as connection:
            return task.step(connection)

    def _commit(self, group: list[Upload]) -> None:
        begin = time.perf_counter()
        try:
            outcomes = self._store(group)
        except Exception as reason:  # whatever the error was, no upload may be acknowledged
            failed = reason if isinstance(reason, KeyveilError) else _broken()
            outcomes = [failed] * len(group)
            self.failed_commits += 1
        self.commits += 1
        self.commit_seconds += time.perf_counter() - begin
        self.release(sum(upload.reserved for upload in group))
        for upload, outcome in zip(group, outcomes, strict=True):
            if isinstance(outcome, UploadResult):
                _settle(upload.done, lambda answer=outcome: answer)  # type: ignore[misc]
            else:
                _settle(upload.done, lambda refused=outcome: _throw(refused))  # type: ignore[misc]


def store(database: Database, connection: Connection, group: Sequence[Upload]) -> list[UploadResult | KeyveilError]:
    """Put the new reports of all uploads into the database; one outcome for each upload."""
    refusals = _closed(database, connection, group) | _not_enrolled(connection, group)
    taken = [upload for upload in group if upload not in refusals]
    reasons = _insert(database, connection, taken)
    counts: Counts = Counter()
    outcomes: list[UploadResult | KeyveilError] = []
    for upload in group:
        outcome = refusals.get(upload) or _answer(upload, reasons)
        outcomes.append(outcome)
        codes = [outcome.code] if isinstance(outcome, KeyveilError) else [code for _, code in outcome.refused]
        if isinstance(outcome, UploadResult) and outcome.duplicates:
            counts[upload.campaign_id, upload.bucket, DUPLICATE] += outcome.duplicates
        counts.update((upload.campaign_id, upload.bucket, code) for code in codes)
    count_refusals(database, connection, counts)
    return outcomes


def count_refusals(database: Database, connection: Connection, counts: Counts) -> None:
    names = ("campaign_id", "bucket", "code")
    rows = [dict(zip((*names, "count"), (*place, count), strict=True)) for place, count in counts.items()]
    database.add_up(connection, refusal, rows, "count", names)


def _closed(database: Database, connection: Connection, group: Sequence[Upload]) -> dict[Upload, KeyveilError]:
    """Uploads whose round no longer takes reports; the others' rounds stay open until we have committed."""
    numbers = sorted({upload.round_id for upload in group})
    states = connection.execute(
        select(round.c.id, round.c.state).where(round.c.id.in_(numbers)).order_by(round.c.id).with_for_update(read=True)
    )
    open_rounds = {number for number, state in states if state == "open"}
    refused = CampaignError("round/closed", "This round takes no more reports.")
    return {upload: refused for upload in group if upload.round_id not in open_rounds}


def _not_enrolled(connection: Connection, group: Sequence[Upload]) -> dict[Upload, KeyveilError]:
    """Uploads with a token that the campaign does not know."""
    asking = [upload for upload in group if upload.token_hash is not None]
    if not asking:
        return {}
    known = connection.execute(
        select(enrolment.c.campaign_id, enrolment.c.token_hash).where(
            enrolment.c.token_hash.in_([upload.token_hash for upload in asking])
        )
    )
    pairs = {(number, bytes(token)) for number, token in known}
    refused = AccessError("enrolment/unknown", "This enrolment token is not one of the campaign.")
    return {upload: refused for upload in asking if (upload.campaign_id, upload.token_hash) not in pairs}


Reasons = dict[tuple[Upload, bytes], str]
"""For every report that was not accepted: why."""


def _insert(database: Database, connection: Connection, uploads: Sequence[Upload]) -> Reasons:
    """Insert what is new; the rest gets its reason."""
    reasons: Reasons = {}
    by_round: dict[int, list[Upload]] = {}
    for upload in uploads:
        by_round.setdefault(upload.round_id, []).append(upload)
    for round_id in sorted(by_round):
        reasons.update(_insert_round(database, connection, round_id, by_round[round_id]))
    return reasons


def _insert_round(database: Database, connection: Connection, round_id: int, uploads: Sequence[Upload]) -> Reasons:
    reasons: Reasons = {}
    fresh: dict[bytes, tuple[Upload, bytes]] = {}
    repeats: list[tuple[Upload, bytes, bytes]] = []  # of an id that this group holds already
    there: dict[bytes, bytes | None] = {}  # what the database had before us
    second = _second(database, connection, round_id, uploads)
    for upload in uploads:
        for number, payload in upload.reports if upload not in second else ():
            if number not in fresh:
                fresh[number] = upload, payload
            else:
                repeats.append((upload, number, payload))
    if fresh:
        about = {"round_id": round_id, "shard": database.shard, "bucket": uploads[0].bucket, "state": UNFOLDED}
        group: int = connection.execute(
            insert(batch).values(**about, reports=len(fresh)).returning(batch.c.id)
        ).scalar_one()
        rows = [(round_id, number, fresh[number][1], group) for number in sorted(fresh)]
        inserted = database.insert_reports(connection, rows)
        if inserted < len(rows):
            found = stored_reports(connection, round_id, list(fresh))
            there = {number: payload for number, payload, owner in found if owner != group}
            here = batch.c.id == group
            counted = update(batch).where(here).values(reports=inserted)
            connection.execute(counted if inserted else delete(batch).where(here))
    repeats += [(upload, number, payload) for number, (upload, payload) in fresh.items() if number in there]
    for upload, number, payload in repeats:
        kept = there[number] if number in there else fresh[number][1]
        reasons[upload, number] = DUPLICATE if kept in (None, payload) else CONFLICT
    for upload in second:
        reasons.update(_again(connection, round_id, upload))
    _unclaim(connection, round_id, [upload for upload, _ in reasons if upload not in second])
    return reasons


def _second(database: Database, connection: Connection, round_id: int, uploads: Sequence[Upload]) -> list[Upload]:
    """Uploads of people who have reported in this round already; the others have from now on.

    Claims are made in the order of pseudonyms, so that processes cannot deadlock.
    """
    second = []
    for upload in sorted(uploads, key=lambda upload: upload.pseudonym or b""):
        if upload.pseudonym is not None and upload.reports:
            mark = {"round_id": round_id, "pseudonym": upload.pseudonym}
            if not database.insert_new(connection, participation, mark):
                second.append(upload)
    return second


def _unclaim(connection: Connection, round_id: int, uploads: Sequence[Upload]) -> None:
    """Nothing of these uploads was taken, so their people may still report."""
    marks = [upload.pseudonym for upload in uploads if upload.pseudonym is not None]
    if marks:
        here = participation.c.round_id == round_id
        connection.execute(delete(participation).where(here, participation.c.pseudonym.in_(marks)))


def _again(connection: Connection, round_id: int, upload: Upload) -> Reasons:
    """A person who has reported may send the same report again, and no other."""
    stored = {
        number: payload for number, payload, _ in stored_reports(connection, round_id, [n for n, _ in upload.reports])
    }

    def reason(number: bytes, payload: bytes) -> str:
        if number not in stored:
            return "enrolment/used"
        return DUPLICATE if stored[number] in (None, payload) else CONFLICT

    return {(upload, number): reason(number, payload) for number, payload in upload.reports}


def stored_reports(
    connection: Connection, round_id: int, ids: Sequence[bytes]
) -> list[tuple[bytes, bytes | None, int]]:
    """Those of some reports that are in the database: id, payload (None after the scrub) and group."""
    found = []
    for start in range(0, len(ids), _ASKED_AT_ONCE):
        rows = connection.execute(
            select(report.c.id, report.c.payload, report.c.batch_id).where(
                report.c.round_id == round_id, report.c.id.in_(ids[start : start + _ASKED_AT_ONCE])
            )
        )
        found += [
            (bytes(number), None if payload is None else bytes(payload), owner) for number, payload, owner in rows
        ]
    return found


def _answer(upload: Upload, reasons: Reasons) -> UploadResult:
    left_out = [(number, reasons[upload, number]) for number, _ in upload.reports if (upload, number) in reasons]
    refused = tuple((number, code) for number, code in left_out if code != DUPLICATE)
    duplicates = len(left_out) - len(refused) + upload.repeated
    return UploadResult(len(upload.reports) - len(left_out), duplicates, upload.refused + refused)


def _settle(done: Future[Any], result: Callable[[], Any]) -> None:
    if done.set_running_or_notify_cancel():
        try:
            done.set_result(result())
        except BaseException as reason:
            done.set_exception(reason)


def _throw(reason: KeyveilError) -> UploadResult:
    raise reason


def _broken() -> StorageError:
    return StorageError("storage/unavailable", "The reports could not be stored; send the same ones again later.")
