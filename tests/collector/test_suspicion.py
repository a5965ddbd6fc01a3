"""A collector says how far attackers could have moved estimates, and warns of ids that were chosen."""

from __future__ import annotations

import pytest

from keyveil.campaign.rounds import RoundDocument
from keyveil.campaign.wire import Batch, pad
from keyveil.collector.service import Service
from keyveil.core.coins import Coins
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
    assert refusal(lambda: service.estimates("snacks", attackers=2, postprocess="norm-sub")) == "attack/postprocess"


@pytest.mark.parametrize("protocol", [{"name": "ssr", "epsilon": "1", "max_pairs": 2}])
def test_what_shows_nothing_of_ids_is_not_suspected(service: Service, protocol: dict[str, object]) -> None:
    document = started(service, protocol={**protocol, "overflow": "off"})
    service.submit("snacks", batch_of(document, 60)).result(30)
    service.act("snacks", "close")
    service.settle()
    assert service.status("snacks")["rounds"][0]["suspicion"] is None
