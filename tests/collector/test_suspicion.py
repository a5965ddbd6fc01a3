"""A collector says how far attackers could have moved estimates, and warns of ids that were chosen."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from sqlalchemy import func, select

from keyveil.campaign.rounds import RoundDocument
from keyveil.campaign.wire import Batch, pad, unpad
from keyveil.collector import sketching
from keyveil.collector.folding import read_tally
from keyveil.collector.service import Service, ServiceLimits
from keyveil.collector.tables import sketch as sketch_table
from keyveil.core.coins import Coins
from keyveil.core.report import Report
from keyveil.robustness.sketches import sketch
from tests.collector.campaigns import batch_of, refusal, started

ONE_KEY = {"name": "kvue", "epsilon": "1"}


def chosen(document: RoundDocument, people: int, key: int) -> Batch:
    """Reports whose senders tried ids until their word asked about one key."""
    coins, mechanism = Coins(), document.mechanism
    ids: list[bytes] = []
    payloads: list[bytes] = []
    while len(ids) < people:
        report = mechanism.perturb({"fries": 5}, coins)
        about = mechanism.asked_about(mechanism.tally([report]))  # type: ignore[attr-defined]
        if about.counts[key]:
            ids.append(report.public)
            payloads.append(pad(mechanism.encode(report), document.report_bytes, mechanism.codec.varies))
    return Batch(document.number, document.hash, tuple(ids), tuple(payloads))


def test_chosen_ids_are_warned_of_after_payloads_are_gone(service: Service) -> None:
    document = started(service, protocol=ONE_KEY, retention_days=0)
    service.submit("snacks", batch_of(document, 300)).result(30)
    service.submit("snacks", chosen(document, 90, 1)).result(30)
    service.act("snacks", "close")
    service.settle()
    (told,) = service.status("snacks")["rounds"]
    assert told["suspicion"]["alarm"] and told["suspicion"]["found"][0]["keys"] == ["fries"]
    assert "Warning: There are" in told["note"] and "about fries than ids give" in told["note"]


def test_honest_reports_are_not_warned_of_and_few_are_not_looked_at(service: Service) -> None:
    document = started(service, protocol=ONE_KEY, min_reports=200)
    service.submit("snacks", batch_of(document, 150)).result(30)
    service.settle()
    assert service.status("snacks")["rounds"][0]["suspicion"] is None, "below the least number nothing is said"
    service.submit("snacks", batch_of(document, 150)).result(30)
    service.act("snacks", "close")
    service.settle()
    (told,) = service.status("snacks")["rounds"]
    assert told["suspicion"]["alarm"] is False and told["note"] is None


def test_estimates_come_with_what_attackers_could_have_done(service: Service) -> None:
    document = started(service)
    service.submit("snacks", batch_of(document, 120)).result(30)
    service.act("snacks", "close")
    service.settle()
    estimates = service.estimates("snacks", attackers=2)
    assert estimates.attacked is not None and estimates.attacked.attackers == 2
    assert (estimates.attacked.frequency_low < estimates.frequency.values).all()
    assert service.estimates("snacks").attacked is None
    assert refusal(lambda: service.estimates("snacks", attackers=121)) == "attack/attackers"
    processed = service.estimates("snacks", attackers=2, postprocess="norm-sub")
    assert processed.attacked is not None and processed.attacked.frequency_kind == "bound"
    assert refusal(lambda: service.estimates("snacks", recover="removal")) == "detect/no-sketch"
    assert refusal(lambda: service.estimates("snacks", recover="magic")) == "recover/unknown"
    both = refusal(lambda: service.estimates("snacks", recover="constrained", postprocess="norm"))
    assert both == "recover/postprocess"
    assert "recovery by constrained" in repr(service.estimates("snacks", recover="constrained"))


@pytest.mark.parametrize("protocol", [{"name": "ssr", "epsilon": "1", "max_pairs": 2}])
def test_what_shows_nothing_of_ids_is_not_suspected(service: Service, protocol: dict[str, object]) -> None:
    document = started(service, protocol={**protocol, "overflow": "off"})
    service.submit("snacks", batch_of(document, 60)).result(30)
    service.act("snacks", "close")
    service.settle()
    assert service.status("snacks")["rounds"][0]["suspicion"] is None


UNARY = {"name": "pckv-ue", "epsilon": "1", "max_pairs": 2}


@pytest.fixture
def sketching_service(url: str) -> Iterator[Service]:
    opened = Service(url, limits=ServiceLimits(sketches=True))
    yield opened
    opened.close()


def bare(document: RoundDocument, people: int, key: int) -> Batch:
    """Reports that support one key and nothing else."""
    coins, mechanism = Coins(), document.mechanism
    ids: list[bytes] = []
    payloads: list[bytes] = []
    while len(ids) < people:
        report = Report(coins.bytes(16), (2 * key + 1,))
        try:
            payload = mechanism.encode(report)
        except Exception:  # an id of the overflow group, where payloads look otherwise
            continue
        ids.append(report.public)
        payloads.append(pad(payload, document.report_bytes, mechanism.codec.varies))
    return Batch(document.number, document.hash, tuple(ids), tuple(payloads))


def stored_sketches(service: Service) -> int:
    with service.database.read() as connection:
        return int(connection.execute(select(func.count()).select_from(sketch_table)).scalar_one())


@pytest.mark.parametrize("overflow", ["off", "0.1"])
def test_crafted_reports_are_warned_of_after_payloads_are_gone(sketching_service: Service, overflow: str) -> None:
    """The sketch is in steps with the tally, also beside an overflow group; it is read when no payload is left."""
    service = sketching_service
    keys = [f"key {number}" for number in range(12)]
    schema = {"keys": keys, "low": 1, "high": 5}
    document = started(service, schema=schema, protocol={**UNARY, "overflow": overflow}, retention_days=0)
    honest = batch_of(document, 400, ({}, {"key 1": 4}, {"key 2": 2, "key 5": 5}))
    service.submit("snacks", honest).result(30)
    service.settle()
    service.submit("snacks", bare(document, 120, 3)).result(30)
    service.act("snacks", "close")
    service.settle()
    (told,) = service.status("snacks")["rounds"]
    found = {one["test"]: one["keys"] for one in told["suspicion"]["found"]}
    assert told["suspicion"]["alarm"] and found["number of keys"] == ["key 3"], "another sign may be stronger by chance"
    assert "Warning: There are" in told["note"] and "key 3" in told["note"]
    moved, left = (service.estimates("snacks", recover=how).frequency.values[3] for how in (None, "removal"))
    assert left < moved / 3, "what was removed is taken back, without any payload"


def test_no_sketch_is_kept_unless_it_is_wanted(service: Service) -> None:
    document = started(service, protocol=UNARY)
    batch = batch_of(document, 90)
    service.submit("snacks", batch).result(30)
    service.act("snacks", "close")
    service.settle()
    assert stored_sketches(service) == 0
    assert service.status("snacks")["rounds"][0]["suspicion"] is None
    plain = service.tally("snacks")[1]
    assert np.array_equal(plain.counts, document.mechanism.tally_encoded(*_unpadded(document, batch)).counts)


def test_sketches_of_shards_and_steps_add_up(sketching_service: Service) -> None:
    service = sketching_service
    document = started(service, protocol={**UNARY, "overflow": "off"}, min_reports=10)
    batches = [batch_of(document, 40) for _ in range(3)]
    for batch in batches:
        service.submit("snacks", batch).result(30)
        service.settle()
    service.act("snacks", "close")
    service.settle()
    assert stored_sketches(service) == 1
    with service.database.read() as connection:
        stored = service._repository.named(connection, "snacks").rounds[0]
        kept = sketching.read_sketch(connection, stored.id, stored.document)
        counted = read_tally(connection, stored.id, stored.document)
    mechanism = document.mechanism
    pairs = (pair for batch in batches for pair in zip(*_unpadded(document, batch), strict=True))
    listed = [Report(number, mechanism.codec.decode(payload)) for number, payload in pairs]
    assert kept is not None and kept == sketch(mechanism, mechanism.gather(listed))
    assert counted == mechanism.tally(listed)
    service.act("snacks", "archive")
    service.settle()
    assert stored_sketches(service) == 1, "an archived campaign keeps what was counted"
    service.delete("snacks")
    service.settle()
    assert stored_sketches(service) == 0


def test_a_sketch_that_fails_holds_no_tally_up(sketching_service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("no sketch today")

    monkeypatch.setattr(sketching, "sketch_of", broken)
    document = started(sketching_service, protocol=UNARY)
    sketching_service.submit("snacks", batch_of(document, 30)).result(30)
    sketching_service.act("snacks", "close")
    sketching_service.settle()
    assert sketching_service.tally("snacks")[1].reports == 30 and stored_sketches(sketching_service) == 0


def _unpadded(document: RoundDocument, batch: Batch) -> tuple[list[bytes], list[bytes]]:
    varies = document.mechanism.codec.varies
    return list(batch.ids), [unpad(one, document.report_bytes, varies) for one in batch.payloads]
