"""Who may do what: every route of the app against everybody who might ask."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from keyveil.collector.app import make_app
from keyveil.collector.service import Service
from keyveil.collector.settings import Settings
from tests.collector.campaigns import asked, batch_of, snacks, started
from tests.collector.running import Collector, problem, running

SCOPES: dict[str, dict[str, Any]] = {  # tokens: role, and what else was said when they were made
    "analyst": {"role": "analyst"},
    "analyst-of-snacks": {"role": "analyst", "campaigns": ["snacks"]},
    "analyst-elsewhere": {"role": "analyst", "campaigns": ["elsewhere"]},
    "admin": {"role": "admin"},
    "admin-of-snacks": {"role": "admin", "campaigns": ["snacks", "another"]},
    "admin-elsewhere": {"role": "admin", "campaigns": ["elsewhere"]},
    "admin-until-today": {"role": "admin", "expires": date.today() + timedelta(days=1)},
    "expired": {"role": "admin", "expires": date(2020, 1, 1)},
    "revoked": {"role": "admin"},
}
UNKNOWN = {"anonymous", "device", "expired", "revoked"}
EVERYBODY = {*SCOPES, *UNKNOWN}
ALL_ADMINS = {"admin", "admin-until-today"}
ADMINS = ALL_ADMINS | {"admin-of-snacks"}  # for what belongs to the campaign snacks
ANY_ADMIN = ADMINS | {"admin-elsewhere"}
ANALYSTS = ADMINS | {"analyst", "analyst-of-snacks"}
ANY_ANALYST = ANALYSTS | {"analyst-elsewhere", "admin-elsewhere"}
DEVICES = {"device"}  # the campaign of this test asks for enrolment

LIST = b'["fries"]'
MATRIX: dict[tuple[str, str], tuple[set[str], Any]] = {  # who may, and a body that would be accepted
    ("GET", "/v1/campaigns/{name}"): (EVERYBODY, None),
    ("GET", "/v1/dictionaries/{sha256}"): (EVERYBODY, None),
    ("POST", "/v1/campaigns/{name}/reports"): (DEVICES, ...),
    ("GET", "/v1/campaigns"): (ANY_ANALYST, None),
    ("GET", "/v1/campaigns/{name}/status"): (ANALYSTS, None),
    ("GET", "/v1/campaigns/{name}/estimates"): (ANALYSTS, None),
    ("POST", "/v1/campaigns/{name}/queries"): (ANALYSTS, {"kind": "top", "count": 1}),
    ("GET", "/v1/campaigns/{name}/tally"): (ANALYSTS, None),
    ("POST", "/v1/campaigns"): (ADMINS, snacks(name="another")),
    ("PATCH", "/v1/campaigns/{name}"): (ADMINS, {"action": "close"}),
    ("DELETE", "/v1/campaigns/{name}"): (ADMINS, None),
    ("POST", "/v1/campaigns/{name}/enrolments"): (ADMINS, {"count": 1}),
    ("POST", "/v1/campaigns/{name}/revocations"): (ADMINS, {"tokens": ["of-nobody"]}),
    ("PUT", "/v1/dictionaries/{sha256}"): (ANY_ADMIN, LIST),
    ("GET", "/v1/campaigns/{name}/reports"): (ADMINS, None),
    ("GET", "/v1/tokens"): (ALL_ADMINS, None),
    ("POST", "/v1/tokens"): (ALL_ADMINS, {"name": "a-new-one", "role": "analyst"}),
    ("DELETE", "/v1/tokens/{token}"): (ALL_ADMINS, None),
    ("GET", "/v1/journal"): (ALL_ADMINS, None),
    ("GET", "/v1/clock"): (ALL_ADMINS, None),
    ("POST", "/v1/clock"): (ALL_ADMINS, None),
    ("GET", "/healthz"): (EVERYBODY, None),
    ("GET", "/readyz"): (EVERYBODY, None),
    ("GET", "/metrics"): (EVERYBODY, None),
    ("GET", "/openapi.json"): (EVERYBODY, None),
    ("GET", "/api"): (EVERYBODY, None),
    ("GET", "/problems"): (EVERYBODY, None),
    ("GET", "/problems/{code:path}"): (EVERYBODY, None),
    ("GET", "/try"): (EVERYBODY, None),
    ("GET", "/try/{path:path}"): (EVERYBODY, None),
}


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[Collector]:
    with running(tmp_path) as one:
        one.service.put_dictionary(LIST)
        document = started(one.service, enrolment="token", min_reports=1)
        one.service.submit("snacks", batch_of(document, 1), one.service.enrol("snacks", 1)[0]).result(30)
        one.service.settle()
        yield one


@pytest.fixture
def tokens(collector: Collector) -> dict[str, str]:
    made = {name: collector.service.roles.grant(name=name, **scope) for name, scope in SCOPES.items()}
    collector.service.roles.grant("analyst", "to-revoke")
    collector.service.roles.revoke("revoked")
    return {**made, "device": collector.service.enrol("snacks", 1)[0]}


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


@pytest.mark.parametrize(("method", "path"), MATRIX)
def test_only_those_who_may(collector: Collector, tokens: dict[str, str], method: str, path: str) -> None:
    """First everybody who may not, then everybody who may: the first of these succeeds, and none is turned away."""
    allowed, body = MATRIX[method, path]
    data = batch_of(asked(collector.service), 1).to_json() if body is ... else body
    if method == "DELETE" and path.endswith("{name}"):
        collector.service.act("snacks", "stop")
        collector.service.settle()
    before = state(collector)

    for who in sorted(EVERYBODY - allowed):
        answer = collector.ask(method, filled(path), data, tokens.get(who))
        known_here = who not in UNKNOWN and allowed != DEVICES
        assert answer.status == (403 if known_here else 401), who
        assert problem(answer).partition("/")[0] in ("access", "enrolment")
        assert ("www-authenticate" in answer.headers) == (answer.status == 401)
        assert state(collector) == before

    answers = [collector.ask(method, filled(path), data, tokens.get(who)).status for who in sorted(allowed)]
    assert answers[0] == 307 if path == "/try" else answers[0] in (200, 201)
    assert not {401, 403, 500} & set(answers)


def test_a_token_for_some_campaigns_does_not_reach_others_however_they_are_called(
    collector: Collector, tokens: dict[str, str]
) -> None:
    started(collector.service, name="secret-plans", enrolment="token", purpose="Another one.")
    digits = collector.service.view("secret-plans")["hash"]
    for (method, path), (allowed, body) in MATRIX.items():
        if "{name}" in path and allowed not in (EVERYBODY, DEVICES):
            for name in ("secret-plans", digits, digits[:8]):
                for who in ("analyst-of-snacks", "admin-of-snacks"):
                    answer = collector.ask(method, path.replace("{name}", name), body, tokens[who])
                    assert answer.status == 403 and problem(answer) in ("access/campaign", "access/role")


def test_a_list_shows_the_campaigns_of_the_token(collector: Collector, tokens: dict[str, str]) -> None:
    started(collector.service, name="secret-plans", purpose="Another one.")
    seen = {
        who: [
            one["name"]
            for one in json.loads(collector.ask("GET", "/v1/campaigns", token=tokens[who]).body)["campaigns"]
        ]
        for who in ("analyst", "analyst-of-snacks", "analyst-elsewhere")
    }

    assert seen == {"analyst": ["snacks", "secret-plans"], "analyst-of-snacks": ["snacks"], "analyst-elsewhere": []}


def test_a_draft_is_shown_to_those_who_may_and_to_nobody_else(collector: Collector, tokens: dict[str, str]) -> None:
    draft = collector.service.create(snacks(name="secret-plans"))
    batch = batch_of(asked(collector.service), 1).to_json()
    for name in ("secret-plans", draft["hash"], draft["hash"][:8]):
        for who in ("anonymous", "device", "analyst-of-snacks", "expired", "revoked"):
            answer = collector.ask("GET", f"/v1/campaigns/{name}", token=tokens.get(who))
            assert (answer.status, problem(answer)) == (404, "campaign/unknown")
        upload = collector.ask("POST", f"/v1/campaigns/{name}/reports", batch, tokens["device"])
        assert problem(upload) == "campaign/unknown"
        answer = collector.ask("GET", f"/v1/campaigns/{name}", token=tokens["analyst"])
        assert answer.status == 200 and answer.headers["cache-control"] == "no-store"


def test_two_tokens_are_good_at_once_and_one_replaces_the_other(collector: Collector) -> None:
    def asks(token: str) -> int:
        return collector.ask("GET", "/v1/tokens", token=token).status

    old = collector.admin
    made = collector.ask("POST", "/v1/tokens", {"name": "admin-2027", "role": "admin"}, old)
    new = json.loads(made.body)["token"]
    assert [asks(old), asks(new)] == [200, 200]
    name = next(
        one["name"]
        for one in collector.service.roles.tokens()
        if one["name"].startswith("admin-") and one["name"] != "admin-2027"
    )
    assert collector.ask("DELETE", f"/v1/tokens/{name}", token=new).status == 200

    assert [asks(old), asks(new)] == [401, 200]
    assert problem(collector.ask("DELETE", f"/v1/tokens/{name}", token=new)) == "access/no-token"
    assert problem(collector.ask("POST", "/v1/tokens", {"name": name, "role": "admin"}, new)) == "access/exists"
    listed = json.loads(collector.ask("GET", "/v1/tokens", token=new).body)["tokens"]
    assert {one["name"]: one["state"] for one in listed}[name] == "revoked"
    assert new not in json.dumps(listed)


def test_a_revoked_enrolment_sends_nothing_more(collector: Collector) -> None:
    good, bad = collector.service.enrol("snacks", 2)
    told = collector.ask("POST", "/v1/campaigns/snacks/revocations", {"tokens": [bad, "unheard-of"]}, collector.admin)
    assert json.loads(told.body) == {"revoked": 1}
    answers = [
        collector.ask("POST", "/v1/campaigns/snacks/reports", batch_of(asked(collector.service), 1).to_json(), token)
        for token in (good, bad)
    ]

    assert [answer.status for answer in answers] == [200, 401]
    assert problem(answers[1]) == "enrolment/revoked"


def state(collector: Collector) -> Any:
    """What those who may not must not change."""
    service = collector.service
    return service.campaigns(), service.roles.tokens(), len(list(service.journal.entries()))


def filled(path: str) -> str:
    digits = hashlib.sha256(LIST).hexdigest()
    return (
        path.replace("{name}", "snacks")
        .replace("{sha256}", digits)
        .replace("{token}", "to-revoke")
        .replace("{path:path}", "")
        .replace("{code:path}", "report/size")
    )


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
        (tmp_path / role).touch(0o600)
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


def test_a_token_file_is_read_again_without_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "admin"
    path.touch(0o600)
    path.write_text("the-first-token-of-the-file\n")
    with running(tmp_path, admin_token_file=path) as collector:

        def asks(word: str) -> int:
            return collector.ask("GET", "/v1/tokens", token=f"the-{word}-token-of-the-file").status

        seen = [[asks("first"), asks("second")]]
        path.write_text("the-first-token-of-the-file\nthe-second-token-of-the-file\n")
        seen.append([asks("first"), asks("second")])
        path.write_text("the-second-token-of-the-file\n")
        seen.append([asks("first"), asks("second")])
        path.chmod(0o644)
        seen.append([asks("first"), asks("second")])

    assert seen == [[200, 401], [200, 200], [401, 200], [401, 401]]
