"""What groups cost: predicted for all products of groups and keys, against the same keys without groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import keyveil as kv
from keyveil.core.errors import PlanError
from keyveil.planning.groups import read_shares

FEW: dict[str, Any] = {"users": 50_000, "keys": 8, "pairs": 2, "mechanisms": ["kvue", "ssr"]}


def test_a_small_group_costs_more() -> None:
    found = kv.plan(**FEW, groups="de:0.6,fr:0.4")
    assert found.schema.keys[:2] == ("de/0", "de/1")
    large, small = found.group_costs
    assert (large.name, small.name) == ("de", "fr")
    assert small.times > large.times > 1
    assert small.se_within == pytest.approx(small.se_frequency / 0.4)
    assert found.document()["groups"][1]["name"] == "fr"


def test_one_key_at_a_time_pays_for_the_keys_and_for_the_share() -> None:
    """kvue asks about one key of d: with g groups it hears 1/g as often, and a group is 1/g of the people."""
    found = kv.plan(**{**FEW, "mechanisms": ["kvue"]}, groups=4)
    assert [cost.times for cost in found.group_costs] == pytest.approx([4 * 4**0.5] * 4, rel=0.05)


def test_a_schema_and_a_sample_say_their_groups() -> None:
    schema = kv.Schema(keys=8, groups=["de", "fr"])
    assert len(kv.plan(users=9_000, pairs=2, schema=schema, mechanisms=["kvue"]).group_costs) == 2
    draw = np.random.default_rng(3)
    people = [
        kv.in_group({str(key): 0.5 for key in draw.choice(8, 2, replace=False)}, "de" if draw.random() < 0.75 else "fr")
        for _ in range(2_000)
    ]
    sample = kv.Population.from_records(people)
    found = kv.plan(sample=sample, schema=schema, mechanisms=["kvue", "ssr"])
    assert found.group_costs[0].share == pytest.approx(0.75, abs=0.05)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("de", "written like"),
        ("de,de", "written like"),
        (1, "from 2 to"),
        ("99999", "from 2 to"),
        ("²", "written like"),
        ("9" * 5000, "written like"),
        ("de:0.5,fr", "Every group has a share"),
        ("de:0.5,fr:0.9", "add up to 1"),
        ("de:0,fr:1", "above 0"),
    ],
)
def test_impossible_groups_are_refused(given: Any, told: str) -> None:
    with pytest.raises(PlanError, match=told):
        read_shares(given)


def test_groups_are_said_once() -> None:
    with pytest.raises(PlanError, match="A schema says its groups itself"):
        kv.plan(users=100, pairs=2, schema=kv.Schema(keys=4), groups=2)
    with pytest.raises(PlanError, match="A sample tells groups"):
        kv.plan(sample="synthetic:zipf:100", groups=2)
