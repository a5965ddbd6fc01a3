"""Campaign and round documents: one spelling, one hash, every fault named."""

from __future__ import annotations

import copy
import hashlib
import json
from typing import Any

import pytest

from keyveil.campaign.documents import Campaign, dictionary_of, problems
from keyveil.campaign.rounds import RoundDocument
from keyveil.core.canonical import canonical
from keyveil.core.errors import CampaignError, KeyveilError
from keyveil.lab import datasets
from keyveil.lab.simulate import simulate
from keyveil.mechanisms.registry import protocol_names

SNACKS: dict[str, Any] = {
    "keyveil": 1,
    "name": "snack-survey",
    "purpose": "Which snacks people buy and how they rate them. Nobody sees your answers.",
    "schema": {"keys": ["burger", "fries", "pepsi"], "low": 1, "high": 5},
    "protocol": {"name": "ssr", "epsilon": "1", "max_pairs": 3},
    "rounds": [{"opens": "2026-11-20", "closes": "2026-12-01", "enough": 200000}],
    "min_reports": 1000,
    "enrolment": "none",
    "retention_days": 30,
    "contact": "privacy@example.org",
}


def changed(**fields: Any) -> dict[str, Any]:
    return {**copy.deepcopy(SNACKS), **fields}


def test_a_document_comes_back_as_it_was_and_its_hash_is_that_of_its_bytes() -> None:
    campaign = Campaign.from_document(SNACKS)

    assert campaign.document() == SNACKS
    assert campaign.hash == hashlib.sha256(canonical(SNACKS)).hexdigest()


@pytest.mark.parametrize(
    "change",
    [
        {"name": "snack-survey-2"},
        {"purpose": "Something else."},
        {"schema": {"keys": ["burger", "fries", "pepsi"], "low": 1, "high": 6}},
        {"protocol": {"name": "ssr", "epsilon": "1.1", "max_pairs": 3}},
        {"protocol": {"name": "ssr", "epsilon": "1", "max_pairs": 2}},
        {"rounds": [{"opens": "2026-11-20", "closes": "2026-12-02", "enough": 200000}]},
        {"min_reports": 999},
        {"enrolment": "token"},
        {"retention_days": 31},
        {"contact": ""},
    ],
)
def test_any_change_changes_the_hash(change: dict[str, Any]) -> None:
    assert Campaign.from_document(changed(**change)).hash != Campaign.from_document(SNACKS).hash


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"keyveil": 2}, "campaign/version"),
        ({"name": "Snack Survey"}, "campaign/name"),
        ({"name": "a\n"}, "campaign/name"),
        ({"purpose": " "}, "campaign/purpose"),
        ({"schema": {"keys": []}}, "schema/empty"),
        ({"schema": 7}, "schema/document"),
        ({"protocol": {"name": "auto", "epsilon": "1"}}, "campaign/protocol"),
        ({"protocol": {"name": "ssr", "epsilon": 1, "max_pairs": 3}}, "campaign/protocol"),
        ({"protocol": {"name": "ssr", "epsilon": "-1", "max_pairs": 3}}, "epsilon/invalid"),
        ({"protocol": {"name": "ssx", "epsilon": "1"}}, "mechanism/unknown"),
        ({"protocol": {"name": "ssr", "epsilon": "1", "max_pears": 3}}, "mechanism/option"),
        ({"rounds": []}, "campaign/rounds"),
        ({"rounds": [{"opens": "20.11.2026"}]}, "campaign/dates"),
        ({"rounds": [{"opens": "2026-11-20", "closes": "2026-11-19"}]}, "campaign/dates"),
        ({"rounds": [{"closes": "2026-11-20"}, {"opens": "2026-11-19"}]}, "campaign/dates"),
        ({"rounds": [{"enough": 0}]}, "campaign/enough"),
        ({"min_reports": 0}, "campaign/min-reports"),
        ({"min_reports": True}, "campaign/min-reports"),
        ({"enrolment": "sms"}, "campaign/enrolment"),
        ({"retention_days": -1}, "campaign/retention-days"),
        ({"colour": "blue"}, "campaign/document"),
        ({"min_reports": 1000.0}, "document/float"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], code: str) -> None:
    with pytest.raises(KeyveilError) as refused:
        Campaign.from_document(changed(**change))

    assert refused.value.code == code
    assert code in [found.code for found in problems(changed(**change))]


def test_all_problems_are_found_at_once() -> None:
    broken = changed(name="NO", min_reports=0, enrolment="sms", protocol={"name": "ssx", "epsilon": "1"})

    assert {found.code for found in problems(broken)} == {
        "campaign/name",
        "campaign/min-reports",
        "campaign/enrolment",
        "mechanism/unknown",
    }
    assert problems(SNACKS) == []


def test_what_is_missing_strange_or_a_float_does_not_hide_the_rest() -> None:
    broken = changed(colour="blue", name="NO", protocol={"name": "ssr", "epsilon": 1.5})
    del broken["purpose"]

    sentences = [found.sentence for found in problems(broken)]
    assert [found.code for found in problems(broken)].count("campaign/document") == 2
    for part in ("lacks purpose", "has no 'colour'", "no floats", "snack-survey, not 'NO'", "exact decimal"):
        assert any(part in sentence for sentence in sentences), part


def test_a_long_list_of_keys_lies_beside_the_document() -> None:
    keys = [f"app-{number}" for number in range(500)]
    data = dictionary_of(keys)
    name = hashlib.sha256(data).hexdigest()
    document = changed(schema={"keys": {"sha256": name, "count": 500}, "low": 0, "high": 1})

    campaign = Campaign.from_document(document, {name: data}.__getitem__)

    assert campaign.schema.keys == tuple(keys)
    assert campaign.document() == document
    with pytest.raises(CampaignError, match="not the one"):
        Campaign.from_document(document, lambda asked: data.replace(b"app-7", b"app-8"))
    with pytest.raises(CampaignError, match="needed"):
        Campaign.from_document(document)


OPTIONS: dict[str, dict[str, Any]] = {"adaptive": {"max_pairs": 3}}


@pytest.mark.parametrize("name", protocol_names())
def test_every_round_of_every_protocol_has_a_document_that_reads_back(name: str) -> None:
    people = datasets.independent(2000, [0.7, 0.5, 0.4, 0.3, 0.2, 0.1], [0.5, -0.5, 0.2, -0.2, 0.0, 0.8], seed=1)
    options = OPTIONS.get(name, {})
    document = changed(
        schema=people.schema().document(), protocol={"name": name, "epsilon": "2", **options}, rounds=[{"enough": 2000}]
    )
    campaign = Campaign.from_document(document)

    for one in simulate(campaign.protocol, people, seed=1).history:
        written = RoundDocument.of(campaign, one.round)
        read = RoundDocument.from_document(json.loads(canonical(written.document())), campaign)
        assert read == written
        assert read.mechanism == one.round.mechanism
        assert read.mechanism.fingerprint == one.round.mechanism.fingerprint
        assert read.cost <= one.round.epsilon
