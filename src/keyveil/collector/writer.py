"""The one thread that writes: uploads that wait together are committed together.

While a commit is written to the disk the next uploads queue up, and the next commit stores all of them. An upload is
acknowledged after the commit that holds it and never before; what a full queue cannot take is refused at once, and
nothing of it is kept. Large uploads are stored in pieces, each in a commit of its own, so that small ones need not wait
for all of them (``queueing``); they are acknowledged after the last piece.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sqlalchemy import Connection

from keyveil.collector.database import Database
from keyveil.collector.pieces import gather, in_pieces
from keyveil.collector.queueing import FairQueue
from keyveil.collector.storing import ROW_BYTES, Upload, UploadResult, check_together, store
from keyveil.core.errors import KeyveilError, StorageError

_GROUP_BYTES = 2 << 20  # bytes after which a commit takes no further uploads

# A commit costs about as much as forty reports, whatever it holds. While uploads come one after the other, the next
# commit waits this long for more of them; a lone upload never waits (docs/decisions/0099).
_GATHER = 0.004  # seconds
_MANY = 4  # uploads in the last commit from which on more are expected

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class _Task:
    """Something else to do in a transaction of its own."""

    step: Callable[[Connection], Any]
    done: Future[Any] = field(default_factory=Future)


class Writer:
    """Takes uploads and tasks in order; ``waiting`` reports at most may queue up."""

    def __init__(self, database: Database, waiting: int, group: int, sketches: bool = False) -> None:
        self.database, self.sketches = database, sketches  # whether folds keep sketches beside tallies
        self.commits, self.failed_commits, self.commit_seconds = 0, 0, 0.0
        self.enrolled_commits = 0  # those whose traces on the disk would tell whose report is whose
        self._most, self._group = waiting, group
        self._queue: FairQueue[Upload | _Task] = FairQueue()
        self._waiting = 0
        self._last = 0  # uploads in the last commit
        self._changed = threading.Condition()
        self._closing = self._ended = False
        self._thread = threading.Thread(target=self._run, name="keyveil-writer", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Reports that are not on the disk yet."""
        return self._waiting

    @property
    def alive(self) -> bool:
        return not (self._ended or self._closing)

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
            self._queue.put(None, ROW_BYTES, task)
            self._changed.notify()
        try:
            result: T = task.done.result(patience)
        except TimeoutError:
            with self.database.counting_failures():
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
        try:
            while (group := self._next()) is not None:
                if isinstance(group, _Task):
                    _settle(group.done, lambda task=group: self._alone(task))  # type: ignore[misc]
                else:
                    self._commit(group)
        finally:
            self._ended = True

    def _next(self) -> list[Upload] | _Task | None:
        """The next task, or all uploads that wait before it, up to the size of a group."""
        with self._changed:
            while not self._queue and not self._closing:
                self._changed.wait()
            few = len(self._queue) < self._last and not self._closing
        if few and self._last >= _MANY:
            time.sleep(_GATHER)
        with self._changed:
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
            self._last = len(group)
            return group

    def _store(self, group: list[Upload], again: bool = True) -> list[UploadResult | KeyveilError]:
        try:
            with self.database.write() as connection:
                return store(self.database, connection, group)
        except StorageError as reason:
            if reason.code != "storage/conflict" or not again:
                raise
            return self._store(group, again=False)  # a conflict with another collector's transaction; it is tried again

    def _checked(self, group: list[Upload]) -> list[Upload]:
        """The group with all reports checked; an upload on which that fails gets its error and holds up no other."""
        try:
            return check_together(group)
        except Exception:
            good: list[Upload] = []
            for upload in group:
                try:
                    good += check_together([upload])
                except Exception as reason:
                    self.release(upload.reserved)
                    _settle(upload.done, lambda refused=reason: _throw(refused))  # type: ignore[misc]
            return good

    def _alone(self, task: _Task) -> Any:
        with self.database.write() as connection:
            return task.step(connection)

    def _commit(self, group: list[Upload]) -> None:
        begin = time.perf_counter()
        group = self._checked(group)
        if not group:
            return
        try:
            outcomes = self._store(group)
        except Exception as reason:  # whatever the error was, no upload may be acknowledged
            failed = reason if isinstance(reason, KeyveilError) else _broken()
            outcomes = [failed] * len(group)
            self.failed_commits += 1
        self.commits += 1
        self.enrolled_commits += any(upload.token_hash is not None for upload in group)
        self.commit_seconds += time.perf_counter() - begin
        self.release(sum(upload.reserved for upload in group))
        for upload, outcome in zip(group, outcomes, strict=True):
            if isinstance(outcome, UploadResult):
                _settle(upload.done, lambda answer=outcome: answer)  # type: ignore[misc]
            else:
                _settle(upload.done, lambda refused=outcome: _throw(refused))  # type: ignore[misc]


def _settle(done: Future[Any], result: Callable[[], Any]) -> None:
    if done.set_running_or_notify_cancel():
        try:
            done.set_result(result())
        except BaseException as reason:
            done.set_exception(reason)


def _throw(reason: Exception) -> UploadResult:
    raise reason


def _broken() -> StorageError:
    return StorageError("storage/unavailable", "The reports could not be stored; send the same ones again later.")
