"""The term ``browser``: left out by default, true or nothing, part of the terms; such campaigns name all options."""

from __future__ import annotations

from typing import Any

import pytest

from keyveil.campaign.documents import Campaign, problems
from keyveil.campaign.rounds import RoundDocument
from keyveil.core.errors import CampaignError, KeyveilError
from keyveil.device import Device
from tests.device.collector import Collector, Watch, document


def test_it_changes_the_terms_and_is_left_out_by_default() -> None:
    plain, fleeting = Campaign.from_document(document()), Campaign.from_document(document(browser=True))
    assert "browser" not in plain.document()
    assert fleeting.document()["browser"] is True
    assert plain.terms != fleeting.terms


@pytest.mark.parametrize("said", [False, None, 1, "yes"])
def test_it_is_true_or_nothing(said: object) -> None:
    with pytest.raises(CampaignError, match="browser is true"):
        Campaign.from_document(document(browser=said))
    assert [one.code for one in problems(document(browser=said))] == ["campaign/browser"]


PROTOCOLS: list[dict[str, Any]] = [
    {"name": "ssr", "max_pairs": 2},
    {"name": "ssr", "max_pairs": "2", "goal": "mean", "overflow": "0.10"},
    {"name": "kvue"},
    {"name": "topsel", "sizes": "1:0.5,2:0.5"},
    {"name": "wheel", "max_pairs": 2},
    {"name": "pckv-ue", "max_pairs": 2},
    {"name": "block"},
    {"name": "apart", "max_pairs": 2},
    {"name": "split", "groups": "ssr:0.25,kvue:0.75", "options": "ssr.bins=4", "max_pairs": 2},
]


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda one: one["name"])
def test_such_a_campaign_names_every_option_as_its_round_does(protocol: dict[str, Any]) -> None:
    campaign = Campaign.from_document(document(browser=True, protocol={**protocol, "epsilon": "1"}))
    first = campaign.protocol.next_round([])
    assert first is not None
    named = {name: value for name, value in campaign.document()["protocol"].items() if name not in ("name", "epsilon")}
    assert named == RoundDocument.of(campaign, first).document()["options"]
    assert Campaign.from_document(campaign.document()).hash == campaign.hash


def test_a_campaign_of_several_rounds_or_for_others_stays_as_it_was_written() -> None:
    for written in (document(browser=True, protocol={"name": "pilot", "epsilon": "1"}), document()):
        assert Campaign.from_document(written).document()["protocol"] == written["protocol"]


def test_a_device_refuses_one_that_leaves_an_option_out() -> None:
    collector = Collector()
    campaign = collector.open(document(browser=True, protocol={"name": "ssr", "epsilon": "1", "max_pairs": 2}))
    del collector.views[campaign.name]["campaign"]["protocol"]["size"]
    with pytest.raises(KeyveilError) as refused:
        Device(":memory:", collector, clock=Watch()).explain(campaign.name)
    assert refused.value.code in ("campaign/document", "campaign/changed")
