"""The device in a real browser, on a page of another origin than the collector's."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Playwright

from tests.browser.chromium import chromium
from tests.browser.conftest import Shop, opened
from tests.browser.gate import pages

soak = partial(pytest.param, marks=pytest.mark.soak)  # of two of a kind one is enough for every day
TYPED = "4.125"  # what somebody types; it must not be found in any request


def left_before_consent(shop: Shop, **options: Any) -> list[str]:
    """What left the page before consent, other than asking for the site's own files and for the campaign."""
    page = shop.tab(**options)
    page.fill("[name=fries]", TYPED)
    shop.click(page, "explain", "explained")
    page.evaluate("device.preview(campaign, {fries: 4.125, pepsi: 2})")
    page.click("#send")
    page.wait_for_function("document.querySelector('#outcome').textContent !== 'explained'")
    campaign = f"{shop.gate.address}/v1/campaigns/{shop.name}"
    others = [address for address in shop.asked if address != campaign and not address.startswith(shop.site.origin)]
    strange = [one.method for one in shop.gate.heard if one.method != "GET" or one.body]
    return others + strange + [one.path for one in shop.gate.heard if TYPED.encode() in one.everything]


def test_a_page_of_another_origin_gives_consent_and_reports(shop: Shop) -> None:
    assert left_before_consent(shop) == []
    page = shop.tabs[0]
    shop.says(page, "consent/needed")
    assert "costs epsilon 1, computed here from ssr" in page.inner_text("#shown")
    assert "may forget" not in page.inner_text("#shown")
    shop.click(page, "agree", "agreed")
    assert shop.gate.sent() == []
    shop.click(page, "send", "sent")
    assert shop.stored == len(shop.gate.sent()) == 1
    assert [0.999 < float(epsilon) <= 1 for epsilon in shop.spent(page)] == [True]
    shop.click(page, "send", "sent")
    assert shop.stored == len(shop.gate.sent()) == 1
    assert not any(TYPED.encode() in one.everything for one in shop.gate.heard)
    assert shop.complaints == []


def test_a_page_that_asks_nobody_is_noticed(shop: Shop) -> None:
    assert "POST" in left_before_consent(shop, eager=1)


def told_of_the_sender(shop: Shop) -> set[str]:
    """Headers by which a collector could know a browser again, and whether a cache answered instead of it."""
    shop.browser.usual.add_cookies([{"name": "session", "value": "kept", "url": shop.gate.address}])
    page = shop.tab()
    page.click("#explain")
    page.wait_for_function("document.querySelector('#outcome').textContent !== 'ready'")
    if page.inner_text("#outcome") == "explained":
        shop.click(page, "agree", "agreed")
        shop.click(page, "send", "sent")
    shop.browser.usual.clear_cookies()
    found = {name for one in shop.gate.heard for name in ("cookie", "referer", "if-none-match") if name in one.headers}
    fetched = [one for one in shop.gate.heard if one.method == "GET"]
    return found | ({"a cache"} if len(fetched) == 1 and "cookie" not in found else set())


def test_requests_have_no_cookie_no_referrer_and_no_cache(shop: Shop) -> None:
    assert told_of_the_sender(shop) == set()
    (upload,) = [one for one in shop.gate.heard if one.method == "POST"]
    assert upload.headers["origin"] == shop.site.origin
    assert "authorization" not in upload.headers
    assert shop.complaints == []


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ('credentials: "omit"', 'credentials: "include"', "cookie"),
        ('cache: "no-store"', 'cache: "no-cache"', "if-none-match"),
        soak('cache: "no-store"', 'cache: "default"', "a cache"),
    ],
)
def test_a_careless_request_is_noticed(shop: Shop, before: str, after: str, told: str) -> None:
    """Each beside a careless referrer."""
    shop.site.spoil(before, after)
    shop.site.spoil('referrerPolicy: "no-referrer"', 'referrerPolicy: "unsafe-url"')
    assert told_of_the_sender(shop) == {told, "referer"}


