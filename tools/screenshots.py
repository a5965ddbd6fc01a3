"""Pictures of the pages for docs/pictures: a collector with made-up people, at three widths and in two themes.

python -m tools.screenshots docs/pictures
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

from keyveil.campaign.documents import Campaign
from keyveil.campaign.rounds import RoundDocument
from keyveil.cli.connection import Collector, address
from keyveil.cli.demo import SNACKS
from keyveil.cli.local_collector import running_collector
from keyveil.device import HttpTransport
from keyveil.lab.datasets import independent
from tests.browser.chromium import chromium
from tests.collector.campaigns import batch_of

WIDTHS = (360, 800, 1280)
THEMES = ("light", "dark")
PEOPLE = 6000
NAME = "snack-survey"
FIRST = {"campaign": f"/campaigns/{NAME}"}  # at every width and in both themes
OTHERS = {  # once each
    "campaigns": "/",
    "ask": f"/campaigns/{NAME}/ask?kind=conditional&has=coffee&key=crisps",
    "heat-map": f"/campaigns/{NAME}/ask?kind=heat&count=6",
    "privacy": f"/campaigns/{NAME}/privacy",
    "collection": f"/campaigns/{NAME}/collection",
    "new": "/new",
}


def campaign() -> dict[str, Any]:
    return {
        "keyveil": 1,
        "name": NAME,
        "purpose": "Which snacks people buy and how they rate them. Nobody sees your answers.",
        "schema": {"keys": list(SNACKS), "low": 1, "high": 5},
        "protocol": {"name": "moments", "epsilon": "4"},
        "rounds": [{"enough": 1_000_000}],
        "min_reports": 1000,
        "contact": "privacy@example.org",
    }


def fill(collector: Collector) -> None:
    """A campaign with the reports of made-up people, and a draft."""
    collector.ask("POST", "/v1/campaigns", campaign())
    view = collector.ask("PATCH", address(NAME), {"action": "open"})
    document = RoundDocument.from_document(view["round"]["document"], Campaign.from_document(view["campaign"]))
    frequencies, ratings = zip(*SNACKS.values(), strict=True)
    names = list(SNACKS)
    people = independent(PEOPLE, frequencies, [(rating - 3) / 2 for rating in ratings], 7, names=names)
    records = [
        {
            names[key]: float(value) * 2 + 3
            for key, value in zip(people.keys[start:stop], people.values[start:stop], strict=True)
        }
        for start, stop in zip(people.offsets[:-1], people.offsets[1:], strict=True)
    ]
    for start in range(0, PEOPLE, 1000):
        batch = batch_of(document, 1000, records[start : start + 1000])
        collector.ask("POST", address(NAME, "reports"), json.loads(batch.to_json()))
    collector.ask("PATCH", address(NAME), {"action": "close"})
    collector.ask("POST", "/v1/campaigns", {**campaign(), "name": "drinks", "purpose": "Which drinks people buy."})


def take(page: Page, server: str, path: str, file: Path, width: int, theme: str) -> None:
    page.set_viewport_size({"width": width, "height": 900 if width > 500 else 760})
    page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
    page.goto(server + path)
    page.screenshot(path=file, full_page=False)
    print(f"Written: {file.name}, {file.stat().st_size // 1024} kB")


def main(folder: Path) -> None:
    """All pictures, anew."""
    with tempfile.TemporaryDirectory() as place, sync_playwright() as driver:
        home = Path(place)
        with (
            running_collector(home / "keyveil.db", home / "log") as (server, token),
            chromium(driver, home / "profile") as browser,
        ):
            transport = HttpTransport(server)
            fill(Collector(transport, token))
            transport.close()
            page = browser.private().new_page()
            page.goto(server)
            page.get_by_label("Token").fill(token)
            page.keyboard.press("Enter")
            page.get_by_role("button", name="Sign out").wait_for()
            while True:
                page.goto(f"{server}/campaigns/{NAME}")
                if page.get_by_role("searchbox").count():
                    break
                page.wait_for_timeout(200)
            for name, path in FIRST.items():
                for width in WIDTHS:
                    for theme in THEMES:
                        take(page, server, path, folder / f"dashboard-{name}-{width}-{theme}.png", width, theme)
            for name, path in OTHERS.items():
                take(page, server, path, folder / f"dashboard-{name}.png", 1000, "light")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
