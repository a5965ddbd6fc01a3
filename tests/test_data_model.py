"""``docs/data-model.md`` names every table and column that the code declares, and no other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from keyveil.collector import tables
from keyveil.core.clock import system_clock
from keyveil.core.coins import Coins
from keyveil.device.memory import IN_MEMORY
from keyveil.device.vault import Vault

PAGE = Path(__file__).parents[1] / "docs" / "data-model.md"

Columns = dict[str, list[str]]


def described(part: str) -> Columns:
    """The tables of one part of the page with their columns, in the order in which they are described."""
    sections = re.split(r"^### ", part, flags=re.MULTILINE)[1:]
    named = ((re.match(r"`(\w+)`", section), section) for section in sections)
    return {name[1]: re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) for name, section in named if name}


def device_tables() -> Columns:
    vault = Vault(IN_MEMORY, system_clock, Coins())
    names = vault.connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    found = {
        name: [row[1] for row in vault.connection.execute(f"PRAGMA table_info({name})")] for (name,) in names.fetchall()
    }
    vault.close()
    return found


def test_the_page_describes_the_tables_of_collector_and_device() -> None:
    collector, device = re.split(r"^## The device$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)

    assert described(collector) == {
        one.name: [column.name for column in one.columns] for one in tables.metadata.sorted_tables
    }
    assert described(device) == device_tables()


def test_the_page_names_every_state() -> None:
    from keyveil.collector.models import CampaignView, RoundView
    from keyveil.device import consent, outbox

    text = PAGE.read_text(encoding="utf-8")
    states = {
        *get_args(CampaignView.model_fields["state"].annotation),
        *get_args(RoundView.model_fields["state"].annotation),
        *(outbox.WAITING, outbox.SENT, outbox.REFUSED, outbox.WITHDRAWN, consent.GIVEN, consent.WITHDRAWN),
    }
    assert {state for state in states if f"`{state}`" not in text} == set()
