"""The API against its own description: generated requests, right and wrong, never make the collector fail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from hypothesis.strategies import SearchStrategy
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from keyveil.collector.app import make_app
from keyveil.collector.service import Service
from keyveil.collector.settings import Settings
from keyveil.core.chain import verify
from tests.collector.campaigns import batch_of, started

# The description cannot say which campaigns exist, which documents make sense and what their states allow, so an
# answer of 404, 409 or 422 to what it allows is right; and most of what it forbids is refused before (401, 404).
UNDECIDED: list[Any] = [positive_data_acceptance, negative_data_rejection]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    service = Service(f"sqlite:///{tmp_path / 'keyveil.db'}")
    document = started(service)
    service.submit("snacks", batch_of(document, 20)).result(30)
    service.settle()
    yield service
    service.close()


@pytest.fixture
def operations(service: Service) -> list[Any]:
    api: Any = schemathesis.openapi.from_asgi("/openapi.json", make_app(service, Settings(tick_seconds=0)))
    return [found.ok() for found in api.get_all_operations()]


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
@pytest.mark.parametrize("role", ["stranger", "admin"])
def test_no_request_makes_the_collector_fail(
    service: Service, operations: list[Any], role: str, mode: GenerationMode
) -> None:
    headers = {"Authorization": f"Bearer {service.roles.grant('admin')}"} if role == "admin" else {}
    for operation in operations:
        named = role == "admin" and "{name}" in operation.path  # reach what lies behind the name, too
        try:
            cases = operation.as_strategy(mode, path_parameters={"name": "snacks"} if named else None)
            fuzz(cases, headers)
        except Unsatisfiable:
            assert mode is GenerationMode.NEGATIVE  # where nothing can be sent, nothing can be wrong
    assert len(operations) == 24
    verify(service.journal.entries())
    if role == "stranger":  # an administrator may have deleted the campaign
        assert service.view("snacks")["hash"] and service.status("snacks")["reports"] >= 20


def fuzz(cases: SearchStrategy[schemathesis.Case], headers: dict[str, str]) -> None:
    @settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
    @given(cases)
    def one(case: schemathesis.Case) -> None:
        case.call_and_validate(headers=headers, excluded_checks=UNDECIDED)

    one()
