"""What axe-core finds wrong with the page that is shown, in both themes. It replaces no look and no screen reader."""

from __future__ import annotations

from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

EVERY_RULE: dict[str, Any] = {"resultTypes": ["violations"]}  # of WCAG, and what axe-core calls good practice
OF_COLOURS = {**EVERY_RULE, "runOnly": ["color-contrast", "link-in-text-block"]}  # all else is one for both themes
_axe = Axe()


def complaints(page: Page) -> list[str]:
    """Every violation, with the first elements that violate a rule."""
    found: list[str] = []
    for theme, rules in (("dark", OF_COLOURS), ("light", EVERY_RULE)):
        page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
        for one in _axe.run(page, options=rules).response["violations"]:
            places = "; ".join(node["html"][:120] for node in one["nodes"][:3])
            found.append(f"{theme}, {one['impact']}: {one['id']}, {one['help']} at {places}")
    return found
