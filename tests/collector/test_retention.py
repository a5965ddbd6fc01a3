"""Payloads are kept as long as the campaign said and no longer; the ids of reports stay."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import func, select

from keyveil.campaign.wire import Batch
from keyveil.collector import tables
from keyveil.collector.service import Service
from keyveil.collector.storing import UploadResult
from tests.collector.campaigns import batch_of, started
from tests.collector.conftest import SetClock


def test_payloads_are_forgotten_and_their_ids_are_not(service: Service, clock: SetClock) -> None:
    document = started(service, retention_days=2, protocol={"name": "kvue", "epsilon": "1"})
    batch = batch_of(document, 20)
    service.submit("snacks", batch).result()
    service.settle()
    before = service.tally("snacks")[1]
    assert payloads(service) == 20
    clock.moment += timedelta(days=2)
    service.settle()

    assert payloads(service) == 0
    assert service.tally("snacks")[1] == before
    other = Batch(1, document.hash, batch.ids[:1], batch_of(document, 1).payloads)
    assert service.submit("snacks", other).result() == UploadResult(0, 1)


@pytest.mark.parametrize("late", [timedelta(0), timedelta(hours=5, minutes=59)], ids=["at-once", "late"])
def test_no_payload_is_kept_longer_than_the_campaign_said(service: Service, clock: SetClock, late: timedelta) -> None:
    """Arrivals are known to six hours, so that a payload goes up to six hours before its days are over, never after."""
    document = started(service, retention_days=2)
    noon = clock.moment  # when a bucket of six hours begins
    clock.moment = noon + late
    service.submit("snacks", batch_of(document, 20)).result()
    service.settle()
    clock.moment = noon + timedelta(days=2) - timedelta(seconds=1)
    service.settle()
    assert payloads(service) == 20
    clock.moment = noon + timedelta(days=2)
    service.settle()

    assert payloads(service) == 0


def payloads(service: Service) -> int | None:
    with service.database.read() as connection:
        return connection.execute(select(func.count()).where(tables.report.c.payload.is_not(None))).scalar()
