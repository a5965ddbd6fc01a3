"""Nobody can be linked by whoever reads every table with all system columns; and no kill locks anybody out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import SystemRandom
from typing import Any

import pytest
from sqlalchemy import event, func, select, text

from keyveil.campaign.wire import Batch
from keyveil.collector import participation, storing, tables
from keyveil.collector.participation import Claims
from keyveil.collector.service import Service
from keyveil.core.errors import KeyveilError, StorageError
from tests.collector.campaigns import asked, batch_of, started
from tests.collector.joining import linked
from tests.collector.test_database import retried

PEOPLE = 40
# A guess by chance links one person in the mean, and 12 or more with probability 8e-10. At most 40 attacks are tried on
# each of four collections, so that a false alarm has probability below 2e-7.
MOST_BY_CHANCE = 11

Story = tuple[list[str], dict[int, bytes]]


def enrolled_together(service: Service) -> Story:
    """Tokens for all people at once; then each sends one report, in any order."""
    document = started(service, enrolment="token")
    tokens = service.enrol("snacks", PEOPLE)
    people = list(range(PEOPLE))
    SystemRandom().shuffle(people)
    batches = {person: batch_of(document, 1) for person in people}
    for person in people:
        assert service.submit("snacks", batches[person], tokens[person]).result().accepted == 1
    return tokens, {person: batch.ids[0] for person, batch in batches.items()}


def enrolled_one_by_one(service: Service) -> Story:
    """Each person gets a token and reports at once, before the next one comes."""
    document = started(service, enrolment="token")
    tokens, truth = [], {}
    for person in range(PEOPLE):
        tokens += service.enrol("snacks", 1)
        batch = batch_of(document, 1)
        assert service.submit("snacks", batch, tokens[-1]).result().accepted == 1
        truth[person] = batch.ids[0]
    return tokens, truth


@pytest.mark.parametrize("story", [enrolled_together, enrolled_one_by_one])
def test_nobody_is_linked_to_a_report(service: Service, story: Callable[[Service], Story]) -> None:
    found = linked(service, *story(service))

    assert len(found) >= 5 and max(found.values()) <= MOST_BY_CHANCE, found


def rows_for_each(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it once was: a row for each person, in the transaction that stores the report."""
    with service.database.write() as connection:
        kind = "BYTEA" if service.database.postgresql else "BLOB"
        connection.execute(text(f"CREATE TABLE claim (round_id INTEGER, mark {kind})"))
    insert = storing._insert

    def also(database: Any, connection: Any, uploads: Any, *rest: Any) -> Any:
        for upload in uploads:
            row = {"round_id": upload.round_id, "mark": upload.token_hash}
            connection.execute(text("INSERT INTO claim (round_id, mark) VALUES (:round_id, :mark)"), row)
        return insert(database, connection, uploads, *rest)

    monkeypatch.setattr(storing, "_insert", also)


def numbers_in_order(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Enrolments that stay as they were written."""
    monkeypatch.setattr(participation, "deal", lambda *_: None)


@pytest.mark.parametrize(
    ("mutant", "story"), [(rows_for_each, enrolled_together), (numbers_in_order, enrolled_one_by_one)]
)
def test_the_attack_links_people_where_it_can(
    service: Service, mutant: Any, story: Callable[[Service], Story], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(service, monkeypatch)
    found = linked(service, *story(service))

    assert max(found.values()) == PEOPLE


# -- kills ----------------------------------------------------------------------------------------------------------


class Killed(StorageError):
    """The process was killed here, as far as the database can tell."""

    def __init__(self) -> None:
        super().__init__("storage/unavailable", "Killed.")


@contextmanager
def killed_after(service: Service, statements: int) -> Iterator[list[int]]:
    """The connection is gone after so many statements that write or lock; the commit counts as one more."""
    seen = [0]
    insert = service.database.insert_reports

    def count(connection: Any) -> None:
        seen[0] += 1
        if seen[0] == statements:
            if service.database.postgresql:
                connection.connection.driver_connection.close()  # a SQLite file only sees that nothing was committed
            raise Killed

    def after(connection: Any, *_: Any) -> None:
        if connection.get_execution_options().get("keyveil_writes"):
            count(connection)

    def inserting(connection: Any, round_id: int, group: int, ids: Any, payloads: Any) -> int:
        inserted = insert(connection, round_id, group, ids, payloads)
        count(connection)
        return inserted

    def committed(connection: Any) -> None:
        if connection.get_execution_options().get("keyveil_writes"):
            seen[0] += 1
            if seen[0] == statements:
                raise Killed

    engine = service.database.engine
    service.database.insert_reports = inserting  # type: ignore[method-assign]
    event.listen(engine, "after_cursor_execute", after)
    event.listen(engine, "commit", committed)
    try:
        yield seen
    finally:
        event.remove(engine, "after_cursor_execute", after)
        event.remove(engine, "commit", committed)
        del service.database.insert_reports


def test_a_kill_after_any_statement_neither_loses_doubles_nor_locks_out(service: Service) -> None:
    document = started(service, enrolment="token", min_reports=1)
    tokens = service.enrol("snacks", 30)
    with killed_after(service, 0) as seen:
        service.submit("snacks", batch_of(document, 1), tokens[0]).result()
    statements = seen[0]
    assert 5 <= statements < len(tokens)

    kills = 0
    for step in range(1, statements + 1):
        batch = batch_of(document, 1)
        with killed_after(service, step):
            try:
                service.submit("snacks", batch, tokens[step]).result()
            except KeyveilError:
                kills += 1
        sent_again(service, batch, tokens[step])
    assert kills == statements

    service.settle()
    assert service.tally("snacks")[1].reports == statements + 1
    with service.database.read() as connection:
        claimed = Claims(connection.execute(select(tables.participation.c.claimed)).scalar_one())
        assert connection.execute(select(func.count()).select_from(tables.report)).scalar() == statements + 1
    assert sum(number in claimed for number in range(len(tokens))) == statements + 1


def sent_again(service: Service, batch: Batch, token: str) -> None:
    """The device sends the same until it is acknowledged; anything else is refused from then on."""
    told = retried(lambda: service.submit("snacks", batch, token).result())
    assert told.accepted + told.duplicates == 1
    other = batch_of(asked(service), 1)
    assert service.submit("snacks", other, token).result().refused == ((other.ids[0], "enrolment/used"),)
