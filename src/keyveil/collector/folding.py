"""From stored reports to tallies: groups of reports are counted and marked in one transaction.

So a report is counted exactly once, whatever crashes, and an estimate costs time in proportion to keys, not reports.
Reports that cannot be counted, although they passed the check when they came, are set aside: they stay stored, are
shown, and no longer hold up the others. Where the operator wants it, a sketch grows beside the tally (``sketching``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from sqlalchemy import Connection, func, insert, select, update

from keyveil.campaign.reading import tally_of
from keyveil.campaign.rounds import RoundDocument
from keyveil.campaign.wire import pad
from keyveil.collector import logs
from keyveil.collector.chunks import add_counts, read_counts
from keyveil.collector.database import Database
from keyveil.collector.sketching import add_sketch, sketched
from keyveil.collector.storing import count_refusals
from keyveil.collector.tables import FOLDED, SET_ASIDE, UNFOLDED, batch, report, round, tally
from keyveil.collector.writer import Writer
from keyveil.core.codecs.payloads import Flaws, Payloads
from keyveil.core.coins import Coins
from keyveil.core.errors import StorageError
from keyveil.core.report import PUBLIC_BYTES
from keyveil.core.tally import Tally

AT_ONCE = 100_000  # reports in one fold, and
_BYTES_AT_ONCE = 32 << 20  # bytes of them
SET_ASIDE_CODE = "report/set-aside"

log = logs.logger()


def fold(writer: Writer, round_id: int, document: RoundDocument, least: int | None = None) -> int:
    """Count some of a round's reports that are not counted yet; returns how many.

    While a round is open, reports are folded once there are ``least`` of them, whichever processes stored them: two
    successive tallies then differ by at least so many reports, and no single report can be read from the difference.
    Without ``least`` (the round is closed) everything is folded. Nothing is while another process folds this round.
    """
    with writer.database.lease(round_id) as mine:
        return _fold(writer, round_id, document, least) if mine else 0


def _fold(writer: Writer, round_id: int, document: RoundDocument, least: int | None) -> int:
    database = writer.database
    most = at_once(document)
    with database.read() as connection:
        groups = _waiting(connection, round_id, most, least)
        if not groups:
            return 0
        found = database.reports_of(connection, groups)
    counted, bad = count(document, found)
    if bad:
        log.error("Reports could not be counted and were set aside.", reports=len(bad), code=SET_ASIDE_CODE)

    sketch = sketched(document, _without(found, bad)) if writer.sketches else None

    def step(connection: Connection) -> int:
        marked = update(batch).where(batch.c.id.in_(groups), batch.c.state == UNFOLDED).values(state=FOLDED)
        if connection.execute(marked).rowcount != len(groups):
            raise StorageError("storage/conflict", "Another process has counted the same reports.")
        _set_aside(database, connection, round_id, bad)
        _add(database, connection, round_id, counted, sketch)
        return counted.reports + len(bad)

    return writer.run(step)


def at_once(document: RoundDocument) -> int:
    """How many reports of a round one fold takes at most."""
    return max(1, min(AT_ONCE, _BYTES_AT_ONCE // max(1, document.report_bytes)))


Row = tuple[int, bytes, bytes]
"""A stored report: its group, its id and its padded payload."""


def count(document: RoundDocument, reports: Sequence[Row]) -> tuple[Tally, list[Row]]:
    """The tally of stored reports, and those that cannot be counted.

    Each was checked when it arrived, so none should be among the latter: a file was damaged or changed, or a new
    version reads otherwise. Errors that do not come from the reports are raised.
    """
    try:
        tally, flaws = _tally(document, reports)
    except Exception:
        if len(reports) == 1:
            _tally(document, [_honest(document)])  # if this fails too, the report is not to blame
            return Tally.empty(document.mechanism.fingerprint, document.mechanism.tally_shape), list(reports)
        middle = len(reports) // 2
        (one, bad), (other, worse) = count(document, reports[:middle]), count(document, reports[middle:])
        return one + other, bad + worse
    return tally, [reports[at] for at in np.flatnonzero(flaws).tolist()]


def _without(reports: Sequence[Row], bad: Sequence[Row]) -> Sequence[Row]:
    """The reports that were counted."""
    aside = {number for _, number, _ in bad}
    return [one for one in reports if one[1] not in aside] if aside else reports


def _tally(document: RoundDocument, reports: Sequence[Row]) -> tuple[Tally, Flaws]:
    publics = np.frombuffer(b"".join([number for _, number, _ in reports]), np.uint8).reshape(-1, PUBLIC_BYTES)
    return tally_of(document, publics, Payloads.of([payload for _, _, payload in reports]))


def _honest(document: RoundDocument) -> Row:
    """A report of a device that holds nothing."""
    mechanism = document.mechanism
    sent = mechanism.perturb_pairs(next(iter(mechanism.every_record())), Coins())
    return 0, sent.public, pad(mechanism.encode(sent), document.report_bytes, mechanism.codec.varies)


def read_tally(connection: Connection, round_id: int, document: RoundDocument) -> Tally:
    """All that has been folded of a round, over all shards."""
    mechanism = document.mechanism
    return read_counts(connection, tally, mechanism.tally_shape, mechanism.fingerprint, {"round_id": round_id})


def retry(writer: Writer, connection: Connection, round_id: int, document: RoundDocument, folded: bool) -> int:
    """Try again to count the reports of a round that were set aside; returns how many those are.

    Where folding goes on they wait for it like all others. In a round that is ``folded`` they are counted here and now,
    in this transaction; those that still cannot be are set aside again.
    """
    database, here = writer.database, (batch.c.round_id == round_id, batch.c.state == SET_ASIDE)
    found = connection.execute(select(batch).where(*here).order_by(batch.c.id).with_for_update()).all()
    groups = [group.id for group in found]
    connection.execute(update(batch).where(batch.c.id.in_(groups)).values(state=FOLDED if folded else UNFOLDED))
    owner = connection.execute(select(round.c.campaign_id).where(round.c.id == round_id)).scalar_one()
    refused = Counter[tuple[int, int, str]]()
    for group in found:
        refused[owner, group.bucket, SET_ASIDE_CODE] -= group.reports
    count_refusals(database, connection, refused)
    if folded and groups:
        again = database.reports_of(connection, groups)
        counted, bad = count(document, again)
        _set_aside(database, connection, round_id, bad)
        sketch = sketched(document, _without(again, bad)) if writer.sketches else None
        _add(database, connection, round_id, counted, sketch)
    return sum(group.reports for group in found)


def set_aside(connection: Connection, round_id: int) -> int:
    """Reports of a round that are stored but cannot be counted."""
    total = select(func.sum(batch.c.reports)).where(batch.c.round_id == round_id, batch.c.state == SET_ASIDE)
    return int(connection.execute(total).scalar() or 0)


def unfolded(connection: Connection, round_id: int) -> int:
    """Reports of a round that are stored but not counted yet."""
    total = select(func.sum(batch.c.reports)).where(batch.c.round_id == round_id, batch.c.state == UNFOLDED)
    return int(connection.execute(total).scalar() or 0)


def _waiting(connection: Connection, round_id: int, most: int, least: int | None) -> list[int]:
    """The groups that should be folded now, about ``most`` reports, and ``least`` unless that is more."""
    pending = connection.execute(
        select(batch.c.id, batch.c.reports)
        .where(batch.c.round_id == round_id, batch.c.state == UNFOLDED)
        .order_by(batch.c.id)
        .limit(_MOST_GROUPS)
    ).all()
    groups: list[int] = []
    reports = 0
    for number, size in pending:
        if groups and reports + size > most:
            break
        groups.append(number)
        reports += size
    enough = least is None or reports >= min(least, most // 2) or len(groups) == _MOST_GROUPS
    return groups if enough else []


_MOST_GROUPS = 10_000  # in one statement


def _set_aside(database: Database, connection: Connection, round_id: int, bad: Sequence[Row]) -> None:
    """Move reports that cannot be counted into groups of their own, and count them like a refusal."""
    groups: dict[int, list[bytes]] = {}
    for group, number, _ in bad:
        groups.setdefault(group, []).append(number)
    for group, ids in sorted(groups.items()):
        whole = connection.execute(select(batch).where(batch.c.id == group)).one()
        apart = {"round_id": round_id, "shard": whole.shard, "bucket": whole.bucket, "reports": len(ids)}
        moved = connection.execute(insert(batch).values(**apart, state=SET_ASIDE).returning(batch.c.id)).scalar_one()
        for number in ids:
            here = (report.c.round_id == round_id, report.c.id == number)
            connection.execute(update(report).where(*here).values(batch_id=moved))
        connection.execute(update(batch).where(batch.c.id == group).values(reports=whole.reports - len(ids)))
        owner = connection.execute(select(round.c.campaign_id).where(round.c.id == round_id)).scalar_one()
        count_refusals(database, connection, Counter({(owner, whole.bucket, SET_ASIDE_CODE): len(ids)}))


def _add(
    database: Database, connection: Connection, round_id: int, counted: Tally, sketch: Tally | None = None
) -> None:
    add_counts(connection, tally, counted, {"round_id": round_id, "shard": database.shard})
    add_sketch(connection, database.shard, round_id, sketch)
