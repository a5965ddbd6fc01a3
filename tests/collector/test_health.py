"""Green means that a report sent now would be stored and counted; what cannot be counted is set aside and shown."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import update

from keyveil.campaign.reading import tally_of
from keyveil.collector import folding, health
from keyveil.collector.health import FoldingHealth
from keyveil.collector.rates import Rates
from keyveil.collector.service import Service, ServiceLimits
from keyveil.collector.tables import report
from keyveil.core.errors import StorageError
from tests.collector.campaigns import batch_of, count, merged, refusal, started
from tests.collector.running import Collector, problem, running


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[Collector]:
    with running(tmp_path) as one:
        yield one


def gauge(collector: Collector, name: str) -> float:
    """A number of /metrics."""
    lines = collector.ask("GET", "/metrics").body.decode().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith(f"{name} ")))


def readiness(collector: Collector) -> tuple[int, str | None]:
    collector.service.health._probed = (-10.0, None)  # the outcome of the last write is believed for a while
    answer = collector.ask("GET", "/readyz")
    return answer.status, None if answer.status == 200 else problem(answer)


def upload(collector: Collector, document: object, people: int = 3) -> tuple[int, str | None]:
    batch = batch_of(document, people)  # type: ignore[arg-type]
    answer = collector.ask("POST", "/v1/campaigns/snacks/reports", batch.to_json())
    return answer.status, None if answer.status == 200 else problem(answer)


def test_a_report_that_cannot_be_counted_is_set_aside_and_shown(service: Service) -> None:
    document = started(service)
    batch, later = batch_of(document, 40), batch_of(document, 15)
    service.submit("snacks", batch).result(30)
    spoilt = update(report).where(report.c.id.in_(batch.ids[:3])).values(payload=b"\xff" * document.report_bytes)
    service.writer.run(lambda connection: connection.execute(spoilt))
    service.submit("snacks", later).result(30)
    service.act("snacks", "close")
    service.settle()

    good = [one for one in merged(batch, later) if one[0] not in batch.ids[:3]]
    assert service.tally("snacks")[1] == count(document, good)
    told = service.status("snacks")
    (round_told,) = told["rounds"]
    assert (round_told["reports"], round_told["folded"], round_told["set_aside"]) == (55, 52, 3)
    assert round_told["state"] == "folded" and "set aside" in round_told["note"]
    assert told["refused"] == {"report/set-aside": 3}
    assert service.health.gauges()["set_aside_reports"] == 3
    service.ready()


@pytest.mark.parametrize("folded", [False, True])
def test_what_was_set_aside_is_counted_when_it_can_be(service: Service, folded: bool) -> None:
    """While a round is open and after it was folded; in the journal, and no longer among the refusals."""
    document = started(service, min_reports=12)
    batch = batch_of(document, 40)
    service.submit("snacks", batch).result(30)
    bad, good = dict(zip(batch.ids[:15], batch.payloads, strict=False)), batch.payloads[0]

    def put(payloads: dict[bytes, bytes]) -> None:
        for number, payload in payloads.items():
            one = update(report).where(report.c.id == number).values(payload=payload)
            service.writer.run(lambda connection, one=one: connection.execute(one))  # type: ignore[misc]

    put(dict.fromkeys(bad, b"\xff" * len(good)))
    if folded:
        service.act("snacks", "close")
    service.settle()
    assert service.status("snacks")["rounds"][0]["set_aside"] == 15
    put(dict(list(bad.items())[:14]))
    service.act("snacks", "retry", "ann")
    service.settle()

    kept = [one for one in batch if one[0] != batch.ids[14]]
    assert service.tally("snacks")[1] == count(document, kept)
    told = service.status("snacks")
    (round_told,) = told["rounds"]
    assert (round_told["reports"], round_told["folded"], round_told["set_aside"]) == (40, 39, 1)
    assert told["refused"] == {"report/set-aside": 1}
    (noted,) = [one for one in service.journal.entries() if one["action"] == "reports.retry"]
    assert noted["actor"] == "ann" and noted["detail"] == {"name": "snacks", "round": 1, "reports": 15}
    if folded:  # one more would show what that one said
        assert refusal(lambda: service.act("snacks", "retry")) == "campaign/too-few"


def test_nothing_is_tried_again_where_nothing_is_set_aside(service: Service) -> None:
    started(service)
    assert refusal(lambda: service.act("snacks", "retry")) == "campaign/state"


def test_a_fold_that_fails_for_everything_sets_nothing_aside(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken installation must not be taken for broken reports."""
    document = started(service)
    batch = batch_of(document, 20)
    service.submit("snacks", batch).result(30)
    with monkeypatch.context() as broken:
        broken.setattr(folding, "tally_of", lambda *_: 1 / 0)
        for _ in range(health.FAILURES):
            with pytest.raises(ZeroDivisionError):
                service.tick()
        assert refusal(service.ready) == "storage/not-counting"
        assert service.health.own_gauges()["failed_folds"] == health.FAILURES
    service.tick()
    service.ready()
    assert service.tally("snacks")[1] == count(document, batch)


