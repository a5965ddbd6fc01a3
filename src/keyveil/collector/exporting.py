"""The reports of a round as they came, for whoever wants to check the collector's counting."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sqlalchemy import select

from keyveil.collector.database import Database
from keyveil.collector.repository import StoredRound
from keyveil.collector.tables import report

if TYPE_CHECKING:
    import pyarrow as pa

_AT_ONCE = 50_000


def exported(database: Database, stored_round: StoredRound) -> Iterator[pa.RecordBatch]:
    """The reports of a round in blocks with the columns round, id and payload, sorted by id, not by arrival."""
    import pyarrow as pa

    last = b""
    while True:
        with database.read() as connection:
            rows = connection.execute(
                select(report.c.id, report.c.payload)
                .where(report.c.round_id == stored_round.id, report.c.id > last)
                .order_by(report.c.id)
                .limit(_AT_ONCE)
            ).all()
        if not rows:
            return
        last = bytes(rows[-1].id)
        yield pa.record_batch(
            {
                "round": pa.array([stored_round.document.number] * len(rows), pa.int32()),
                "id": pa.array([bytes(row.id) for row in rows], pa.binary(16)),
                "payload": pa.array([row.payload and bytes(row.payload) for row in rows], pa.binary()),
            }
        )
