"""The page "Try it" of a real collector in a real browser: nothing leaves it, and what it shows is the exact law."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from keyveil.campaign.wire import pad
from keyveil.core.schema import Schema
from keyveil.mechanisms.registry import create_round
from keyveil.privacy.enumerate import law
from tests.browser.chromium import Chromium
from tests.clients.test_laws import LEAST, p_value
from tests.collector.processes import Served

SCHEMA = Schema(keys=["burger", "fries", "pepsi"], low=1, high=5)
OPTIONS: dict[str, dict[str, int]] = {"ssr": {"max_pairs": 2}, "kvue": {}, "pckv-grr": {"max_pairs": 2}}
TYPED = {"fries": 4.0, "pepsi": 5.0}


class Watched:
    """The page in a private window, with everything that it asked for and complained about."""

    def __init__(self, page: Page, address: str) -> None:
        self.page, self.requests, self.complaints = page, list[str](), list[str]()
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("console", lambda said: self.complaints.append(said.text))
        page.on("pageerror", lambda raised: self.complaints.append(str(raised)))
        page.goto(address)
        page.wait_for_selector("body[data-ready]")

    def choose(self, mechanism: str, epsilon: float) -> None:
        self.page.select_option("#mechanism", mechanism)
        self.page.fill("#epsilon", str(epsilon))
        expect(self.page.locator("#epsilon-shown")).to_have_js_property("value", str(epsilon))

    def rows(self) -> list[dict[str, str]]:
        told: list[dict[str, str]] = self.page.eval_on_selector_all(
            "#histogram tbody tr", "rows => rows.map(row => ({...row.dataset}))"
        )
        return told

    def number(self, place: str, name: str) -> float:
        return float(self.page.eval_on_selector(f"#{place}", f"one => one.dataset.{name}"))


@pytest.fixture(scope="module")
def address(server: Served) -> str:
    return f"http://127.0.0.1:{server.port}/try"


_pages: dict[Chromium, Watched] = {}


@pytest.fixture
def watched(browser: Chromium, address: str) -> Watched:
    """One page for all tests that only choose and read."""
    if browser not in _pages:
        _pages[browser] = Watched(browser.private(viewport={"width": 360, "height": 800}).new_page(), f"{address}/")
    return _pages[browser]


@pytest.fixture
def own(browser: Chromium, address: str) -> Iterator[Watched]:
    """A page for one test."""
    window = browser.private()
    yield Watched(window.new_page(), f"{address}/")
    window.close()


def test_nothing_typed_can_leave_the_page_and_it_works_offline(own: Watched, address: str) -> None:
    page = own.page
    assert all(one.startswith(f"{address}/") or one == "data:," for one in own.requests)
    loaded = len(own.requests)
    page.context.set_offline(True)
    page.fill(".pair:nth-child(3) input", "tea")
    page.fill(".pair:nth-child(3) label:last-child input", "3")
    expect(page.locator("#ignored")).to_contain_text("“tea”")
    page.fill(".pair:nth-child(1) label:last-child input", "9")
    expect(page.locator("#ignored")).to_contain_text("“fries” counts as 1 or 5")
    before = page.inner_text("#id")
    page.focus("#again")
    page.keyboard.press("Enter")
    assert page.inner_text("#id") != before
    page.click("#ask")
    assert len(own.requests) == loaded
    assert own.complaints == []
    page.context.set_offline(False)
    assert page.evaluate("fetch('/healthz').then(() => 'sent', () => 'blocked')") == "blocked"
    assert any("connect-src 'none'" in said for said in own.complaints)


def test_it_fits_a_phone(watched: Watched) -> None:
    assert watched.page.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize(("mechanism", "epsilon"), [("ssr", 1), ("kvue", 2.5), ("pckv-grr", 0.6)])
def test_the_histogram_shows_the_enumerated_law(watched: Watched, mechanism: str, epsilon: float) -> None:
    """Exact probabilities to twelve digits, for both records, at the id that is shown; draws by chi-square."""
    watched.choose(mechanism, epsilon)
    made = create_round(mechanism, SCHEMA, str(epsilon), **OPTIONS[mechanism])
    public = bytes.fromhex(watched.page.inner_text("#id"))

    def exact(record: dict[str, float]) -> dict[str, Fraction]:
        pairs = made.read(record)
        size, varies = made.codec.longest + made.codec.varies, made.codec.varies
        return law(lambda coins: pad(made.encode(made.perturb_pairs(pairs, coins, public)), size, varies).hex())

    mine, nothing, rows = exact(TYPED), exact({}), watched.rows()
    assert {row["bytes"] for row in rows} == set(mine)
    for row in rows:
        assert math.isclose(float(row["exact"]), mine[row["bytes"]], rel_tol=1e-12)
        assert math.isclose(float(row["other"]), nothing[row["bytes"]], rel_tol=1e-12)
    counts = Counter({bytes.fromhex(row["bytes"]): int(row["count"]) for row in rows})
    assert counts.total() == 2000
    assert p_value(counts, {bytes.fromhex(name): share for name, share in mine.items()}) > LEAST
    assert watched.complaints == []


def test_odds_stay_below_e_to_the_epsilon_and_a_hundred_fresh_reports_tell_everything(watched: Watched) -> None:
    for mechanism, epsilon in (("ssr", 1.5), ("kvue", 1.5), ("pckv-grr", 1.5)):
        watched.choose(mechanism, epsilon)
        for other in ("nothing at all", "the same, rated 1", "all three, rated 1"):
            watched.page.select_option("#other", other)
            odds, worst = watched.number("odds", "odds"), watched.number("odds", "worst")
            assert 1 / worst * (1 - 1e-9) <= odds <= worst * (1 + 1e-9)
            assert worst <= math.exp(epsilon) * (1 + 1e-9)
            assert abs(watched.number("asked", "standing")) <= epsilon * (1 + 1e-9)
    watched.choose("ssr", 2)
    watched.page.select_option("#other", "nothing at all")
    assert watched.number("asked", "fresh") > 10  # of about 60 nats: below 10 less often than once in 10^6
    assert watched.complaints == []


def test_options_are_those_that_the_python_device_resolves(watched: Watched) -> None:
    """At every place of the slider."""
    told: dict[str, Any] = watched.page.evaluate("import('/try/page.js').then((page) => page.OPTIONS)")
    for name, given in OPTIONS.items():
        for tenths in range(5, 51):
            assert create_round(name, SCHEMA, Fraction(tenths, 10), **given).options == told[name]