def test_one_report_that_breaks_the_fold_is_found_and_set_aside(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = started(service)
    batch = batch_of(document, 30)
    service.submit("snacks", batch).result(30)
    honest = tally_of

    def breaking(asked, publics, padded):  # type: ignore[no-untyped-def]
        if (publics == list(batch.ids[7])).all(axis=1).any():
            raise MemoryError
        return honest(asked, publics, padded)

    monkeypatch.setattr(folding, "tally_of", breaking)
    service.settle()
    assert service.tally("snacks")[1] == count(document, [one for one in batch if one[0] != batch.ids[7]])
    assert service.status("snacks")["rounds"][0]["set_aside"] == 1


def test_what_waits_is_explained(service: Service) -> None:
    document = started(service, min_reports=100)
    service.submit("snacks", batch_of(document, 433)).result(30)
    service.settle()
    service.submit("snacks", batch_of(document, 67)).result(30)
    service.settle()
    (told,) = service.status("snacks")["rounds"]
    assert (told["reports"], told["folded"], told["waiting"]) == (500, 433, 67)
    assert told["note"].startswith("67 wait to be counted") and "at least 100" in told["note"]
    service.act("snacks", "close")
    service.settle()
    assert service.status("snacks")["rounds"][0]["note"] is None


def test_a_fold_that_stalls_is_noticed() -> None:
    now = [0.0]
    folds = FoldingHealth(lambda: now[0])
    now[0] = health.STALLED + 1
    folds.refuse_when_dead()  # nobody promised to fold
    folds.watched = True
    with pytest.raises(StorageError, match="121 seconds"):
        folds.refuse_when_dead()
    with folds.watching():
        pass
    folds.refuse_when_dead()
    assert folds.age == 0


# -- disks: each trouble with its code, its readiness and its number ------------------------------------------------


def test_a_full_disk(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite is told that its file may grow no more; what was acknowledged stays, and room makes it go on."""
    document = collector.filled()
    engine = collector.service.database.engine
    path = str(engine.url.database)
    with sqlite3.connect(path) as raw:
        pages = raw.execute("PRAGMA page_count").fetchone()[0]
    from sqlalchemy import event

    def limit(connection, most=pages):  # type: ignore[no-untyped-def]
        connection.exec_driver_sql(f"PRAGMA max_page_count = {most}")

    event.listen(engine, "begin", limit)
    codes = {upload(collector, document, 500)[1] for _ in range(4)}
    assert "storage/full" in codes
    assert gauge(collector, 'keyveil_refusals_total{campaign="",code="storage/full"}') >= 1
    assert gauge(collector, "keyveil_failed_commits_total") >= 1
    event.remove(engine, "begin", limit)
    event.listen(engine, "begin", lambda connection: limit(connection, 1 << 30))
    assert upload(collector, document)[0] == 200 and readiness(collector) == (200, None)


def test_little_room_is_told_before_the_disk_is_full(tmp_path: Path) -> None:
    with running(tmp_path, ServiceLimits(free_bytes=1 << 60)) as collector:
        assert readiness(collector) == (503, "storage/full")
        assert gauge(collector, "keyveil_free_bytes") > 0


def test_a_read_only_database(collector: Collector) -> None:
    document = collector.filled()
    from sqlalchemy import event

    engine = collector.service.database.engine

    def freeze(connection):  # type: ignore[no-untyped-def]
        connection.exec_driver_sql("PRAGMA query_only = ON")

    event.listen(engine, "begin", freeze)
    assert upload(collector, document) == (503, "storage/read-only")
    assert readiness(collector) == (503, "storage/read-only")
    assert gauge(collector, 'keyveil_refusals_total{campaign="",code="storage/read-only"}') == 1
    assert gauge(collector, 'keyveil_storage_failures_total{code="storage/read-only"}') == 2  # the upload, the probe


@pytest.mark.usefixtures("_impatient")
def test_a_locked_database(collector: Collector) -> None:
    document = collector.filled()
    engine = collector.service.database.engine
    from sqlalchemy import event

    event.listen(engine, "begin", lambda connection: None)
    engine.dispose()
    with sqlite3.connect(str(engine.url.database), isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        assert upload(collector, document) == (503, "storage/locked")
        assert readiness(collector)[0] == 503
        other.execute("ROLLBACK")
    assert upload(collector, document)[0] == 200 and readiness(collector) == (200, None)


def test_a_corrupt_file_is_refused_at_the_start_and_while_running(tmp_path: Path) -> None:
    with running(tmp_path) as collector:
        document = collector.filled(400)
        engine = collector.service.database.engine
        collector.service.database.forget()
        engine.dispose()
        path = Path(str(engine.url.database))
        size = path.stat().st_size
        with path.open("r+b") as file:
            for place in range(4096, size, 4096):
                file.seek(place)
                file.write(os.urandom(64))
        assert upload(collector, document) == (503, "storage/corrupt")
        assert readiness(collector)[0] == 503
        assert gauge(collector, "keyveil_database_up") == 0
        assert gauge(collector, 'keyveil_storage_failures_total{code="storage/corrupt"}') >= 1
        assert gauge(collector, 'keyveil_storage_failures_total{code="storage/slow"}') == 0
    assert refusal(lambda: Service(f"sqlite:///{path}")) == "storage/corrupt"
    path.write_bytes(b"no database at all" * 300)
    assert refusal(lambda: Service(f"sqlite:///{path}")) == "storage/corrupt"


def test_a_slow_disk(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    gate = threading.Event()
    monkeypatch.setattr(health, "_PATIENCE", 0.2)
    waiting = threading.Thread(target=lambda: collector.service.writer.run(lambda connection: gate.wait(30)))
    waiting.start()
    assert readiness(collector) == (503, "storage/slow")
    assert gauge(collector, 'keyveil_storage_failures_total{code="storage/slow"}') == 1
    gate.set()
    waiting.join()
    assert readiness(collector) == (200, None)


def test_whoever_asks_often_does_not_make_us_write_often(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    probes: list[None] = []
    probe = collector.service.database.probe
    monkeypatch.setattr(collector.service.database, "probe", lambda connection: probes.append(probe(connection)))
    for _ in range(20):
        assert collector.ask("GET", "/readyz").status == 200
    assert len(probes) <= 3


def test_a_campaign_may_have_a_rate(tmp_path: Path) -> None:
    with running(tmp_path, ServiceLimits(upload_bytes_per_second=1)) as collector:
        document = collector.filled()
        now = [0.0]
        rates = collector.service._rates = Rates(1000, lambda: now[0])
        rates._most = 10_000
        size = batch_of(document, 100).size
        told = [upload(collector, document, 100) for _ in range(10_000 // size + 1)]
        assert told[-1] == (429, "queue/rate") and told[0] == (200, None)
        now[0] += size / 1000 + 1
        assert upload(collector, document, 100) == (200, None)
        assert json.loads(collector.ask("GET", "/healthz").body) == {"status": "ok"}
