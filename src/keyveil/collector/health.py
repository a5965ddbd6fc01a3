"""Whether a report that is sent now would be stored and counted, and the numbers that operators watch.

Folding happens in the background, so nobody who uploads notices when it stops. A ``FoldingHealth`` is told of every
pass over the running campaigns, and knows when the last one went through.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from keyveil.collector.status import all_set_aside, all_unfolded
from keyveil.collector.writer import Writer
from keyveil.core.errors import KeyveilError, StorageError

FAILURES = 3  # passes that fail one after the other before a collector says that it does not count
_PROBED = 2.0  # seconds for which the outcome of a small write is believed
_PATIENCE = 4.0  # seconds after which that write has failed
STALLED = 120.0  # seconds without a finished pass that say the same; the first may have to compile kernels


Held = Callable[[], timedelta | None]
"""How far the machine's clock is ahead of what is believed; nothing if it is believed."""


class FoldingHealth:
    """Passes over the running campaigns: how many failed, and how long ago the last one went through."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._finished = clock()
        self._failing = 0  # passes that failed since one went through
        self._reason = ""
        self.watched = False  # whether somebody calls for passes regularly
        self.failures = 0

    @property
    def age(self) -> float:
        """Seconds since a pass went through, or since the start."""
        return self._clock() - self._finished

    @contextmanager
    def watching(self) -> Iterator[None]:
        """A pass: it went through unless something is raised."""
        try:
            yield
        except Exception as reason:
            self.failures += 1
            self._failing += 1
            self._reason = reason.code if isinstance(reason, KeyveilError) else type(reason).__name__
            raise
        self._finished, self._failing = self._clock(), 0

    def refuse_when_dead(self) -> None:
        """Raise if reports are stored but no longer counted."""
        if self._failing >= FAILURES:
            raise StorageError("storage/not-counting", f"Stored reports cannot be counted now ({self._reason}).")
        if self.watched and self.age > STALLED:
            raise StorageError("storage/not-counting", f"Stored reports were not looked at for {self.age:.0f} seconds.")


class Health:
    """What a collector can say about itself: whether it is ready, and its numbers."""

    def __init__(self, writer: Writer, folding: FoldingHealth, held: Held, least_free: int) -> None:
        self._writer, self._folding, self._held, self._least_free = writer, folding, held, least_free
        self._probed: tuple[float, StorageError | None] = (-_PROBED, None)

    def refuse_unless_ready(self) -> None:
        """Raise the reason why a report that is sent now would not be stored or not be counted."""
        if not self._writer.alive:
            raise StorageError("storage/unavailable", "The collector is shutting down.")
        self._folding.refuse_when_dead()
        free = self._writer.database.free_bytes
        if free is not None and free < self._least_free:
            raise StorageError("storage/full", f"The disk of the database has only {free >> 20} MiB left.")
        when, refused = self._probed
        if time.monotonic() - when > _PROBED:  # whoever asks often must not make us write often
            refused = self._probe()
            self._probed = time.monotonic(), refused
        if refused is not None:
            raise refused

    def gauges(self) -> dict[str, float]:
        """Numbers for the metrics: queue, unfolded and set-aside reports, commits, folding, room on the disk."""
        with self._writer.database.read() as connection:
            stored = {"unfolded_reports": all_unfolded(connection), "set_aside_reports": all_set_aside(connection)}
        return {**self.own_gauges(), **stored}

    def own_gauges(self) -> dict[str, float]:
        """Those numbers that need no database, so that they can be told when there is none."""
        free = self._writer.database.free_bytes
        return {
            "waiting_reports": self._writer.waiting,
            "commits": self._writer.commits,
            "commit_seconds": self._writer.commit_seconds,
            "failed_commits": self._writer.failed_commits,
            "failed_folds": self._folding.failures,
            "fold_age_seconds": self._folding.age,
            "clock_held_seconds": abs((self._held() or timedelta()).total_seconds()),
            **({} if free is None else {"free_bytes": free}),
        }

    def failures(self) -> dict[str, int]:
        """How often the storage failed, by the code of what was wrong with it."""
        return dict(self._writer.database.failures)

    def _probe(self) -> StorageError | None:
        """What happens to a small write now."""
        try:
            self._writer.run(self._writer.database.probe, patience=_PATIENCE)
        except StorageError as reason:
            return reason
        return None
