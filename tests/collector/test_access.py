"""Who may do what: every route of the app against everybody who might ask."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from keyveil.collector.app import make_app
from keyveil.collector.service import Service
from keyveil.collector.settings import Settings
from tests.collector.campaigns import asked, batch_of, snacks, started
from tests.collector.running import Collector, problem, running

EVERYBODY = {"anonymous", "device", "analyst", "admin"}
ANALYSTS = {"analyst", "admin"}
ADMINS = {"admin"}
DEVICES = {"device"}  # the campaign of this test asks for enrolment

LIST = b'["fries"]'
MATRIX: dict[tuple[str, str], tuple[set[str], Any]] = {  # who may, and a body that would be accepted
    ("GET", "/v1/campaigns/{name}"): (EVERYBODY, None),
    ("GET", "/v1/dictionaries/{sha256}"): (EVERYBODY, None),
    ("POST", "/v1/campaigns/{name}/reports"): (DEVICES, ...),
    ("GET", "/v1/campaigns"): (ANALYSTS, None),
    ("GET", "/v1/campaigns/{name}/status"): (ANALYSTS, None),
    ("GET", "/v1/campaigns/{name}/estimates"): (ANALYSTS, None),
    ("POST", "/v1/campaigns/{name}/queries"): (ANALYSTS, {"kind": "top", "count": 1}),
    ("GET", "/v1/campaigns/{name}/tally"): (ANALYSTS, None),
    ("POST", "/v1/campaigns"): (ADMINS, snacks(name="another")),
    ("PATCH", "/v1/campaigns/{name}"): (ADMINS, {"action": "close"}),
    ("POST", "/v1/campaigns/{name}/enrolments"): (ADMINS, {"count": 1}),
    ("PUT", "/v1/dictionaries/{sha256}"): (ADMINS, LIST),
    ("GET", "/v1/campaigns/{name}/reports"): (ADMINS, None),
    ("GET", "/healthz"): (EVERYBODY, None),
    ("GET", "/readyz"): (EVERYBODY, None),
    ("GET", "/metrics"): (EVERYBODY, None),
    ("GET", "/openapi.json"): (EVERYBODY, None),
}


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[Collector]:
    with running(tmp_path) as one:
        one.service.put_dictionary(LIST)
        document = started(one.service, enrolment="token", min_reports=1)
        one.service.submit("snacks", batch_of(document, 1), one.service.enrol("snacks", 1)[0]).result(30)
        one.service.settle()
        yield one


def routes(app: FastAPI) -> set[tuple[str, str]]:
    """All that the app serves; a route without a plain path would escape this test, so there may be none."""
    found = set()
    for route in app.routes:
        path, methods = getattr(route, "path", None), getattr(route, "methods", None)
        assert path and methods, f"{route!r} cannot be checked: add routes to the app itself"
        found |= {(method, path) for method in methods if method != "HEAD"}
    return found


def test_the_matrix_names_every_route(tmp_path: Path) -> None:
    service = Service(f"sqlite:///{tmp_path / 'keyveil.db'}")
    try:
        assert routes(make_app(service, Settings(tick_seconds=0))) == set(MATRIX)
    finally:
        service.close()


@pytest.mark.parametrize("who", sorted(EVERYBODY))
@pytest.mark.parametrize(("method", "path"), MATRIX)
def test_only_those_who_may(collector: Collector, method: str, path: str, who: str) -> None:
    allowed, body = MATRIX[method, path]
    tokens = {"device": collector.service.enrol("snacks", 1)[0], "analyst": collector.analyst, "admin": collector.admin}
    data = batch_of(asked(collector.service), 1).to_json() if body is ... else body
    before = collector.service.campaigns()

    answer = collector.ask(method, _filled(path), data, tokens.get(who))

    if who in allowed:
        assert answer.status in (200, 201), answer.body
    else:
        known_here = who in ("analyst", "admin") and allowed != DEVICES
        assert answer.status == (403 if known_here else 401)
        assert problem(answer).partition("/")[0] in ("access", "enrolment")
        assert ("www-authenticate" in answer.headers) == (answer.status == 401)
        assert collector.service.campaigns() == before


def _filled(path: str) -> str:
    return path.replace("{name}", "snacks").replace("{sha256}", hashlib.sha256(LIST).hexdigest())


WRONG = ("", "Bearer", "Bearer ", "Basic {token}", "{token}", "Bearer {token}x", "Bearer x{token}", "Bearer \xff")


@pytest.mark.parametrize("header", [*WRONG, "Bearer " + "x" * 9999])
def test_a_token_counts_only_as_it_was_given(collector: Collector, header: str) -> None:
    answer = collector.ask("GET", "/v1/campaigns", Authorization=header.format(token=collector.analyst))
    assert answer.status == 401 and problem(answer) in ("access/needed", "access/unknown")


def test_a_token_in_the_address_counts_for_nothing(collector: Collector) -> None:
    for name in ("token", "access_token", "authorization"):
        assert collector.ask("GET", f"/v1/campaigns?{name}={collector.admin}").status == 401


def test_tokens_may_lie_in_files_of_the_operator(tmp_path: Path) -> None:
    keys = {"admin": "an-admin-token-in-a-file", "analyst": "an-analyst-token-in-a-file"}
    for role, token in keys.items():
        (tmp_path / role).write_text(token + "\n")
    with running(tmp_path, admin_token_file=tmp_path / "admin", analyst_token_file=tmp_path / "analyst") as collector:
        for token in keys.values():
            assert collector.ask("GET", "/v1/campaigns", token=token).status == 200
        created = [collector.ask("POST", "/v1/campaigns", snacks(), token).status for token in keys.values()]
        assert created == [201, 403]
        database = (tmp_path / "keyveil.db").read_bytes() + (tmp_path / "keyveil.db-wal").read_bytes()
        assert not any(token.encode() in database for token in (*keys.values(), collector.admin, collector.analyst))


def test_refusals_do_not_repeat_the_token(collector: Collector) -> None:
    answer = collector.ask("GET", "/v1/campaigns", token="a-token-that-somebody-mistyped")
    assert b"mistyped" not in answer.body and json.loads(answer.body)["code"] == "access/unknown"
