"""A small campaign and people who answer it, shared by the collector's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from keyveil.campaign.documents import Campaign
from keyveil.campaign.rounds import RoundDocument
from keyveil.campaign.wire import Batch, pad, unpad
from keyveil.collector.service import Service
from keyveil.core.coins import Coins
from keyveil.core.errors import KeyveilError
from keyveil.core.tally import Tally
from keyveil.mechanisms.parting import EVERYONE, parting_word

SNACKS: dict[str, Any] = {
    "keyveil": 1,
    "name": "snacks",
    "purpose": "Which snacks people buy and how they rate them.",
    "schema": {"keys": ["burger", "fries", "pepsi"], "low": 1, "high": 5},
    "protocol": {"name": "ssr", "epsilon": "1", "max_pairs": 2},
    "rounds": [{"enough": 1000000}],
    "min_reports": 10,
    "retention_days": 30,
}

RECORDS: tuple[Mapping[str, float], ...] = ({}, {"fries": 4}, {"pepsi": 2, "burger": 5})


def snacks(**fields: Any) -> dict[str, Any]:
    return {**SNACKS, **fields}


def started(service: Service, **fields: Any) -> RoundDocument:
    """A campaign that takes reports, and the round that is open."""
    document = snacks(**fields)
    service.create(document)
    service.act(document["name"], "open")
    return asked(service, document["name"])


def asked(service: Service, name: str = "snacks") -> RoundDocument:
    """The round that is open, as a device reads it."""
    view = service.view(name)
    campaign = Campaign.from_document(view["campaign"], service.dictionary)
    return RoundDocument.from_document(view["round"]["document"], campaign)


def batch_of(document: RoundDocument, people: int, records: Iterable[Mapping[str, float]] = RECORDS) -> Batch:
    """The reports of some people who belong to a round."""
    coins, holdings = Coins(), tuple(records)
    mechanism, ids, payloads = document.mechanism, [], []
    for number in range(people):
        public = coins.bytes(16)
        while document.part != EVERYONE and not document.part.holds(
            parting_word(public, bytes.fromhex(document.campaign))
        ):
            public = coins.bytes(16)
        report = mechanism.perturb(holdings[number % len(holdings)], coins, public)
        ids.append(public)
        payloads.append(pad(mechanism.encode(report), document.report_bytes, mechanism.codec.varies))
    return Batch(document.number, document.hash, tuple(ids), tuple(payloads))


def merged(*batches: Batch) -> Batch:
    first = batches[0]
    return Batch(
        first.round,
        first.document,
        tuple(number for one in batches for number in one.ids),
        tuple(payload for one in batches for payload in one.payloads),
    )


def refusal(call: Callable[[], Any]) -> str:
    """The code of the error with which a call ends."""
    with pytest.raises(KeyveilError) as refused:
        call()
    return refused.value.code


def count(document: RoundDocument, reports: Iterable[tuple[bytes, bytes]]) -> Tally:
    """The tally of reports (id and padded payload), none of which may have a flaw; past the collector."""
    mechanism, listed = document.mechanism, list(reports)
    payloads = [unpad(padded, document.report_bytes, mechanism.codec.varies) for _, padded in listed]
    return mechanism.tally_encoded([number for number, _ in listed], payloads)
