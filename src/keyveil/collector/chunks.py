"""Counts in rows: a tally or a sketch is stored in chunks, and only those chunks that change are written.

Each process adds to rows of its own (``shard``); all of them together are the counts of a round.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Table, insert, select, update

from keyveil.core.tally import Tally

CHUNK = 8192  # counts in one row


def read_counts(
    connection: Connection, table: Table, shape: tuple[int, ...], fingerprint: bytes, of: Mapping[str, object]
) -> Tally:
    """The counts of all shards, from the rows of a table whose columns have the values ``of``."""
    counts, reports = np.zeros(int(np.prod(shape)), dtype=np.int64), 0
    where = [table.c[name] == value for name, value in of.items()]
    for chunk, folded, data in connection.execute(select(table.c.chunk, table.c.reports, table.c.counts).where(*where)):
        part = np.frombuffer(data, "<i8")
        counts[chunk * CHUNK : chunk * CHUNK + len(part)] += part
        reports += folded
    return Tally(fingerprint, reports, counts.reshape(shape))


def add_counts(connection: Connection, table: Table, counted: Tally, of: Mapping[str, object]) -> None:
    """Add counts to the rows of one shard, whose columns have the values ``of``."""
    flat: NDArray[np.int64] = counted.counts.reshape(-1)
    for chunk in range(-(-flat.size // CHUNK)):
        part, reports = flat[chunk * CHUNK : (chunk + 1) * CHUNK], counted.reports if chunk == 0 else 0
        if not reports and not part.any():
            continue
        place = [table.c[name] == value for name, value in {**of, "chunk": chunk}.items()]
        there = connection.execute(
            select(table.c.reports, table.c.counts).where(*place).with_for_update()
        ).one_or_none()
        if there is None:
            row = {**of, "chunk": chunk, "reports": reports, "counts": part.astype("<i8").tobytes()}
            connection.execute(insert(table).values(**row))
        else:
            total = np.frombuffer(there.counts, "<i8") + part
            changed = {"reports": there.reports + reports, "counts": total.astype("<i8").tobytes()}
            connection.execute(update(table).where(*place).values(**changed))
