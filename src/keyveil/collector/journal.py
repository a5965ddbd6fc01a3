"""The audit log: every administrative act and every step of a campaign, each entry bound to the one before it.

The hash of an entry covers its fields and the hash before it, so that no entry can be changed, removed or put in
between without all later hashes changing. Whoever holds an earlier hash can tell; cutting off the end can only be told
from a hash that was noted elsewhere. Entries say nothing about devices or reports but counts. Acts of people are known
to the minute, steps that the collector takes by itself (which the last report may have caused) to a bucket of hours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import msgspec
from sqlalchemy import Connection, insert, select

from keyveil.collector.buckets import BUCKET_HOURS
from keyveil.collector.tables import journal
from keyveil.collector.writer import Writer
from keyveil.core.canonical import canonical
from keyveil.core.chain import FIELDS, START, entry_hash
from keyveil.core.clock import Clock

COLLECTOR = "collector"  # who acts when nobody does: the tick
OPERATOR = "operator"  # whoever runs the process

_AT_ONCE = 1000  # entries in one read

T = TypeVar("T")


@dataclass(frozen=True)
class Note:
    """Something that happened, on its way into the journal."""

    action: str  # such as campaign.open
    subject: str
    detail: Mapping[str, Any]


Notes = list[Note]


@dataclass(frozen=True)
class Journal:
    """Steps in transactions, each written down in the transaction that it is a part of."""

    writer: Writer
    clock: Clock

    def run(self, actor: str, step: Callable[[Connection, Notes], T]) -> T:
        """Take a step and write down what it noted, in one transaction.

        Notes are written last: entries come one after the other, and nobody should wait for a step's other locks.
        """

        def whole(connection: Connection) -> T:
            notes: Notes = []
            result = step(connection, notes)
            self._append(connection, actor, notes)
            return result

        return self.writer.run(whole)

    def note(self, actor: str, action: str, subject: str, **detail: Any) -> None:
        """Write down something that changed nothing in the database."""
        self.run(actor, lambda _, notes: notes.append(Note(action, subject, detail)))

    def entries(self, after: int = 0) -> Iterator[dict[str, Any]]:
        """All entries beyond a number, in order, as ``core.chain.verify`` reads them."""
        while True:
            wanted = select(journal).where(journal.c.number > after).order_by(journal.c.number).limit(_AT_ONCE)
            with self.writer.database.read() as connection:
                rows = connection.execute(wanted).all()
            for row in rows:
                fields = (row.number, row.at, row.actor, row.action, row.subject, msgspec.json.decode(row.detail))
                yield {**dict(zip(FIELDS, fields, strict=True)), "hash": bytes(row.hash).hex()}
            if len(rows) < _AT_ONCE:
                return
            after = rows[-1].number

    def _append(self, connection: Connection, actor: str, notes: Notes) -> None:
        if not notes:
            return
        self.writer.database.lock_journal(connection)
        last = connection.execute(
            select(journal.c.number, journal.c.hash).order_by(journal.c.number.desc()).limit(1)
        ).one_or_none()
        number, before = (0, START) if last is None else (last.number, bytes(last.hash))
        at = _at(self.clock(), actor)
        for note in notes:
            number += 1
            fields = (number, at, actor, note.action, note.subject, dict(note.detail))
            before = entry_hash(before, dict(zip(FIELDS, fields, strict=True)))
            row = dict(zip(FIELDS, (*fields[:-1], canonical(fields[-1])), strict=True))
            connection.execute(insert(journal).values(**row, hash=before))


def _at(moment: datetime, actor: str) -> str:
    moment = moment.astimezone(UTC)
    if actor == COLLECTOR:
        moment -= timedelta(hours=moment.hour % BUCKET_HOURS, minutes=moment.minute)
    return f"{moment:%Y-%m-%dT%H:%MZ}"
