"""Steps of campaigns and rounds, always forward: by dates, enough reports, an administrator, or the protocol.

    campaign   draft → open → closed → estimated          round   waiting → open → closed → folded

Every step is one transaction that looks at the state again before it changes it, so it does not matter which process
takes it, how often it is tried, or where a crash interrupts.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import date

from sqlalchemy import Connection, Table, delete, func, insert, select, update

from keyveil.campaign.rounds import RoundDocument
from keyveil.collector import tables
from keyveil.collector.folding import at_once, fold, unfolded
from keyveil.collector.repository import Repository, StoredCampaign, StoredRound
from keyveil.collector.tables import participation, tally
from keyveil.collector.writer import Writer
from keyveil.core.canonical import canonical
from keyveil.core.epsilon import decimal_text
from keyveil.core.errors import KeyveilError, StorageError
from keyveil.protocols.base import Finished, Round

_SECRET_BYTES = 32


def open_campaign(connection: Connection, stored: StoredCampaign, today: date) -> None:
    """From draft to open, with the first round."""
    first = stored.campaign.protocol.next_round([])
    assert first is not None
    if move(connection, tables.campaign, stored.id, "draft", "open"):
        _put_round(connection, stored, first, today)


def close_round(connection: Connection, number: int) -> None:
    """No more reports from here on; who took part is forgotten."""
    if move(connection, tables.round, number, "open", "closed") or move(
        connection, tables.round, number, "waiting", "closed"
    ):
        connection.execute(update(tables.round).where(tables.round.c.id == number).values(secret=None))
        connection.execute(delete(participation).where(participation.c.round_id == number))


def close_campaign(connection: Connection, stored: StoredCampaign) -> None:
    """No further rounds; the open one is closed. The campaign goes first, so that nobody adds a round meanwhile."""
    for before in ("draft", "open"):
        move(connection, tables.campaign, stored.id, before, "closed")
    table = tables.round
    for number in connection.execute(select(table.c.id).where(table.c.campaign_id == stored.id)).scalars().all():
        close_round(connection, number)


def advance(writer: Writer, repository: Repository, stored: StoredCampaign, today: date) -> bool:
    """Take the next step of a campaign, if it is time; whether there was one."""
    last = stored.current
    if last is None:
        return False
    if last.state == "waiting":
        return _open_when_due(writer, stored, last, today)
    if last.state == "open":
        return _close_when_done(writer, stored, last, today) or _folded_some(writer, last, stored.campaign.min_reports)
    if last.state == "closed":
        return _folded_some(writer, last) or writer.run(lambda connection: _finish(connection, last))
    if stored.state == "open":
        return _go_on(writer, repository, stored, today)
    return stored.state == "closed" and _estimate(writer, repository, stored)


def _open_when_due(writer: Writer, stored: StoredCampaign, last: StoredRound, today: date) -> bool:
    opens = stored.campaign.window(last.document.number).opens
    if opens is not None and today < opens:
        return False
    return writer.run(lambda connection: move(connection, tables.round, last.id, "waiting", "open"))


def _close_when_done(writer: Writer, stored: StoredCampaign, last: StoredRound, today: date) -> bool:
    window = stored.campaign.window(last.document.number)
    over = window.closes is not None and today > window.closes
    if not over and window.enough is not None:
        with writer.database.read() as connection:
            over = arrived(connection, last.id) >= window.enough
    if over:
        writer.run(lambda connection: close_round(connection, last.id))
    return over


def _folded_some(writer: Writer, last: StoredRound, least: int | None = None) -> bool:
    """Fold some reports; returns whether to fold again at once.

    In an open round that is so only after a full fold: the few reports that arrive meanwhile wait for the next tick.
    """
    try:
        folded = fold(writer, last.id, last.document, least)
        return folded > (0 if least is None else at_once(last.document) // 2)
    except StorageError as reason:
        if reason.code != "storage/conflict":  # another process has counted them: look again
            raise
        return True


def _finish(connection: Connection, last: StoredRound) -> bool:
    """Move a closed round to folded once all of its reports are counted; returns whether that was so."""
    return unfolded(connection, last.id) == 0 and move(connection, tables.round, last.id, "closed", "folded")


def _go_on(writer: Writer, repository: Repository, stored: StoredCampaign, today: date) -> bool:
    """Ask the protocol for the next round, and make it; without one the campaign closes."""
    with writer.database.read() as connection:
        history = repository.history(connection, stored, len(stored.rounds))
    try:
        following = stored.campaign.protocol.next_round(history)
    except KeyveilError:
        following = None  # too few reports to plan another round; those that came can still be read
    if following is None:
        return writer.run(lambda connection: move(connection, tables.campaign, stored.id, "open", "closed"))
    return writer.run(lambda connection: _put_round(connection, stored, following, today))


def _estimate(writer: Writer, repository: Repository, stored: StoredCampaign) -> bool:
    """Move a closed campaign to estimated if any of its rounds may be shown."""
    least = stored.campaign.min_reports
    with writer.database.read() as connection:
        if max(arrived(connection, one.id) for one in stored.rounds) < least:
            return False  # without reading any tally: every tick comes here
        history = repository.history(connection, stored, len(stored.rounds))
    if not shown(history, least):
        return False
    return writer.run(lambda connection: move(connection, tables.campaign, stored.id, "closed", "estimated"))


def shown(history: Sequence[Finished], least: int) -> list[Finished]:
    """The rounds that may be looked at together: nothing that rests on fewer than the least number of reports.

    The last rounds are left out while they have fewer. If a round in the middle has fewer, nothing is shown, since
    later rounds rest on it; unless it tells nothing about keys, like a round about set sizes.
    """
    ready = list(history)
    while ready and ready[-1].tally.reports < least:
        ready.pop()
    short = [one for one in ready if one.tally.reports < least]
    return ready if all(_silent(one) for one in short) else []


def _silent(finished: Finished) -> bool:
    """Whether a round tells neither shares nor means of keys; a later round of privkvm tells means alone."""
    estimates = finished.estimates()
    return bool(estimates.frequency.absent and estimates.mean.absent)


def _put_round(connection: Connection, stored: StoredCampaign, following: Round, today: date) -> bool:
    table, owner = tables.round, tables.campaign
    state = connection.execute(select(owner.c.state).where(owner.c.id == stored.id).with_for_update()).scalar()
    known = connection.execute(
        select(func.count()).where(table.c.campaign_id == stored.id, table.c.number == following.number)
    ).scalar()
    if known or state != "open":  # another process has made it, or the campaign was stopped
        return False
    document = RoundDocument.of(stored.campaign, following)
    opens = stored.campaign.window(following.number).opens
    connection.execute(
        insert(table).values(
            campaign_id=stored.id,
            number=following.number,
            hash=document.hash,
            document=canonical(document.document()),
            cost=None if following.cost is None else decimal_text(following.cost),
            state="waiting" if opens is not None and today < opens else "open",
            secret=secrets.token_bytes(_SECRET_BYTES),
        )
    )
    return True


def move(connection: Connection, table: Table, number: int, before: str, after: str) -> bool:
    """Change a state from ``before`` to ``after``; returns whether it was still ``before``."""
    step = update(table).where(table.c.id == number, table.c.state == before).values(state=after)
    return connection.execute(step).rowcount == 1


def arrived(connection: Connection, round_id: int) -> int:
    """Reports of a round, folded or not."""
    folded = connection.execute(select(func.sum(tally.c.reports)).where(tally.c.round_id == round_id)).scalar()
    return int(folded or 0) + unfolded(connection, round_id)
