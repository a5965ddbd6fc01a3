"""The reports of a round as they came, for whoever wants to check the collector's counting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import Row, select

from keyveil.campaign.report_schema import report_schema
from keyveil.collector.database import Database
from keyveil.collector.repository import StoredRound
from keyveil.collector.tables import report

if TYPE_CHECKING:
    import pyarrow as pa

_AT_ONCE = 50_000


def exported(database: Database, stored_round: StoredRound) -> Iterator[pa.RecordBatch]:
    """The reports of a round in blocks, sorted by id, not by arrival; an empty one with the schema comes first."""
    import pyarrow as pa

    schema = report_schema(stored_round.document)
    rows = _after(b"", database, stored_round)  # which may fail, so before anything is answered
    yield pa.record_batch([pa.array([], kind) for kind in schema.types], schema)
    while rows:
        columns = [[bytes(row.id) for row in rows], [row.payload and bytes(row.payload) for row in rows]]
        yield pa.record_batch([pa.array(one, kind) for one, kind in zip(columns, schema.types, strict=True)], schema)
        rows = _after(bytes(rows[-1].id), database, stored_round)


def _after(last: bytes, database: Database, stored_round: StoredRound) -> Sequence[Row[Any, Any]]:
    with database.read() as connection:
        return connection.execute(
            select(report.c.id, report.c.payload)
            .where(report.c.round_id == stored_round.id, report.c.id > last)
            .order_by(report.c.id)
            .limit(_AT_ONCE)
        ).all()