def test_a_collector_answers_only_pages_that_it_lists(shop: Shop) -> None:
    listed = shop.site
    with pages() as shop.site:
        shop.click(shop.tab(), "explain", "transport/unreachable")
        assert any("CORS" in said for said in shop.complaints)
    shop.site = listed


@pytest.mark.parametrize("uploads", [soak("lose"), "mute"])
def test_a_tab_closed_in_the_middle_comes_back_with_the_same_bytes(shop: Shop, uploads: str) -> None:
    """Whether the report had arrived or not: it is sent again as it was, and counted once."""
    page = shop.agreed()
    page.fill("[name=fries]", "4")
    shop.gate.hold(uploads)
    page.click("#send")
    assert shop.gate.arrived.wait(20)
    page.close()
    shop.gate.open()
    later = shop.tab()
    later.fill("[name=fries]", "1")
    assert [one["state"] for one in later.evaluate("device.flush()")] == ["sent"]
    assert len(shop.gate.sent()) >= 2 and len(set(shop.gate.sent())) == 1  # a browser may repeat what was not answered
    assert shop.stored == len(shop.spent(later)) == 1
    assert shop.complaints == []


def test_a_browser_that_crashes_comes_back_with_the_same_bytes(
    shop: Shop, playwright: Playwright, tmp_path: Path
) -> None:
    usual, profile = shop.browser, tmp_path / "profile"
    with chromium(playwright, profile) as shop.browser:
        shop.browser.keep_storage(shop.site.origin)
        page = shop.agreed()
        shop.gate.hold("lose")
        page.click("#send")
        assert shop.gate.arrived.wait(20)
        shop.browser.kill()
    shop.gate.open()
    shop.tabs.clear()
    with chromium(playwright, profile) as shop.browser:
        shop.browser.keep_storage(shop.site.origin)
        later = shop.tab()
        assert [one["state"] for one in later.evaluate("device.flush()")] == ["sent"]
        assert len(shop.spent(later)) == 1
        shop.tabs.clear()
    assert len(shop.gate.sent()) >= 2 and len(set(shop.gate.sent())) == 1
    assert shop.stored == 1
    shop.browser = usual


def answers_of_two_tabs(shop: Shop, script: str = "", most: int = 500) -> tuple[set[str], int, int]:
    """Two tabs answer at once, each waits for the other before it writes, for so many milliseconds at most.

    Gives what they say in the end, how many different reports were heard, and the entries of the ledger.
    """
    first, second = shop.agreed(slow=1, script=script), shop.tab(slow=1, script=script)
    for page in (first, second):
        page.evaluate("most => { globalThis.wait = most; document.querySelector('#send').click(); }", most)
    for page in (first, second):
        page.wait_for_function("!['ready', 'agreed'].includes(document.querySelector('#outcome').textContent)")
    said = {page.inner_text("#outcome") for page in (first, second)}
    return said, len(set(shop.gate.sent())), len(shop.spent(first))


def test_two_tabs_spend_once(shop: Shop) -> None:
    assert answers_of_two_tabs(shop) == ({"sent"}, 1, 1)
    assert shop.stored == 1
    assert shop.complaints == []


def test_tabs_that_nothing_keeps_apart_are_noticed(shop: Shop) -> None:
    """Both draw. Two reports are sent, or one tab finds that what it wrote is gone, and refuses."""
    apart = (
        "Object.defineProperty(Navigator.prototype, 'locks', {get: () => ({request: async (name, task) => task()})})"
    )
    said, reports, _ = answers_of_two_tabs(shop, apart, most=8000)
    assert reports == 2 or said > {"sent"}


