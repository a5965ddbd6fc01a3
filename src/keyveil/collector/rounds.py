"""Steps of campaigns and rounds, always forward: by dates, enough reports, an administrator, or the protocol.

    campaign   draft → open → closed → estimated → archived          round   waiting → open → closed → folded
    any but open → deleted

Every step is one transaction that looks at the state again before it changes it and writes the step into the journal,
so it does not matter which process takes it, how often it is tried, or where a crash interrupts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime

from sqlalchemy import Connection, Table, delete, func, insert, select, update

from keyveil.campaign.rounds import RoundDocument
from keyveil.collector import participation, tables
from keyveil.collector.buckets import bucket_of
from keyveil.collector.folding import at_once, fold, unfolded
from keyveil.collector.journal import COLLECTOR, Journal, Note, Notes
from keyveil.collector.repository import Repository, StoredCampaign, StoredRound
from keyveil.collector.tables import tally
from keyveil.collector.writer import Writer
from keyveil.core.canonical import canonical
from keyveil.core.epsilon import decimal_text
from keyveil.core.errors import KeyveilError, StorageError
from keyveil.protocols.base import Finished, Round

Step = Callable[[Connection, Notes], bool]


def open_campaign(connection: Connection, stored: StoredCampaign, now: datetime, notes: Notes) -> None:
    """From draft to open, with the first round."""
    first = stored.campaign.protocol.next_round([])
    assert first is not None
    if _move_campaign(connection, stored, "draft", "open", notes):
        _put_round(connection, stored, first, now, notes)


def close_round(connection: Connection, stored: StoredCampaign, one: StoredRound, now: datetime, notes: Notes) -> bool:
    """No more reports from here on; who took part is forgotten. Returns whether the round was not closed before."""
    for before in ("open", "waiting"):
        if _move_round(connection, stored, one, before, "closed", notes):
            table = tables.round
            connection.execute(update(table).where(table.c.id == one.id).values(closed=bucket_of(now)))
            participation.end(connection, one.id)
            return True
    return False


def close_campaign(connection: Connection, stored: StoredCampaign, now: datetime, notes: Notes) -> None:
    """No further rounds; the open one is closed. The campaign goes first, so that nobody adds a round meanwhile."""
    for before in ("draft", "open"):
        _move_campaign(connection, stored, before, "closed", notes)
    for one in stored.rounds:
        close_round(connection, stored, one, now, notes)
    if not stored.rounds:
        _settle(connection, stored)


def archive_campaign(connection: Connection, stored: StoredCampaign, notes: Notes) -> bool:
    """Keep documents and tallies of a campaign that is over, and nothing else; the tick forgets the rest."""
    over = not stored.rounds or stored.rounds[-1].state == "folded"
    archived = over and any(
        _move_campaign(connection, stored, before, "archived", notes) for before in ("closed", "estimated")
    )
    if archived:
        connection.execute(delete(tables.enrolment).where(tables.enrolment.c.campaign_id == stored.id))
    return archived


def delete_campaign(connection: Connection, stored: StoredCampaign, notes: Notes) -> bool:
    """Forget a campaign that takes no reports; the tick empties its tables.

    Its hash stays, so that the same campaign is never made again: reports that were made for it could be sent again.
    """
    over = not stored.rounds or stored.rounds[-1].state == "folded"
    deleted = over and any(
        _move_campaign(connection, stored, before, "deleted", notes)
        for before in ("draft", "closed", "estimated", "archived")
    )
    if deleted:
        table = tables.campaign
        connection.execute(update(table).where(table.c.id == stored.id).values(document=b""))
    return deleted


def advance(journal: Journal, repository: Repository, stored: StoredCampaign, now: datetime, timely: bool) -> bool:
    """Take the next step of a campaign, if it is time; whether there was one.

    While the clock is not believed (``timely`` is false), no round opens or closes by its dates.
    """
    last = stored.current
    if last is None:
        return False
    if last.state == "waiting":
        return timely and _open_when_due(journal, stored, last, now.date())
    if last.state == "open":
        return _close_when_done(journal, stored, last, now, timely) or _folded_some(
            journal.writer, last, stored.campaign.min_reports
        )
    if last.state == "closed":
        return _folded_some(journal.writer, last) or _step(
            journal, lambda connection, notes: _finish(connection, stored, last, notes)
        )
    if stored.state == "open":
        return _go_on(journal, repository, stored, now)
    return stored.state == "closed" and _estimate(journal, repository, stored)


def _step(journal: Journal, step: Step) -> bool:
    return journal.run(COLLECTOR, step)


def _open_when_due(journal: Journal, stored: StoredCampaign, last: StoredRound, today: date) -> bool:
    opens = stored.campaign.window(last.document.number).opens
    if opens is not None and today < opens:
        return False
    return _step(journal, lambda connection, notes: _move_round(connection, stored, last, "waiting", "open", notes))


def _close_when_done(journal: Journal, stored: StoredCampaign, last: StoredRound, now: datetime, timely: bool) -> bool:
    window = stored.campaign.window(last.document.number)
    over = timely and window.closes is not None and now.date() > window.closes
    if not over and window.enough is not None:
        with journal.writer.database.read() as connection:
            over = arrived(connection, last.id) >= window.enough
    return over and _step(journal, lambda connection, notes: close_round(connection, stored, last, now, notes))


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


def _finish(connection: Connection, stored: StoredCampaign, last: StoredRound, notes: Notes) -> bool:
    """Move a closed round to folded once all of its reports are counted; returns whether that was so."""
    return unfolded(connection, last.id) == 0 and _move_round(connection, stored, last, "closed", "folded", notes)


def _go_on(journal: Journal, repository: Repository, stored: StoredCampaign, now: datetime) -> bool:
    """Ask the protocol for the next round, and make it; without one the campaign closes."""
    with journal.writer.database.read() as connection:
        history = repository.history(connection, stored, len(stored.rounds))
    try:
        following = stored.campaign.protocol.next_round(history)
    except KeyveilError:
        following = None  # too few reports to plan another round; those that came can still be read
    if following is None:
        return _step(journal, lambda connection, notes: _move_campaign(connection, stored, "open", "closed", notes))
    return _step(journal, lambda connection, notes: _put_round(connection, stored, following, now, notes))


def _estimate(journal: Journal, repository: Repository, stored: StoredCampaign) -> bool:
    """Move a closed campaign to estimated if any of its rounds may be shown; nothing happens to it after that."""
    least = stored.campaign.min_reports
    with journal.writer.database.read() as connection:
        history = repository.history(connection, stored, len(stored.rounds))
    visible = bool(shown(history, least))

    def step(connection: Connection, notes: Notes) -> bool:
        _settle(connection, stored)
        return visible and _move_campaign(connection, stored, "closed", "estimated", notes)

    return _step(journal, step)


def _settle(connection: Connection, stored: StoredCampaign) -> None:
    """Nothing more happens to this campaign by itself, so that the tick need not look at it."""
    connection.execute(update(tables.campaign).where(tables.campaign.c.id == stored.id).values(settled=1))


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


def _put_round(connection: Connection, stored: StoredCampaign, following: Round, now: datetime, notes: Notes) -> bool:
    table, owner = tables.round, tables.campaign
    state = connection.execute(select(owner.c.state).where(owner.c.id == stored.id).with_for_update()).scalar()
    known = connection.execute(
        select(func.count()).where(table.c.campaign_id == stored.id, table.c.number == following.number)
    ).scalar()
    if known or state != "open":  # another process has made it, or the campaign was stopped
        return False
    document = RoundDocument.of(stored.campaign, following)
    opens = stored.campaign.window(following.number).opens
    first_state = "waiting" if opens is not None and now.date() < opens else "open"
    made: int = connection.execute(
        insert(table)
        .values(
            campaign_id=stored.id,
            number=following.number,
            hash=document.hash,
            document=canonical(document.document()),
            cost=None if following.cost is None else decimal_text(following.cost),
            state=first_state,
        )
        .returning(table.c.id)
    ).scalar_one()
    if stored.campaign.enrolment == "token":
        participation.begin(connection, stored.id, made)
    notes.append(_round_note(stored, following.number, first_state))
    return True


def _move_campaign(connection: Connection, stored: StoredCampaign, before: str, after: str, notes: Notes) -> bool:
    moved = move(connection, tables.campaign, stored.id, before, after)
    if moved:
        notes.append(Note(f"campaign.{after}", stored.campaign.hash, {"name": stored.campaign.name}))
    return moved


def _move_round(
    connection: Connection, stored: StoredCampaign, one: StoredRound, before: str, after: str, notes: Notes
) -> bool:
    moved = move(connection, tables.round, one.id, before, after)
    if moved:
        notes.append(_round_note(stored, one.document.number, after))
    return moved


def _round_note(stored: StoredCampaign, number: int, after: str) -> Note:
    return Note(f"round.{after}", stored.campaign.hash, {"name": stored.campaign.name, "round": number})


def move(connection: Connection, table: Table, number: int, before: str, after: str) -> bool:
    """Change a state from ``before`` to ``after``; returns whether it was still ``before``."""
    step = update(table).where(table.c.id == number, table.c.state == before).values(state=after)
    return connection.execute(step).rowcount == 1


def arrived(connection: Connection, round_id: int) -> int:
    """Reports of a round, folded or not."""
    folded = connection.execute(select(func.sum(tally.c.reports)).where(tally.c.round_id == round_id)).scalar()
    return int(folded or 0) + unfolded(connection, round_id)
