"""Pages that commands write: what they say of the command is fit for whoever is sent the page."""

from __future__ import annotations

from pathlib import Path

import keyveil as kv
from keyveil.cli.pages import write_page
from keyveil.cli.words import remember
from keyveil.display.report import About


def test_a_page_does_not_hold_the_password_of_the_database(tmp_path: Path) -> None:
    mechanism = kv.mechanism("kvue", kv.Schema(keys=["fries", "pepsi"]), epsilon=1)
    estimates = mechanism.estimate(mechanism.tally([mechanism.perturb({"fries": 1}, kv.Coins()) for _ in range(50)]))
    addresses = (
        "postgresql://me:hidden@host/snacks",
        "postgresql://me:hid/hidden@host/snacks",
        "postgresql://host/snacks?user=me&password=hidden",
        "--server=https://me:hidden@host/",
    )
    for address in addresses:
        remember(["campaign", "estimates", "snacks", "--database", address, "--confidence", "0.9"])
        write_page(estimates, tmp_path / "page.html", About("Snacks"))
        text = (tmp_path / "page.html").read_text("utf-8")
        assert "hidden" not in text and "host/" in text and "--confidence 0.9" in text
