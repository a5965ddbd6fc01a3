"""What the tests of a device share: devices, owners who agree, and a series of weekly campaigns."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest

from keyveil.core.coins import Coins
from keyveil.core.errors import KeyveilError
from keyveil.device import Caps, Device
from tests.device.collector import Collector, Sleeper, Watch, document

RECORD = {"fries": 4, "pepsi": 5}
GENEROUS = Caps(schema_period=100, schema_life=100, period=100, life=100)


class NoCoins(Coins):
    """Must not be asked."""

    def bytes(self, count: int) -> bytes:
        raise AssertionError("something was drawn")


def device(served: Collector, path: Any = ":memory:", **options: Any) -> Device:
    options = {"clock": Watch(), "sleep": Sleeper(), **options}
    return Device(path, served, **options)


def agreed(served: Collector, path: Any = ":memory:", name: str = "snack-survey", **options: Any) -> Device:
    """A device whose owner has agreed to a campaign."""
    made = device(served, path, **options)
    made.consent(name)
    return made


def week(number: int, **changes: Any) -> dict[str, Any]:
    """One campaign of a weekly series: nothing but its dates differs."""
    day = date(2026, 11, 20) + timedelta(days=7 * number)
    rounds = [{"opens": day.isoformat(), "closes": (day + timedelta(days=6)).isoformat()}]
    return document(rounds=rounds, **changes)


def code_of(call: Any) -> str:
    with pytest.raises(KeyveilError) as refused:
        call()
    return refused.value.code
