"""A collector under replaying, hostile and unlucky clients, held against a model of what it must remember.

Faults strike before a commit (nothing was stored) and after it (everything was, but nobody was told); crashes drop the
process with whatever waits. What was acknowledged is counted exactly once, and nothing moves backwards.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import select

from keyveil.campaign.rounds import RoundDocument
from keyveil.campaign.wire import Batch
from keyveil.collector import folding, rounds, tables, writer
from keyveil.collector.folding import read_tally
from keyveil.collector.service import Service
from keyveil.collector.writer import UploadResult
from keyveil.core.errors import KeyveilError, StorageError
from tests.collector.campaigns import asked, batch_of, count, snacks
from tests.collector.conftest import SetClock

CAMPAIGN = ["draft", "open", "closed", "estimated"]
ROUND = ["waiting", "open", "closed", "folded"]


class Faults:
    """Makes the next write fail, before or after its commit."""

    def __init__(self, service: Service) -> None:
        self.next: str | None = None
        self._write = service.database.write
        service.database.write = self.write  # type: ignore[method-assign]

    @contextmanager
    def write(self) -> Iterator[Any]:
        fault, self.next = self.next, None
        with self._write() as connection:
            yield connection
            if fault == "before":
                raise StorageError("storage/unavailable", "Injected before the commit.")
        if fault == "after":
            raise StorageError("storage/unavailable", "Injected after the commit.")


class Collector(RuleBasedStateMachine):
    """Two rounds of PrivKVM with four reports each, so that rounds change often."""

    @initialize()
    def start(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.url = f"sqlite:///{Path(self.folder.name) / 'keyveil.db'}"
        self.desks: list[Service] = []
        self.reopen()
        self.told: dict[bytes, bytes] = {}  # acknowledged, so certainly stored
        self.tried: dict[bytes, tuple[str, bytes]] = {}  # sent at some time: round and payload
        self.rounds: dict[str, RoundDocument] = {}
        self.furthest = [0, 0, 0]
        protocol = {"name": "privkvm", "epsilon": "2", "rounds": 2}
        self.service.create(snacks(protocol=protocol, rounds=[{"enough": 4}], min_reports=1))

    def reopen(self) -> None:
        self.service = Service(self.url, SetClock())
        self.desks.append(self.service)
        self.faults = Faults(self.service)

    def teardown(self) -> None:
        if hasattr(self, "service"):
            for service in self.desks:
                if service.writer.alive:
                    service.close()
            self.folder.cleanup()

    # -- what happens -------------------------------------------------------------------------------------------

    @rule(action=st.sampled_from(["open", "open", "close", "stop"]))
    def administer(self, action: str) -> None:
        self.attempt(lambda: self.service.act("snacks", action))

    @rule(people=st.integers(1, 3), fault=st.sampled_from([None, None, "before", "after"]))
    def report(self, people: int, fault: str | None) -> None:
        view = self.attempt(lambda: self.service.view("snacks"))
        if view and view["round"]:
            document = asked(self.service)
            self.rounds[document.hash] = document
            self.faults.next = fault
            self.send(batch_of(document, people))

    @precondition(lambda self: self.tried)
    @rule(data=st.data())
    def replay(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.tried)))
        name, payload = self.tried[number]
        self.send(Batch(self.rounds[name].number, name, (number,), (payload,)))

    @precondition(lambda self: self.tried)
    @rule(data=st.data())
    def forge(self, data: st.DataObject) -> None:
        """An id that is known, with other bytes; or a report under a document that nobody issued."""
        number = data.draw(st.sampled_from(sorted(self.tried)))
        name, payload = self.tried[number]
        document = self.rounds[name]
        other = bytes([payload[0] ^ 1]) + payload[1:]
        answer = self.attempt(
            lambda: self.service.submit("snacks", Batch(document.number, name, (number,), (other,))).result()
        )
        assert answer is None or answer.accepted == 0 or number not in self.told
        if answer is not None and answer.accepted:
            self.tried[number], self.told[number] = (name, other), other
        assert self.attempt(lambda: self.service.submit("snacks", Batch(1, "f" * 64, (number,), (payload,)))) is None

    @rule()
    def time_passes(self) -> None:
        self.attempt(self.service.tick)

    @rule(kind=st.sampled_from(["before", "after"]))
    def misfortune(self, kind: str) -> None:
        self.faults.next = kind

    @rule()
    def crash(self) -> None:
        """The process is gone with its queue and its memory; another one starts."""
        self.reopen()

    # -- what must hold -----------------------------------------------------------------------------------------

    def send(self, batch: Batch) -> None:
        for number, payload in batch:
            self.tried.setdefault(number, (batch.document, payload))
        answer = self.attempt(lambda: self.service.submit("snacks", batch).result())
        if answer is not None:
            refused = {number for number, _ in answer.refused}
            assert answer.accepted + answer.duplicates + len(refused) == len(batch)
            self.told.update((number, payload) for number, payload in batch if number not in refused)

    def attempt(self, call: Any) -> Any:
        try:
            return call()
        except KeyveilError:
            return None

    @invariant()
    def nothing_is_lost_counted_twice_or_moved_back(self) -> None:
        if not hasattr(self, "service"):
            return
        with self.service.database.read() as connection:
            stored = {bytes(row.id): bytes(row.payload) for row in connection.execute(select(tables.report))}
            state = connection.execute(select(tables.campaign.c.state)).scalar_one()
            rounds = connection.execute(select(tables.round).order_by(tables.round.c.number)).all()
            for row in rounds:
                folded = connection.execute(
                    select(tables.report.c.id, tables.report.c.payload)
                    .join(tables.batch, tables.batch.c.id == tables.report.c.batch_id)
                    .where(tables.batch.c.round_id == row.id, tables.batch.c.state == tables.FOLDED)
                ).all()
                if row.hash in self.rounds:
                    counted = count(self.rounds[row.hash], [(bytes(number), bytes(data)) for number, data in folded])
                    assert read_tally(connection, row.id, self.rounds[row.hash]) == counted
                assert row.state != "folded" or len(folded) == sum(
                    1 for number in stored if self.tried[number][0] == row.hash
                )
        assert all(stored.get(number) == payload for number, payload in self.told.items())
        assert all(number in self.tried for number in stored)
        place = [CAMPAIGN.index(state), len(rounds), ROUND.index(rounds[-1].state) if rounds else 0]
        assert place >= self.furthest or place[0] > self.furthest[0] or place[1] > self.furthest[1]
        self.furthest = place


SETTINGS = settings(
    max_examples=25,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

TestCollector = Collector.TestCase
TestCollector.settings = SETTINGS


def promises_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that acknowledges what failed to be committed."""
    settle = writer._settle

    def generous(done: Any, result: Any) -> None:
        settle(done, lambda: UploadResult(1, 0) if "refused" in (result.__code__.co_varnames) else result())

    monkeypatch.setattr(writer, "_settle", generous)


def counts_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fold that adds to the tally before it knows whether its groups were taken by somebody else."""
    add = folding._add

    def twice(*arguments: Any) -> None:
        add(*arguments)
        add(*arguments)

    monkeypatch.setattr(folding, "_add", twice)


def reopens(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round that a late tick opens again."""
    move = rounds.move

    def backwards(connection: Any, table: Any, number: int, before: str, after: str) -> bool:
        return move(connection, table, number, before, "open" if after == "folded" else after)

    monkeypatch.setattr(rounds, "move", backwards)


@pytest.mark.parametrize("mutant", [promises_too_early, counts_twice, reopens])
def test_the_machine_finds_planted_faults(mutant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)

    with pytest.raises(AssertionError):
        run_state_machine_as_test(Collector, settings=settings(SETTINGS, max_examples=100, phases=[Phase.generate]))
