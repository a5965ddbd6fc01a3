"""Ten thousand keys on one page: how much script time the first look and a sort take, beside an empty page."""

from __future__ import annotations

import hashlib
import http.client
import json
from collections.abc import Callable
from typing import Any

from playwright.sync_api import CDPSession, Page, expect

from keyveil.campaign.dictionaries import parted
from keyveil.campaign.documents import Campaign
from keyveil.campaign.rounds import RoundDocument
from tests.browser.chromium import Chromium
from tests.browser.conftest import administer
from tests.browser.test_dashboard import Watched
from tests.collector.campaigns import batch_of, snacks
from tests.collector.processes import Served

KEYS = [f"key {number:05}" for number in range(10_000)]
PAINT, SORT = 1.0, 0.2  # seconds of script, layout and style that a page may take


def filled(server: Served) -> None:
    """A campaign about ten thousand keys with some reports; a list so long lies beside the document."""
    schema = {"keys": KEYS, "low": 1, "high": 5}
    document = snacks(name="many-keys", schema=schema, protocol={"name": "kvue", "epsilon": "4"}, min_reports=10)
    slim, beside = parted(document)
    assert beside is not None
    keep(server, hashlib.sha256(beside).hexdigest(), beside)
    administer(server, "POST", "/v1/campaigns", slim)
    view = administer(server, "PATCH", "/v1/campaigns/many-keys", {"action": "open"})
    campaign = Campaign.from_document(view["campaign"], lambda _: beside)
    round_document = RoundDocument.from_document(view["round"]["document"], campaign)
    people = tuple({KEYS[at]: 3.0} for at in range(20))
    batch = json.loads(batch_of(round_document, 200, people).to_json())
    administer(server, "POST", "/v1/campaigns/many-keys/reports", batch)
    administer(server, "PATCH", "/v1/campaigns/many-keys", {"action": "close"})


def keep(server: Served, digits: str, content: bytes) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    headers = {"Authorization": f"Bearer {server.tokens['admin']}", "Content-Type": "application/json"}
    connection.request("PUT", f"/v1/dictionaries/{digits}", content, headers)
    assert connection.getresponse().status == 200
    connection.close()


def spent(session: CDPSession) -> float:
    """Seconds that this tab has spent in scripts, layout and styles so far."""
    told: Any = session.send("Performance.getMetrics")["metrics"]
    numbers = {one["name"]: one["value"] for one in told}
    return float(sum(numbers[name] for name in ("ScriptDuration", "LayoutDuration", "RecalcStyleDuration")))


def until_counted(page: Page, address: str) -> None:
    for _ in range(100):
        page.goto(address)
        if page.get_by_role("searchbox").count():
            return
        page.wait_for_timeout(100)
    raise AssertionError(page.inner_text("main"))


def test_ten_thousand_keys_are_shown_and_sorted_quickly(
    browser: Chromium, server: Served, record_property: Callable[[str, object], None]
) -> None:
    filled(server)
    window = browser.private()
    watched = Watched(window.new_page(), server)
    watched.sign_in(server.tokens["analyst"])
    page, address = watched.page, f"{watched.address}/campaigns/many-keys"
    until_counted(page, address)
    session = window.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})  # the tab’s own time, not that of others

    def costs(work: Any) -> float:
        before = spent(session)
        work()
        return spent(session) - before

    empty = costs(lambda: page.goto(f"{watched.address}/sign-in"))
    shown = costs(lambda: page.goto(address))

    def sort() -> None:
        page.get_by_role("link", name="key", exact=True).click()
        expect(page.locator("[data-table] tbody th").first).to_have_text("key 00000")

    sorted_in = costs(sort)
    told = f"empty page {empty:.3f} s, first look {shown:.3f} s, sort {sorted_in:.3f} s of script, layout and style"
    record_property("seconds", told)
    assert shown < PAINT and sorted_in < SORT, told
    assert page.locator("[data-table] tbody tr").count() == 50
    page.get_by_role("searchbox").fill("09999")
    expect(page.locator("[data-table] tbody tr")).to_have_count(1)
    assert watched.complaints == []
    page.route("**/*part=rows*", lambda route: route.abort())  # as if the collector were gone
    page.get_by_role("searchbox").fill("1")
    expect(page.get_by_role("alert")).to_contain_text("The collector does not answer")
    window.close()
