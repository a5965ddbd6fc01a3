"""Whatever numbers a round's document holds: it is refused, or everybody is answered and keeps epsilon.

A question that some records can answer and others cannot would tell them apart by silence alone, and arithmetic that
wraps at large numbers would do so by its answers. So every option of every mechanism is pushed to its ends and beyond,
on the way that a device reads it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import fields
from functools import cache
from itertools import islice
from typing import Any

import numpy as np
import pytest

from keyveil.campaign.documents import Campaign
from keyveil.campaign.rounds import RoundDocument
from keyveil.core import canonical
from keyveil.core.coins import Coins
from keyveil.core.errors import KeyveilError
from keyveil.core.schema import Schema
from keyveil.mechanisms import options as mechanism_options
from keyveil.mechanisms import registry as mechanisms
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.families.key_value import KeyValue
from keyveil.mechanisms.keyvalue import wsr
from keyveil.mechanisms.registry import ROUNDS, create_round
from keyveil.mechanisms.rounds import adaptive
from keyveil.privacy.certify import certify
from keyveil.protocols.base import EVERYONE, Round
from tests.campaign.test_documents import changed

KEYS = 4
SCHEMA = Schema(keys=KEYS)
CAMPAIGN = Campaign.from_document(changed(schema={"keys": KEYS}, protocol={"name": "kvue", "epsilon": "2"}))
TWO = {"max_pairs": 2}
WEIGHTED = {"max_pairs": 2, "weights": [1, 2, 3, 4]}
OPTIONS: dict[str, dict[str, Any]] = {  # an honest round, with all that could be announced
    **dict.fromkeys(("ssr", "wheel", "collision", "pckv-ue", "pckv-grr", "kv-sw", "adaptive-key", "apart"), TWO),
    **dict.fromkeys(("wsr", "adaptive-value"), WEIGHTED),
    "overflow": {"max_pairs": 1, "reach": KEYS},
    "topsel": {"set_sizes": "1:0.5,2:0.5", "padding": 2},
    "moments": {"law": "4,1,4,1"},
    "privkv-round": {"key_epsilon": "0.5", "fake": [0] * KEYS},
    "filled-vector": {"fake": [0] * KEYS},
    "label-round": {"bins": 2, "keys": [0, 2]},
    "project": {"centres": [0] * 2 * KEYS, "scales": [9] * 2 * KEYS, "radius": 9, "rows": 8},
    "set-size": {"most": 3},
    "size-classes": {"most": 3},
    "rappor-meanest": {"bits": 4, "hashes": 1},
    "split": {"groups": "kvue:1,ssr:1", **TWO},
}
POWERS = (16, 31, 53, 62, 63, 64)
NUMBERS = [
    *(0, 1, 2, 3, KEYS, KEYS + 1, 2 * KEYS - 1, 2 * KEYS, 10**30, -1),
    *(sign * ((1 << power) + step) for power in POWERS for sign in (1, -1) for step in (-1, 0, 1)),
]
SHARES = [
    "0",
    "1",
    "-1",
    "0.5",
    "1/3",
    "0.000000000000001",
    "0.999999999999999",
    f"1/{1 << 80}",
    "1e300",
    "1e999999999",
]
RECORDS: list[dict[str, float]] = [
    {},
    {"0": 1.0},
    {"3": -1.0},
    {"1": 0.0, "2": 1 / 3},
    {str(key): -1.0 for key in range(KEYS)},
    {str(key): 1.0 for key in range(KEYS)},
]
WRAPPED = 3 << 61  # four times it are 2^64 and 2^63: if sums wrap, a reserve with room for one pair only


def honest(name: str) -> Mechanism:
    return create_round(name, SCHEMA, 2, **OPTIONS.get(name, {}))


def extremes(mechanism: Mechanism) -> Iterator[dict[str, Any]]:
    """The options of a round, one of them at an extreme."""
    options = mechanism.options
    for option, kind in ((one.name, str(one.type)) for one in fields(mechanism) if one.name in options):
        value = options[option]
        if kind.startswith("int"):
            yield from ({**options, option: number} for number in NUMBERS)
        elif kind.startswith("tuple[int") and value is not None:
            for number in (*NUMBERS, WRAPPED):
                yield {**options, option: [number, *value[1:]]}
                everywhere = {**options, option: [number] * len(value)}
                yield everywhere
                if "reserve" in options:
                    least = options["max_pairs"] * number
                    yield from ({**everywhere, "reserve": reserve} for reserve in (least, least % (1 << 64)))
        elif kind.startswith("Fraction"):
            yield from ({**options, option: share} for share in SHARES)
        elif option == "groups":
            yield from ({**options, option: f"kvue:{number},ssr:1"} for number in NUMBERS)
            yield from ({**options, option: f"kvue:{share},ssr:1"} for share in SHARES)
        elif option == "group_options":
            group, tried = ("ssr", "size") if "ssr" in value else (min(value), "bins")
            yield from ({**options, option: {**value, group: {**value[group], tried: number}}} for number in NUMBERS)
        elif option == "law":
            yield from ({**options, option: f"{number},1,{number},1"} for number in NUMBERS)
        elif option == "set_sizes" and value is not None:
            yield from ({**options, option: text.format(number)} for text in ("{}", "0:{},2:1") for number in NUMBERS)


def answered(mechanism: Mechanism, options: dict[str, Any]) -> bool:
    """Whether a device takes such a round; if so, everybody is answered, and epsilon is kept."""
    document = RoundDocument.of(CAMPAIGN, Round(1, mechanism, EVERYONE)).document()
    try:
        made = create_round(mechanism.name, SCHEMA, mechanism.epsilon, **options)  # a collector lies consistently
        size = RoundDocument.of(CAMPAIGN, Round(1, made, EVERYONE)).report_bytes
        told = json.loads(json.dumps({**document, "options": options, "report_bytes": size}))
        read = RoundDocument.from_document(told, CAMPAIGN)
    except KeyveilError:
        return False
    coins = Coins()
    assert read.cost <= mechanism.epsilon
    if isinstance(read.mechanism, KeyValue):
        reports = [read.mechanism.perturb(record, coins) for record in RECORDS]
        assert all(len(read.mechanism.encode(report)) <= read.report_bytes for report in reports)
    else:
        for pairs in islice(read.mechanism.every_record(), 20):
            read.mechanism.respond(list(pairs), int.from_bytes(coins.bytes(8), "little"), coins)
    assert certified(read.mechanism.reduced())
    return True


@cache
def certified(small: Mechanism) -> bool:
    too_many = small.name == "rappor-meanest" and small.sizes["hashes"] > 2  # paths: rappor alone is enumerated
    return too_many or certify(small).certified


@pytest.mark.parametrize("name", [*mechanisms.mechanism_names(), *ROUNDS])
def test_extreme_numbers_are_refused_or_answered_by_everybody(name: str) -> None:
    mechanism = honest(name)
    assert answered(mechanism, mechanism.options)
    for options in extremes(mechanism):
        answered(mechanism, options)


@pytest.mark.parametrize("name", ["wsr", "adaptive-value"])
def test_sums_of_weights_that_wrap_would_be_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights without a bound and sums in 64 bits: a device took them, and answered some records only."""

    def wrapping(weights: Sequence[int], count: int) -> int:
        return int(np.sort(np.array(weights, dtype=np.int64))[-count:].sum()) % (1 << 64)

    for module in (wsr, adaptive):
        monkeypatch.setattr(module, "MOST_WEIGHT", 1 << 63)
        monkeypatch.setattr(module, "heaviest", wrapping)
    for module in (canonical, mechanism_options):
        monkeypatch.setattr(module, "SAFE", 1 << 70)
    monkeypatch.setattr(mechanism_options, "_whole", int)  # also numbers that no float holds
    mechanism = create_round(name, SCHEMA, 2, max_pairs=4, weights=[1, 2, 3, 4])
    hostile = {**mechanism.options, "weights": [WRAPPED] * (KEYS - 1) + [WRAPPED + 1]}  # no common factor
    if "reserve" in hostile:
        hostile["reserve"] = sum(hostile["weights"]) % (1 << 64)
    with pytest.raises(KeyveilError, match="Weights must not be negative"):
        answered(mechanism, hostile)


