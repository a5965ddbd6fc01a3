"""Pictures of the pages for docs/pictures: a collector with made-up people, at three widths and in two themes.

python -m tools.screenshots docs/pictures
"""

from __future__ import annotations

import io
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
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

WIDTHS = (390, 820, 1280)
THEMES = ("light", "dark")
HIGHEST = 1600  # pixels of a page that are kept
COLOURS = 48  # of a kept picture, whose pages have few
PEOPLE = 20_000
TOGETHER = 9  # of ten people with fries also have a burger; all other keys are held independently
NAME = "snack-survey"
HERE = f"/campaigns/{NAME}"
PAGES = {
    "campaign": HERE,
    "campaigns": "/",
    "ask": f"{HERE}/ask?kind=conditional&has=coffee&key=crisps",
    "ask-top": f"{HERE}/ask?kind=top&count=6",
    "heat-map": f"{HERE}/ask?kind=heat&count=6",
    "processed": f"{HERE}/processed?method=bayes",
    "compare": f"{HERE}/compare",
    "privacy": f"{HERE}/privacy",
    "collection": f"{HERE}/collection",
    "files": f"{HERE}/files",
    "tokens": "/tokens",
    "draft": "/campaigns/drinks",
    "nowhere": "/campaigns/nothing-here",
    "new": "/new",
}
WIZARD = ("new-2", "new-3")  # its later steps, which are answers to forms


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
    """Two campaigns of a series with the reports of made-up people, and a draft."""
    answered(collector, {**campaign(), "purpose": "Which snacks people bought in spring."}, 6)
    answered(collector, campaign(), 7)
    collector.ask("POST", "/v1/campaigns", {**campaign(), "name": "drinks", "purpose": "Which drinks people buy."})


def answered(collector: Collector, asked: dict[str, Any], seed: int) -> None:
    """A campaign that is over."""
    collector.ask("POST", "/v1/campaigns", asked)
    view = collector.ask("PATCH", address(NAME), {"action": "open"})
    document = RoundDocument.from_document(view["round"]["document"], Campaign.from_document(view["campaign"]))
    frequencies, ratings = zip(*SNACKS.values(), strict=True)
    names = list(SNACKS)
    people = independent(PEOPLE, frequencies, [(rating - 3) / 2 for rating in ratings], seed, names=names)
    records = [
        {
            names[key]: float(value) * 2 + 3
            for key, value in zip(people.keys[start:stop], people.values[start:stop], strict=True)
        }
        for start, stop in zip(people.offsets[:-1], people.offsets[1:], strict=True)
    ]
    for number, record in enumerate(records):
        if "fries" in record and number % 10 < TOGETHER:
            record.setdefault("burger", 4.0)
    for start in range(0, PEOPLE, 1000):
        batch = batch_of(document, 1000, records[start : start + 1000])
        collector.ask("POST", address(NAME, "reports"), json.loads(batch.to_json()))
    collector.ask("PATCH", address(NAME), {"action": "stop"})


def take(page: Page, file: Path, width: int, theme: str) -> None:
    """The page that is shown, from its top, in as few colours as it needs."""
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
    high = min(page.evaluate("document.documentElement.scrollHeight"), HIGHEST)
    page.set_viewport_size({"width": width, "height": high})
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    in_few_colours(picture).save(file, optimize=True)


def in_few_colours(picture: Image.Image) -> Image.Image:
    """The picture with its most common colours exactly as they are, and others as the nearest of these."""
    parts = np.asarray(picture).astype(np.uint32)
    colours, places, counts = np.unique(
        parts[..., 0] << 16 | parts[..., 1] << 8 | parts[..., 2], return_inverse=True, return_counts=True
    )
    every = np.stack([colours >> 16, colours >> 8 & 255, colours & 255], axis=1).astype(np.int64)
    common = every[np.argsort(-counts, kind="stable")[:COLOURS]]
    nearest = ((every[:, None] - common[None]) ** 2).sum(axis=2).argmin(axis=1).astype(np.uint8)
    few = Image.fromarray(nearest[places].reshape(parts.shape[:2]), "P")
    few.putpalette(common.astype(np.uint8).tobytes())
    return few


def take_all(page: Page, folder: Path, name: str) -> None:
    """The page that is shown at every width and in both themes."""
    for width in WIDTHS:
        for theme in THEMES:
            take(page, folder / f"dashboard-{name}-{width}-{theme}.png", width, theme)
    print(f"Written: dashboard-{name}")


def through_the_wizard(page: Page, folder: Path, server: str) -> None:
    """The second and the third step of a new campaign; nothing is created."""
    page.goto(f"{server}/new")
    page.get_by_label("Which keys").fill("\n".join(SNACKS))
    page.get_by_label("Groups of people").fill("north, south")
    page.get_by_label("Where do people answer").select_option("true")
    page.get_by_role("button", name="See what it costs").click()
    page.get_by_label("Name").fill("snacks-by-region")
    page.get_by_label("Purpose").fill("Which snacks people buy, in the north and in the south.")
    take_all(page, folder, WIZARD[0])
    page.get_by_role("button", name="Check it").click()
    page.get_by_role("button", name="Create the draft").wait_for()
    take_all(page, folder, WIZARD[1])


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
            take_all(page, folder, "sign-in")
            page.get_by_label("Token").fill(token)
            page.keyboard.press("Enter")
            page.get_by_role("button", name="Sign out").wait_for()
            until_counted(page, f"{server}{HERE}")
            for name, path in PAGES.items():
                page.goto(server + path)
                take_all(page, folder, name)
            through_the_wizard(page, folder, server)


def until_counted(page: Page, address: str) -> None:
    while True:
        page.goto(address)
        if page.get_by_text(f"{PEOPLE:,} reports").count():
            return
        page.wait_for_timeout(200)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
