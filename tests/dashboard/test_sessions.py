"""Signing in: a session ends with its token, after a while, and when its owner says so; nobody else can use it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import text

from keyveil.collector.backup import backup, restore
from keyveil.collector.service import Service
from tests.dashboard.browsing import Browser, Pages, pages


@pytest.fixture
def site(tmp_path: Path, url: str) -> Iterator[Pages]:
    with pages(tmp_path, url) as one:
        yield one


@pytest.fixture
def lone(tmp_path: Path) -> Iterator[Pages]:
    with pages(tmp_path) as one:
        yield one


def signed_in(browser: Browser) -> bool:
    return "Sign out" in browser.get("/").text


def rows(service: Service) -> list[tuple[bytes, bytes]]:
    with service.database.read() as connection:
        found = connection.execute(text("SELECT secret_hash, token_hash FROM session")).all()
    return [(bytes(one[0]), bytes(one[1])) for one in found]


def test_a_session_lies_in_the_database_as_a_hash_and_ends_with_its_token(site: Pages) -> None:
    browser = site.browser(site.analyst)
    assert signed_in(browser)
    secret = browser.cookies["keyveil"].encode()
    assert len(rows(site.service)) == 1 and secret not in rows(site.service)[0]
    site.service.roles.revoke("the-analyst")

    assert rows(site.service) == []
    assert not signed_in(browser)
    assert "token is no longer good" in browser.words


def test_a_session_ends_after_idle_minutes_and_after_hours_however_busy(site: Pages) -> None:
    idle, busy = site.browser(site.analyst), site.browser(site.admin)
    site.clock.moment += timedelta(minutes=29)
    assert signed_in(idle) and signed_in(busy)
    site.clock.moment += timedelta(minutes=31)
    assert not signed_in(idle) and not signed_in(busy)

    busy = site.browser(site.admin)
    for _ in range(36):
        site.clock.moment += timedelta(minutes=20)
        seen = signed_in(busy)
    assert not seen  # after twelve hours
    site.browser(site.admin)
    assert len(rows(site.service)) == 1  # what has expired was removed


def test_signing_out_ends_the_session_and_not_only_the_cookie(lone: Pages) -> None:
    browser = lone.browser(lone.analyst)
    stolen = dict(browser.cookies)
    browser.post("/sign-out")

    assert not signed_in(browser)
    assert not signed_in(Browser(lone.transport, stolen))
    assert rows(lone.service) == []


def test_the_cookie_is_for_this_host_and_no_script(lone: Pages, tmp_path: Path) -> None:
    browser = lone.browser()
    browser.get("/sign-in")
    browser.post("/sign-in", follow=False, token=lone.admin)
    parts = {part.strip().lower() for part in browser.answer.headers["set-cookie"].split(";")[1:]}
    assert parts == {"httponly", "path=/", "samesite=strict"}
    (tmp_path / "other").mkdir()
    with pages(tmp_path / "other", host="0.0.0.0", behind_tls=True) as outside:
        browser = outside.browser()
        browser.get("/sign-in")
        browser.post("/sign-in", follow=False, token=outside.admin)
        told = browser.answer.headers["set-cookie"].lower()
        assert told.startswith("__host-keyveil=") and "; secure" in told


def test_a_wrong_token_and_a_forged_sign_in_start_nothing(lone: Pages) -> None:
    browser = lone.browser()
    assert browser.sign_in("not-a-token").answer.status == 401
    assert "not known here" in browser.words and "not-a-token" not in browser.text
    for forged in ({"form_token": "0" * 64}, {}):
        browser.get("/sign-in")
        browser.post("/sign-in", genuine=False, token=lone.admin, **forged)
        assert browser.answer.status == 403
    other = lone.browser()
    other.get("/sign-in")
    browser.get("/sign-in")
    browser.post("/sign-in", genuine=False, token=lone.admin, form_token=other.form_token)
    assert browser.answer.status == 403
    assert rows(lone.service) == []


@pytest.mark.parametrize("to", ["//evil.example", "https://evil.example", "/\\evil", "javascript:alert(1)", "/sign-in"])
def test_after_signing_in_nobody_is_sent_elsewhere(lone: Pages, to: str) -> None:
    browser = lone.browser()
    browser.get("/sign-in")
    browser.post("/sign-in", follow=False, token=lone.admin, next=to)
    assert browser.answer.headers["location"] == "./"


def test_one_token_has_so_many_sessions_and_the_oldest_goes(lone: Pages) -> None:
    first = lone.browser(lone.analyst)
    for _ in range(20):
        lone.clock.moment += timedelta(minutes=1)
        lone.browser(lone.analyst)
    assert len(rows(lone.service)) == 20
    assert not signed_in(first)


def test_a_backup_holds_nobodys_session(lone: Pages, tmp_path: Path) -> None:
    browser = lone.browser(lone.analyst)
    backup(f"sqlite:///{tmp_path / 'keyveil.db'}", tmp_path / "saved")
    restore(tmp_path / "saved", f"sqlite:///{tmp_path / 'again.db'}")
    again = Service(f"sqlite:///{tmp_path / 'again.db'}")
    assert rows(again) == [] and again.roles.admit(lone.analyst) is not None
    again.close()
    assert signed_in(browser)


def test_signing_in_is_in_the_journal(lone: Pages) -> None:
    lone.browser(lone.analyst)
    last = list(lone.service.journal.entries())[-1]
    assert (last["actor"], last["action"], last["subject"]) == ("the-analyst", "session.start", "the-analyst")
