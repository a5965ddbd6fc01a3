"""One browser, one collector and one site of another origin for all tests of this folder."""

from __future__ import annotations

import http.client
import itertools
import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from playwright.sync_api import BrowserContext, ConsoleMessage, Page, Playwright, TimeoutError, sync_playwright

from tests.browser.chromium import Chromium, chromium
from tests.browser.gate import Gate, Pages, gate_to, pages
from tests.collector.campaigns import snacks
from tests.collector.processes import Served, served

LOOPBACK = {"127.0.0.1", "localhost"}
_numbers = itertools.count(1)


@dataclass
class Shop:
    """A campaign of a collector behind a gate, and the tabs of a site that answers it; everything is watched."""

    name: str
    gate: Gate
    site: Pages
    server: Served
    browser: Chromium
    complaints: list[str] = field(default_factory=list)  # of pages, on the console
    asked: list[str] = field(default_factory=list)  # addresses that pages asked for
    tabs: list[Page] = field(default_factory=list)

    def tab(self, window: BrowserContext | None = None, script: str = "", **options: Any) -> Page:
        """A tab with the shop's page, in the usual window unless another is given; a script runs before the page's."""
        page = (window or self.browser.usual).new_page()
        page.add_init_script(script)
        self.tabs.append(page)
        page.on(
            "console", lambda said: self.complaints.append(said.text) if said.type in ("error", "warning") else None
        )
        page.on("pageerror", lambda raised: self.complaints.append(str(raised)))
        page.on("request", lambda request: self.asked.append(request.url))
        given = {"collector": self.gate.address, "campaign": self.name, **options}
        page.goto(f"{self.site.edition}/shop.html?{urlencode(given)}")
        self.says(page, "ready")
        return page

    def _hear(self, said: ConsoleMessage) -> None:
        if said.type in ("error", "warning"):
            self.complaints.append(said.text)

    def says(self, page: Page, what: str) -> None:
        said = "what => document.querySelector('#outcome').textContent === what"
        try:
            page.wait_for_function(said, arg=what, timeout=10_000)
        except TimeoutError:
            assert page.inner_text("#outcome") == what

    def click(self, page: Page, button: str, then: str) -> None:
        page.click(f"#{button}")
        self.says(page, then)

    def agreed(self, window: BrowserContext | None = None, **options: Any) -> Page:
        """A tab in which somebody has read what is asked, and agreed."""
        page = self.tab(window, **options)
        self.click(page, "explain", "explained")
        self.click(page, "agree", "agreed")
        return page

    def spent(self, page: Page) -> list[str]:
        """What each entry of the browser's ledger cost."""
        entries: list[dict[str, str]] = page.evaluate("device.ledger()")
        return [entry["epsilon"] for entry in entries]

    @property
    def stored(self) -> int:
        """Reports that the collector has of this campaign."""
        told = administer(self.server, "GET", f"/v1/campaigns/{self.name}/status")
        count: int = told["reports"]
        return count

    def off_the_host(self) -> list[str]:
        return [address for address in self.asked if urlsplit(address).hostname not in LOOPBACK]


def administer(server: Served, method: str, path: str, content: Any = None) -> Any:
    """What the collector answers its admin."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    headers = {"Authorization": f"Bearer {server.tokens['admin']}", "Content-Type": "application/json"}
    connection.request(method, path, None if content is None else json.dumps(content), headers)
    answer = connection.getresponse()
    told = json.loads(answer.read())
    connection.close()
    assert answer.status < 300, told
    return told


def opened(server: Served, **fields: Any) -> str:
    """The name of a new campaign that takes reports; two draws of one record are the same with odds of one in 10^12."""
    schema = {"keys": ["fries", "pepsi", *(f"snack {number}" for number in range(38))], "low": 1, "high": 5}
    document = snacks(**{"name": f"snacks-{next(_numbers)}", "schema": schema, "min_reports": 1, **fields})
    administer(server, "POST", "/v1/campaigns", document)
    administer(server, "PATCH", f"/v1/campaigns/{document['name']}", {"action": "open"})
    name: str = document["name"]
    return name


class _Started:
    """What tests of this folder share. The driver's event loop must not outlive them: other tests have their own."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self._driver: Playwright | None = None
        self._browser: Chromium | None = None

    def driver(self) -> Playwright:
        if self._driver is None:
            self._driver = self._open.enter_context(sync_playwright())
        return self._driver

    def browser(self, profile: Path) -> Chromium:
        if self._browser is None:
            self._browser = self._open.enter_context(chromium(self.driver(), profile))
        return self._browser

    def close(self) -> None:
        self._open.close()
        self._driver = self._browser = None


_started = _Started()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Asked of tests in this folder only: the last one, or the last before others, ends the browser."""
    if nextitem is None or Path(__file__).parent not in nextitem.path.parents:
        _started.close()


@pytest.fixture
def playwright() -> Playwright:
    return _started.driver()


@pytest.fixture
def browser(tmp_path: Path) -> Chromium:
    return _started.browser(tmp_path / "profile")


@pytest.fixture(scope="session")
def site() -> Iterator[Pages]:
    with pages() as serving:
        yield serving


@pytest.fixture(scope="session")
def server(site: Pages, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("collector"), KEYVEIL_ORIGINS=site.origin) as running:
        yield running


@pytest.fixture
def shop(browser: Chromium, site: Pages, server: Served) -> Iterator[Shop]:
    """A new campaign in a browser that keeps storage; afterwards it has forgotten everything of the site."""
    browser.keep_storage(site.origin)
    with gate_to(server.port) as gate:
        one = Shop(opened(server), gate, site, server, browser)
        yield one
        assert one.off_the_host() == []
        site.changes.clear()
        gate.open()
        for page in one.tabs:
            page.close()
        browser.forget(site.origin)
