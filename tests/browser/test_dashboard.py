"""The pages in a real browser: from the plan to the file, with a real collector and a real device."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from keyveil.campaign.documents import Campaign
from keyveil.campaign.rounds import RoundDocument
from keyveil.device import Device, HttpTransport
from keyveil.device.memory import IN_MEMORY
from tests.browser.accessibility import complaints
from tests.browser.chromium import Chromium
from tests.browser.conftest import Shop, administer
from tests.browser.gate import Pages, gate_to
from tests.collector.campaigns import SNACKS, batch_of
from tests.collector.processes import Served

NAME = "snack-survey"
KEYS = ["fries", "pepsi", "burger"]
PEOPLE: tuple[dict[str, float], ...] = ({"fries": 5.0, "pepsi": 4.0}, {"fries": 4.0}, {"burger": 2.0}, {})
EVERY_PAGE = (
    "/",
    "/tokens",
    *(
        f"/campaigns/{NAME}{end}"
        for end in (
            "",
            "/ask?kind=conditional&has=fries&key=pepsi",
            "/ask?kind=top&count=3",
            "/ask?kind=heat&count=3",
            "/ask?kind=quantiles&key=fries",
            "/processed",
            "/compare",
            "/privacy",
            "/collection",
            "/files",
        )
    ),
)


class Watched:
    """A private window on the pages, with everything that it asked for and complained about."""

    def __init__(self, page: Page, server: Served) -> None:
        self.page, self.address = page, f"http://127.0.0.1:{server.port}"
        self.requests, self.complaints = list[str](), list[str]()
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("console", lambda said: self.complaints.append(said.text))
        page.on("pageerror", lambda raised: self.complaints.append(str(raised)))
        page.on("dialog", lambda asked: asked.accept())

    def sign_in(self, token: str) -> None:
        self.page.goto(self.address)
        self.page.get_by_label("Token").fill(token)
        self.page.keyboard.press("Enter")
        expect(self.page.get_by_role("button", name="Sign out")).to_be_visible()

    @property
    def off_the_host(self) -> list[str]:
        return [one for one in self.requests if urlsplit(one).hostname != "127.0.0.1" and not one.startswith("data:")]


@pytest.fixture
def watched(browser: Chromium, server: Served) -> Iterator[Watched]:
    window = browser.private(viewport={"width": 1100, "height": 900}, accept_downloads=True)
    one = Watched(window.new_page(), server)
    yield one
    window.close()
    assert one.complaints == []
    assert one.off_the_host == []


def devices_report(server: Served, name: str) -> None:
    """One real device over HTTP, and three thousand more reports in a batch."""
    view = administer(server, "GET", f"/v1/campaigns/{name}")
    document = RoundDocument.from_document(view["round"]["document"], Campaign.from_document(view["campaign"]))
    batch = json.loads(batch_of(document, 3000, PEOPLE).to_json())
    administer(server, "POST", f"/v1/campaigns/{name}/reports", batch)
    device = Device(IN_MEMORY, HttpTransport(f"http://127.0.0.1:{server.port}"))
    device.consent(name)
    outcome = device.report(name, PEOPLE[0])
    device.close()
    assert outcome.state == "sent", outcome


def browser_reports(browser: Chromium, site: Pages, server: Served, name: str) -> None:
    """A page of another origin asks whoever looks at it, and its device answers; in a window that forgets."""
    with gate_to(server.port) as gate:
        shop = Shop(name, gate, site, server, browser)
        before, window = shop.stored, browser.private()
        page = shop.agreed(window)
        assert "Which snacks people buy." in page.inner_text("#shown")
        page.fill("input[name=fries]", "4")
        shop.click(page, "send", "sent")
        assert [round(float(one), 6) for one in shop.spent(page)] == [2] and shop.stored == before + 1
        window.close()
        assert shop.complaints == [] and shop.off_the_host() == []


def planned(page: Page) -> None:
    """Through the wizard to a draft, for devices in browsers, too."""
    page.get_by_role("link", name="New campaign").click()
    page.get_by_label("What change must you be able to see").fill("20")
    page.get_by_label("How many people").fill("20000")
    page.get_by_label("Which keys").fill("\n".join(KEYS))
    page.get_by_label("on average").fill("1")
    page.get_by_label("What do you want to know").select_option("conditional")
    page.get_by_label("Where do people answer").select_option("true")
    assert complaints(page) == []
    page.get_by_role("button", name="See what it costs").click()
    page.get_by_label("2", exact=True).check()
    page.get_by_label("Name").fill(NAME)
    page.get_by_label("Purpose").fill("Which snacks people buy.")
    page.get_by_label("Nothing is shown below").fill("100")
    assert complaints(page) == []
    page.get_by_role("button", name="Check it").click()
    expect(page.get_by_text(f"{NAME} is in order")).to_be_visible()
    assert complaints(page) == []
    page.get_by_role("button", name="Create the draft").click()


def test_from_the_plan_to_the_file(
    browser: Chromium, site: Pages, watched: Watched, server: Served, tmp_path: Path
) -> None:
    page = watched.page
    watched.sign_in(server.tokens["admin"])
    planned(page)
    page.get_by_role("button", name="Open").click()
    expect(page.get_by_text("The campaign is open")).to_be_visible()
    browser_reports(browser, site, server, NAME)
    devices_report(server, NAME)
    page.get_by_role("button", name="Close this round").click()
    expect(page.get_by_text("What waits is being counted")).to_be_visible()

    page.get_by_role("link", name="Results").click()
    until = time.monotonic() + 20
    while page.get_by_text("3,002 reports").count() == 0 and time.monotonic() < until:
        time.sleep(0.2)
        page.reload()
    expect(page.locator("figcaption").first).to_contain_text("3,002 reports")
    page.get_by_role("link", name="key", exact=True).click()  # sorted in place, by the script
    expect(page.locator("th[aria-sort=ascending]")).to_have_text("key ▴")
    page.get_by_role("searchbox").fill("fri")
    expect(page.locator("tbody th[scope=row]", has_text="pepsi")).to_have_count(0)
    assert "find=fri" in page.url

    page.get_by_role("link", name="Ask", exact=True).click()
    page.get_by_label("Of those who hold").fill("fries")
    page.get_by_label("how many hold", exact=True).fill("pepsi")
    page.get_by_role("button", name="Ask").nth(1).click()
    expect(page.locator(".finding")).to_contain_text("Of those who hold fries")
    page.get_by_role("link", name="Download").click()
    with page.expect_download() as started:
        page.get_by_role("link", name=f"{NAME}.csv").click()
    started.value.save_as(tmp_path / "found.csv")
    assert (tmp_path / "found.csv").read_text().count("\n") == 1 + len(KEYS)

    wrong: dict[str, list[str]] = {}
    for path in EVERY_PAGE:
        page.goto(watched.address + path)
        wrong |= {path: found} if (found := complaints(page)) else {}
    assert wrong == {}
    page.goto(f"{watched.address}/tokens")
    page.get_by_label("Name").fill("anna")
    page.get_by_role("button", name="Make it").click()
    expect(page.get_by_text("Copy it now")).to_be_visible()
    assert complaints(page) == []
    with sqlite3.connect(server.folder / "keyveil.db", timeout=20) as database:
        database.execute("UPDATE session SET seen = 0")
    page.get_by_role("link", name="Campaigns").click()
    expect(page.get_by_text("You are signed out")).to_be_visible()
    assert complaints(page) == []


WIDE, PHONE = "document.documentElement.scrollWidth", 360


@pytest.mark.parametrize("width", [PHONE, 800])
def test_pages_fit_a_phone(browser: Chromium, server: Served, width: int) -> None:
    window = browser.private(viewport={"width": width, "height": 800})
    watched = Watched(window.new_page(), server)
    watched.sign_in(server.tokens["admin"])
    if not any(one["name"] == SNACKS["name"] for one in administer(server, "GET", "/v1/campaigns")["campaigns"]):
        administer(server, "POST", "/v1/campaigns", SNACKS)
    here = "/campaigns/snacks"
    for path in ("", "/new", "/tokens", here, f"{here}/privacy", f"{here}/collection"):
        watched.page.goto(watched.address + path)
        assert watched.page.evaluate(WIDE) <= width, path
    if width == PHONE:  # the second step of the wizard has the widest table
        watched.page.goto(f"{watched.address}/new")
        watched.page.get_by_label("Which keys").fill("\n".join(KEYS))
        watched.page.get_by_label("on average").fill("1")
        watched.page.get_by_role("button", name="See what it costs").click()
        expect(watched.page.get_by_role("button", name="Check it")).to_be_visible()
        watched.page.wait_for_load_state()  # a button may be seen before the style sheet is there
        assert watched.page.evaluate(WIDE) <= width
    window.close()
    assert watched.complaints == []
