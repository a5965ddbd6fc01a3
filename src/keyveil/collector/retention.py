"""Forgetting payloads: what has been folded and kept as long as the campaign said is overwritten with nothing.

Ids stay, so that a report cannot be counted twice; after the scrub any repeat of an id is a duplicate.
"""

from __future__ import annotations

from sqlalchemy import Connection, select, update

from keyveil.collector.repository import Repository
from keyveil.collector.tables import FOLDED, SCRUBBED, SET_ASIDE, batch, report
from keyveil.collector.writer import Writer

_AT_ONCE = 1000  # groups of reports in one transaction


def scrub(writer: Writer, repository: Repository, bucket: int, bucket_hours: int) -> bool:
    """Overwrite some payloads that are due; whether there may be more."""
    with writer.database.read() as connection:
        due = [
            number
            for stored in repository.every(connection)
            for one in stored.rounds
            for number in _due(connection, one.id, bucket - stored.campaign.retention_days * 24 // bucket_hours)
        ][:_AT_ONCE]
    if not due:
        return False

    def step(connection: Connection) -> None:
        connection.execute(update(report).where(report.c.batch_id.in_(due)).values(payload=None))
        connection.execute(update(batch).where(batch.c.id.in_(due)).values(state=SCRUBBED))

    writer.run(step)
    return True


def _due(connection: Connection, round_id: int, last: int) -> list[int]:
    """Folded groups of a round that arrived in a bucket up to the last one."""
    found = connection.execute(
        select(batch.c.id)
        .where(batch.c.round_id == round_id, batch.c.state.in_((FOLDED, SET_ASIDE)), batch.c.bucket <= last)
        .order_by(batch.c.id)
        .limit(_AT_ONCE)
    )
    return [number for (number,) in found]
