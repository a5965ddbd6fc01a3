"""The time as the collector believes it: a clock that jumps is held back, so that no round closes and no payload is
forgotten because a machine woke up in another year.

The database keeps the latest time that was believed. The machine's clock is believed while it moves as fast as the
process's own steady clock does, give or take some hours, or, at a start, if it is not far from what the database last
saw. Otherwise time goes on from what was believed, by the steady clock, until the machine's clock has kept its new pace
for an hour, or an administrator confirms it. A jump of more than a month is believed only when it is confirmed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection, insert, select, update

from keyveil.collector import logs
from keyveil.collector.journal import COLLECTOR, Journal, Note, Notes
from keyveil.collector.tables import clock as table
from keyveil.collector.writer import Writer
from keyveil.core.clock import Clock

Steady = Callable[[], float]
"""Seconds that only ever move forward, at the pace of time, from an unknown beginning."""

AWAY = timedelta(days=3)  # for how long all processes may have been down without a question
_JUMP = timedelta(hours=6)  # less than a bucket of arrivals is no jump
_KEEPS_PACE = timedelta(hours=1)  # after which a changed clock is believed,
_MOST = timedelta(days=31)  # unless it jumped farther than this
_SLACK = timedelta(minutes=10)  # between two looks at a clock that keeps pace, and two writes of the time
_ROW = 1

log = logs.logger()


class BelievedClock:
    """A ``Clock`` that goes on steadily when the machine's clock jumps."""

    def __init__(self, writer: Writer, machine: Clock, steady: Steady = time.monotonic, away: timedelta = AWAY) -> None:
        self._writer, self._machine, self._steady = writer, machine, steady
        self._journal = Journal(writer, self)
        self._lock = threading.Lock()
        self._known: datetime | None  # the time in the database when it was last looked at
        self._suspect: tuple[timedelta, float] | None = None  # how far off the machine is, and since when
        wall = self._wall()
        self._known = seen = self._seen()
        held = seen is not None and not -_JUMP <= wall - seen <= away
        self._base, self._since = seen if held and seen is not None else wall, steady()

    def __call__(self) -> datetime:
        """The present moment, as far as it is believed."""
        wall, expected = self._wall(), self._expected()
        return expected if self._jumped(wall, expected) else wall

    @property
    def held(self) -> timedelta | None:
        """How far the machine's clock is ahead of what is believed; nothing if it is believed."""
        wall, expected = self._wall(), self._expected()
        return wall - expected if self._jumped(wall, expected) else None

    def look(self) -> bool:
        """Compare the clocks; returns whether the machine's clock is believed. Called with every tick."""
        with self._lock:
            seen = self._seen()
            expected = self._expected()
            set_back = self._known is not None and seen is not None and self._known - seen > _JUMP
            if seen is not None and (seen > expected or set_back):
                self._set(seen)  # another process knows better, or an administrator set the time back
                expected = seen
            self._known = seen
            wall = self._wall()
            off = wall - expected
            if self._jumped(wall, expected):
                if not self._keeps_pace(off):
                    return False
                self._write(wall, "clock.believed", off)
            elif seen is None or wall - seen >= _SLACK:
                self._write(wall)
            self._suspect = None
            self._set(wall)
            return True

    def confirm(self, actor: str) -> None:
        """Believe the machine's clock from now on, because an administrator says so."""
        with self._lock:
            wall = self._wall()
            off = wall - self._expected()
            self._set(wall)
            self._suspect = None
            self._write(wall, "clock.confirm", off, actor)

    # -- inside -------------------------------------------------------------------------------------------------

    def _wall(self) -> datetime:
        return self._machine().astimezone(UTC)

    def _expected(self) -> datetime:
        return self._base + timedelta(seconds=self._steady() - self._since)

    def _set(self, moment: datetime) -> None:
        self._base, self._since = moment, self._steady()

    def _jumped(self, wall: datetime, expected: datetime) -> bool:
        return abs(wall - expected) > _JUMP

    def _keeps_pace(self, off: timedelta) -> bool:
        """Whether the machine's clock has been off by the same for long enough, and not by too much."""
        now = self._steady()
        if self._suspect is None or abs(self._suspect[0] - off) > _SLACK:
            if self._suspect is None:
                log.warning("The clock has jumped: it is not believed yet.", hours=round(off / timedelta(hours=1)))
                self._journal.note(COLLECTOR, "clock.held", "clock", hours=round(off / timedelta(hours=1)))
            self._suspect = off, now
        return abs(off) <= _MOST and now - self._suspect[1] >= _KEEPS_PACE.total_seconds()

    def _seen(self) -> datetime | None:
        with self._writer.database.read() as connection:
            seconds = connection.execute(select(table.c.seen).where(table.c.id == _ROW)).scalar()
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC)

    def _write(self, wall: datetime, action: str = "", off: timedelta = timedelta(), actor: str = COLLECTOR) -> None:
        self._known = wall.replace(microsecond=0)

        def step(connection: Connection, notes: Notes) -> None:
            seen = int(wall.timestamp())
            if not connection.execute(update(table).where(table.c.id == _ROW).values(seen=seen)).rowcount:
                connection.execute(insert(table).values(id=_ROW, seen=seen))
            if action:
                notes.append(Note(action, "clock", {"hours": round(off / timedelta(hours=1))}))

        self._journal.run(actor, step)
