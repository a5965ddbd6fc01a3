"""Sessions: whoever has signed in with a token, without the token being sent again.

A session is a random secret in a cookie, of which the database holds the hash alone. It is bound to its token and ends
with it: every request asks whether the token is still good. It also ends after some minutes without a request, after
some hours in any case, and when its owner signs out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, delete, insert, select, update

from keyveil.collector.access import AccessControl
from keyveil.collector.journal import Note, Notes
from keyveil.collector.tables import session
from keyveil.collector.tokens import Holder, hashed, new_token
from keyveil.core.errors import AccessError, StorageError

MOST_SESSIONS = 20  # of one token; the one that was idle longest makes room
_LONGEST = 128  # characters of a secret


class Started(NamedTuple):
    """A new session: the secret, which is told this once, and who signed in."""

    secret: str
    holder: Holder


@dataclass(frozen=True)
class Sessions:
    """The sessions of one collector."""

    access: AccessControl
    idle_minutes: int = 30
    hours: int = 12

    def start(self, token: str) -> Started:
        """Sign in with a token that is good; what has expired is removed on the way."""
        holder = self.access.holder(token)
        if holder is None:
            raise AccessError("access/unknown", "This token is not known here, has expired or was revoked.")
        secret, now, bound = new_token(), self._now, hashed(token)

        def step(connection: Connection, notes: Notes) -> None:
            connection.execute(delete(session).where(~self._alive(now)))
            mine = select(session.c.secret_hash).where(session.c.token_hash == bound)
            oldest = mine.order_by(session.c.seen.desc(), session.c.began.desc()).offset(MOST_SESSIONS - 1)
            for (known,) in connection.execute(oldest).all():
                connection.execute(delete(session).where(session.c.secret_hash == known))
            row = {"secret_hash": hashed(secret), "token_hash": bound, "began": now, "seen": now}
            connection.execute(insert(session).values(row))
            notes.append(Note("session.start", holder.name, {}))

        self.access.service.journal.run(holder.name, step)
        return Started(secret, holder)

    def admit(self, secret: str) -> Holder | None:
        """Who is signed in under a secret; nobody if the session or its token is no longer good."""
        if not 0 < len(secret) <= _LONGEST:
            return None
        service, now, mine = self.access.service, self._now, session.c.secret_hash == hashed(secret)
        with service.database.read() as connection:
            row = connection.execute(select(session).where(mine, self._alive(now))).first()
        if row is None:
            return None
        holder = self.access.holder_of(bytes(row.token_hash))
        if holder is not None and row.seen != now:
            seen = update(session).where(mine).values(seen=now)
            try:
                service.writer.run(lambda connection: connection.execute(seen))
            except StorageError:
                pass  # a full disk must not lock out whoever looks what is wrong
        return holder

    def end(self, secret: str) -> None:
        """Sign out."""
        mine = session.c.secret_hash == hashed(secret[:_LONGEST])
        self.access.service.writer.run(lambda connection: connection.execute(delete(session).where(mine)))

    def _alive(self, now: int) -> ColumnElement[bool]:
        """Which rows have not expired."""
        return (session.c.began > now - 60 * self.hours) & (session.c.seen > now - self.idle_minutes)

    @property
    def _now(self) -> int:
        """By the believed time, in minutes: a clock that jumps signs nobody out and keeps nobody in."""
        return int(self.access.service.clock().timestamp()) // 60