@pytest.mark.parametrize(("name", "code"), [("wsr", "mechanism/option"), ("adaptive-value", "protocol/broadcast")])
def test_a_weight_beyond_its_bound_is_refused_by_name(name: str, code: str) -> None:
    largest = [wsr.MOST_WEIGHT] * (KEYS - 1) + [wsr.MOST_WEIGHT - 1]  # no common factor
    assert answered(honest(name), {**honest(name).options, "weights": largest, **reserve(name, largest)})
    with pytest.raises(KeyveilError, match=f"weights up to {wsr.MOST_WEIGHT}") as refused:
        create_round(name, SCHEMA, 2, max_pairs=2, weights=[wsr.MOST_WEIGHT + 1, *largest[1:]])
    assert refused.value.code == code


def reserve(name: str, weights: list[int]) -> dict[str, int]:
    return {"reserve": wsr.heaviest(weights, 2)} if name == "adaptive-value" else {}


@pytest.mark.parametrize("number", [canonical.SAFE + 1, -canonical.SAFE - 1, 1 << 62, 10**30])
def test_a_document_holds_no_number_that_readers_disagree_about(number: int) -> None:
    with pytest.raises(KeyveilError) as refused:
        canonical.canonical({"options": [number]})
    assert refused.value.code == "document/number"
    with pytest.raises(KeyveilError) as refused:
        create_round("ssr", SCHEMA, 1, max_pairs=str(number))
    assert refused.value.code == "mechanism/option"


@pytest.mark.parametrize("number", ["1e3000000", "1e-3000000", "9" * 5000, "1/0"], ids=lambda text: text[:10])
def test_a_share_that_would_take_minutes_to_write_out_is_refused_at_once(number: str) -> None:
    first = CAMPAIGN.protocol.next_round([])
    assert first is not None
    document = {**RoundDocument.of(CAMPAIGN, first).document(), "part": ["0", number]}
    with pytest.raises(KeyveilError, match="two fractions"):
        RoundDocument.from_document(document, CAMPAIGN)
    for protocol in (
        {"name": "topsel", "sizes": f"1:{number},2:1"},
        {"name": "topsel", "sizes": 1, "kappa": number},
        {"name": "split", "groups": f"kvue:{number},ssr:1", "max_pairs": 2},
        {"name": "pilot", "share": number},
        {"name": "ssr", "max_pairs": 2, "overflow": number},
    ):
        with pytest.raises(KeyveilError):
            Campaign.from_document(changed(protocol={"epsilon": "2", **protocol}))
