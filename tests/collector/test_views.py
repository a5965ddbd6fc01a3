"""Hierarchies of keys and coordinates of values in a campaign: devices answer, the collector counts and tells."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from keyveil.cli.campaign_files import drafted
from keyveil.device import Device
from keyveil.device.upload import Patience
from tests.collector.campaigns import batch_of, started
from tests.collector.running import Collector, running

USUAL: dict[str, Any] = {"name": "snacks", "purpose": "Which snacks people buy.", "enough": 10**6, "min_reports": 10}
SHELF = ["food/apple", "food/bread", "drink/tea"]
PEOPLE: dict[str, tuple[dict[str, float], ...]] = {
    "hierarchy": ({}, {"food/apple": 8}, {"food/bread": 2, "drink/tea": 10}),
    "coordinates": ({}, {"pizza/rating": 5, "pizza/price": 5}, {"tea/price": 20}),
}


def document(name: str, **options: Any) -> dict[str, Any]:
    """The campaign as the command line drafts it."""
    given: dict[str, Any] = {
        "mechanism": name,
        "epsilon": "2",
        "levels": None,
        "options": options,
        "opens": None,
        "closes": None,
    }
    shelf: dict[str, Any] = {"keys": ",".join(SHELF), "low": "0", "high": "10", "hierarchy": True}
    menu: dict[str, Any] = {
        "keys": "pizza/rating,pizza/price,tea/price",
        "low": "rating=1,price=0",
        "high": "rating=5,price=20",
    }
    return drafted(**USUAL, **given, **(shelf if name == "hierarchy" else menu), enrolment=None, contact=None)


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[Collector]:
    with running(tmp_path) as one:
        yield one


@pytest.mark.parametrize(
    ("name", "options", "frequencies", "means"),
    [
        ("hierarchy", {}, [2 / 3, 1 / 3, 1 / 3, 1 / 3, 1 / 3], [5, 8, 2, 10, 10]),
        ("hierarchy", {"inner": "ssr", "max_pairs": 1}, None, None),
        ("coordinates", {}, [1 / 3, 1 / 3, 1 / 3], [5, 5, 20]),
    ],
    ids=["hierarchy", "hierarchy-ssr", "coordinates"],
)
def test_devices_answer_and_the_collector_tells(
    collector: Collector, name: str, options: dict[str, Any], frequencies: Any, means: Any
) -> None:
    """Within six standard errors of 1,500 people, four of them through whole devices."""
    opened = started(collector.service, **document(name, **options))
    for number in range(4):
        with Device(":memory:", collector.transport, patience=Patience(pace=0)) as one:
            page = one.explain("snacks").text
            assert ("are asked how far they exceed" in page) == ("max_pairs" in options)
            one.consent("snacks")
            assert one.report("snacks", PEOPLE[name][number % 3]).state == "sent"
    collector.service.submit("snacks", batch_of(opened, 1496, PEOPLE[name])).result(30)
    collector.service.settle()
    found = json.loads(collector.ask("GET", "/v1/campaigns/snacks/estimates", token=collector.analyst).body)
    assert (found["mechanism"], found["reports"]) == (name, 1500)
    if frequencies is None:
        assert found["undercount"]["state"] != "unknown"
        return
    for row, frequency, mean in zip(found["estimates"], frequencies, means, strict=True):
        assert abs(row["frequency"] - frequency) <= 6 * row["frequency_se"], row
        assert abs(row["mean"] - mean) <= 6 * row["mean_se"], row


def test_a_preview_says_that_a_key_has_the_mean_of_those_below_it(collector: Collector) -> None:
    started(collector.service, **document("hierarchy"))
    with Device(":memory:", collector.transport) as one:
        one.consent("snacks")
        seen = one.preview("snacks", {"food": 1, "food/bread": 9, "cake": 1}, strict=False)
    assert [(note.why, note.key) for note in seen.ignored] == [("unknown", "cake"), ("inner", "food")]
    assert [key for key, _ in seen.pairs] == [0, 2]