@pytest.mark.parametrize("where", [soak("private window"), "persistence refused"])
def test_where_storage_may_be_forgotten_only_campaigns_for_browsers_are_answered(shop: Shop, where: str) -> None:
    private = where == "private window"
    window = shop.browser.private() if private else shop.browser.usual
    if not private:
        shop.browser.keep_storage(shop.site.origin, "denied")
    page = shop.agreed(window)
    assert "This browser may forget what was spent" in page.inner_text("#shown")
    assert "is not for browsers that may forget" in page.inner_text("#shown")
    shop.click(page, "send", "storage/fleeting")
    assert shop.gate.sent() == [] and shop.spent(page) == []

    shop.name = opened(shop.server, browser=True)
    page = shop.agreed(window)
    assert "each clearing of its data can cost one more epsilon" in page.inner_text("#shown")
    shop.click(page, "send", "sent")
    assert shop.stored == 1
    assert shop.complaints == []
    if private:
        window.close()
        shop.tabs.clear()


@pytest.mark.parametrize("how", ["cleared", soak("deleted by another tab")])
def test_storage_that_vanishes_in_use_stops_the_device(shop: Shop, how: str) -> None:
    page = shop.agreed()
    if how == "cleared":
        shop.browser.forget(shop.site.origin)
    else:
        shop.tab().evaluate(
            "new Promise((done, fail) => Object.assign(indexedDB.deleteDatabase('keyveil'),"
            " {onsuccess: () => done(), onerror: () => fail()}))"
        )
    shop.click(page, "send", "storage/vanished")
    shop.click(page, "explain", "storage/vanished")
    assert shop.gate.sent() == []
    assert shop.complaints == []


def test_a_clearing_costs_one_fresh_epsilon_and_no_more(shop: Shop) -> None:
    for reports in (1, 2):
        page = shop.agreed()
        shop.click(page, "send", "sent")
        shop.click(page, "send", "sent")
        assert len(set(shop.gate.sent())) == shop.stored == reports
        page.close()
        shop.browser.forget(shop.site.origin)
    shop.click(shop.tab(), "send", "consent/needed")
    assert shop.complaints == []


FULL = """
const put = IDBObjectStore.prototype.put;
IDBObjectStore.prototype.put = function (...given) {
  const request = put.apply(this, given);
  if (globalThis.full) this.transaction.abort(); // as a browser does when it finds at the commit that nothing more fits
  return request;
};
"""


def test_storage_that_is_full_refuses_and_sends_nothing(shop: Shop) -> None:
    page = shop.agreed(script=FULL)
    page.evaluate("globalThis.full = true")
    shop.click(page, "send", "storage/refused")
    assert shop.gate.sent() == []
    page.evaluate("globalThis.full = false")
    shop.click(page, "send", "sent")
    assert len(shop.spent(page)) == shop.stored == 1
    assert shop.complaints == []


def test_a_browser_that_keeps_nothing_is_told_so(shop: Shop, playwright: Playwright, tmp_path: Path) -> None:
    usual = shop.browser
    blocked = {"profile": {"default_content_setting_values": {"cookies": 2}}}
    with chromium(playwright, tmp_path / "profile", blocked) as shop.browser:
        page = shop.tab()
        shop.click(page, "explain", "storage/refused")
        shop.click(page, "agree", "storage/refused")
        shop.click(page, "send", "storage/refused")
        assert shop.gate.sent() == []
        assert shop.complaints == []
        shop.tabs.clear()
    shop.browser = usual


def test_do_not_track_is_respected(shop: Shop, playwright: Playwright, tmp_path: Path) -> None:
    usual = shop.browser
    with chromium(playwright, tmp_path / "profile", {"enable_do_not_track": True}) as shop.browser:
        shop.browser.keep_storage(shop.site.origin)
        refused(shop, "")
        shop.tabs.clear()
    shop.browser = usual


def test_global_privacy_control_is_respected(shop: Shop) -> None:
    refused(shop, "Object.defineProperty(Navigator.prototype, 'globalPrivacyControl', {get: () => true})")


def refused(shop: Shop, script: str) -> None:
    """A browser that asks not to be tracked is told why nothing is answered, and nothing is."""
    page = shop.tab(script=script)
    shop.click(page, "explain", "explained")
    assert "This browser asks not to be tracked" in page.inner_text("#shown")
    shop.click(page, "agree", "consent/signal")
    shop.click(page, "send", "consent/signal")
    assert shop.gate.sent() == []
    assert shop.complaints == []
