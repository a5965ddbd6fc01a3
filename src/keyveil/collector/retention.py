"""Forgetting: payloads as soon as the campaign said, ids where the operator says so, and what was archived or deleted.

Payloads are overwritten once they have been folded and kept for the campaign's ``retention_days``. Ids stay while a
round is open, so that no report counts twice; a closed round takes nothing, so its ids may go after some days. Of an
archived campaign only documents, tallies and counts stay; of a deleted one its name and hash.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update

from keyveil.collector import tables
from keyveil.collector.buckets import days_before
from keyveil.collector.repository import Repository
from keyveil.collector.tables import IDS, PAYLOADS, SCRUBBED, UNFOLDED, batch, report
from keyveil.collector.writer import Writer

_AT_ONCE = 1000  # groups of reports in one transaction

_GONE = ("archived", "deleted")  # states in which nothing about single reports is kept


def forget(writer: Writer, repository: Repository, bucket: int, id_days: int | None, timely: bool) -> bool:
    """Forget some of what is due; whether there may be more. Nothing is due while the clock is not believed, but what
    an administrator archived or deleted."""
    target = PAYLOADS if id_days is None else IDS
    table, owner = tables.round, tables.campaign
    wanted = (
        select(table.c.id, table.c.state, table.c.closed, table.c.forgotten, owner.c.hash, owner.c.state.label("of"))
        .join(owner, owner.c.id == table.c.campaign_id)
        .where((table.c.forgotten < target) | (owner.c.state.in_(_GONE) & (table.c.forgotten < IDS)))
        .order_by(table.c.id)
    )
    with writer.database.read() as connection:
        rows = connection.execute(wanted).all()
        deleted = connection.execute(_deleted()).scalars().all()
        keep = {row.hash: repository.retention_days(connection, row.hash) for row in rows if row.of not in _GONE}
    more = False
    for row in rows:
        if row.of in _GONE:
            more |= _forget_all(writer, row.id)
        elif timely:
            last = days_before(bucket, keep[row.hash])
            ended = row.closed is not None and id_days is not None and row.closed <= days_before(bucket, id_days)
            more |= _forget_some(writer, row, last, ended)
    for number in deleted:
        writer.run(lambda connection, number=number: _remove(connection, number))  # type: ignore[misc]
        more = True
    return more


def _forget_some(writer: Writer, row: Any, last: int, ended: bool) -> bool:
    """Payloads of a round that arrived up to the last bucket; and its ids, once those payloads are gone."""
    with writer.database.read() as connection:
        due = _groups(connection, row.id, batch.c.state.not_in((UNFOLDED, SCRUBBED)), batch.c.bucket <= last)
        left = bool(due) or bool(_groups(connection, row.id, batch.c.state != SCRUBBED))
    if due:

        def step(connection: Connection) -> None:
            connection.execute(update(report).where(report.c.batch_id.in_(due)).values(payload=None))
            connection.execute(update(batch).where(batch.c.id.in_(due)).values(state=SCRUBBED))

        writer.run(step)
        return True
    if row.state != "folded" or left:
        return False
    if ended:
        return _forget_all(writer, row.id)
    if row.forgotten < PAYLOADS:
        writer.run(lambda connection: _mark(connection, row.id, PAYLOADS))
    return False


def _forget_all(writer: Writer, round_id: int) -> bool:
    """Some rows of reports of a round that is over; in the end its groups are added up by their buckets."""

    def step(connection: Connection) -> None:
        groups = _groups(connection, round_id, select(report.c.id).where(report.c.batch_id == batch.c.id).exists())
        if groups:
            connection.execute(delete(report).where(report.c.batch_id.in_(groups)))
            return
        here = batch.c.round_id == round_id
        totals = connection.execute(
            select(batch.c.bucket, func.sum(batch.c.reports)).where(here).group_by(batch.c.bucket)
        ).all()
        connection.execute(delete(batch).where(here))
        for bucket, reports in totals:
            about = {"round_id": round_id, "shard": 0, "bucket": bucket, "reports": int(reports), "state": SCRUBBED}
            connection.execute(insert(batch).values(**about))
        _mark(connection, round_id, IDS)

    writer.run(step)
    return True


def _groups(connection: Connection, round_id: int, *which: Any) -> Sequence[int]:
    found = select(batch.c.id).where(batch.c.round_id == round_id, *which).order_by(batch.c.id).limit(_AT_ONCE)
    return connection.execute(found).scalars().all()


def _mark(connection: Connection, round_id: int, forgotten: int) -> None:
    connection.execute(update(tables.round).where(tables.round.c.id == round_id).values(forgotten=forgotten))


def _deleted() -> Any:
    """Deleted campaigns that have something left, but no single reports."""
    owner, table = tables.campaign, tables.round
    rounds = select(table.c.id).where(table.c.campaign_id == owner.c.id)
    kept = select(tables.enrolment.c.number).where(tables.enrolment.c.campaign_id == owner.c.id)
    return select(owner.c.id).where(
        owner.c.state == "deleted", (rounds.exists() | kept.exists()), ~rounds.where(table.c.forgotten < IDS).exists()
    )


def _remove(connection: Connection, campaign_id: int) -> None:
    """All rows of a deleted campaign but its own."""
    rounds = select(tables.round.c.id).where(tables.round.c.campaign_id == campaign_id)
    for table in (batch, tables.tally, tables.sketch, tables.participation):
        connection.execute(delete(table).where(table.c.round_id.in_(rounds)))
    for table in (tables.enrolment, tables.refusal, tables.round):
        connection.execute(delete(table).where(table.c.campaign_id == campaign_id))
