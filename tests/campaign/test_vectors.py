"""The conformance kit holds, also for a reader who knows docs/wire.md and none of this code."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import struct
from datetime import date
from typing import Any

import pytest

from keyveil.core.errors import KeyveilError
from keyveil.core.public import public_word
from keyveil.device import Device
from tests.campaign.vectors import KIT, PERIODS, PILOT, SNACKS, first_round, kit, read_campaign, reader
from tests.device.collector import Collector, Sleeper, Watch
from tests.device.owner import GENEROUS

WRITTEN: dict[str, list[dict[str, Any]]] = json.loads(KIT.read_text(encoding="utf-8"))


def test_the_kit_is_what_the_code_does() -> None:
    assert json.loads(json.dumps(kit())) == WRITTEN


@pytest.mark.parametrize("case", WRITTEN["campaigns"] + WRITTEN["rounds"], ids=lambda case: case["sha256"][:8])
def test_documents_have_one_spelling_and_its_hash(case: dict[str, Any]) -> None:
    assert case["canonical"] == spelled(case["document"])
    assert case["sha256"] == hashlib.sha256(case["canonical"].encode()).hexdigest()


@pytest.mark.parametrize("case", WRITTEN["campaigns"], ids=lambda case: case["sha256"][:8])
def test_terms_are_the_document_without_its_dates(case: dict[str, Any]) -> None:
    lasting = {**case["document"], "rounds": [one.get("enough") for one in case["document"]["rounds"]]}
    assert case["terms_sha256"] == hashlib.sha256(spelled(lasting).encode()).hexdigest()


def test_campaigns_of_a_series_differ_in_their_hash_and_not_in_their_terms() -> None:
    weeks = [one for one in WRITTEN["campaigns"] if one["document"]["name"] == "snacks-by-period"]
    assert len({one["sha256"] for one in weeks}) == 2 and len({one["terms_sha256"] for one in weeks}) == 1


@pytest.mark.parametrize("case", WRITTEN["periods"], ids=lambda case: case["day"])
def test_periods_are_counted_from_their_day_in_both_directions(case: dict[str, Any]) -> None:
    start, day, length = date.fromisoformat(case["renew_from"]), date.fromisoformat(case["day"]), case["renew_days"]
    first = day.toordinal() - (day - start).days % length
    last = first + length - 1
    assert case["first"] == date.fromordinal(max(first, date.min.toordinal())).isoformat()
    assert case["last"] == date.fromordinal(min(last, date.max.toordinal())).isoformat()


@pytest.mark.parametrize("case", WRITTEN["ids"], ids=lambda case: " ".join(case["parts"][:2]))
def test_ids_are_keyed_hashes_of_what_a_report_stands_for(case: dict[str, Any]) -> None:
    assert case["canonical"] == spelled(case["parts"])
    keyed = hmac.digest(bytes.fromhex(case["secret"]), case["canonical"].encode(), "sha256")
    assert case["id"] == keyed[:16].hex()


def test_no_two_ids_of_a_device_are_the_same() -> None:
    """Nor do those of two devices, or of one device for two collectors, have anything in common."""
    assert len({case["id"] for case in WRITTEN["ids"]}) == len(WRITTEN["ids"]) == 16


@pytest.mark.parametrize("collector", ["", "https://collector.example"])
@pytest.mark.parametrize(("document", "kind"), [(SNACKS, "round"), (PERIODS, "period"), (PILOT, "seat")])
def test_a_device_sends_the_ids_of_the_kit(document: dict[str, Any], kind: str, collector: str) -> None:
    """Of twenty devices: in a campaign that asks parts of the people most are not asked."""
    made = {**document, "enrolment": "none"}
    campaign, served = read_campaign(made), Collector()
    served.open(made)
    expected = set()
    for number in range(20):
        secret = bytes([number]) * 32
        device = Device(":memory:", served, GENEROUS, Watch(), sleep=Sleeper(), collector=collector)
        device.vault.connection.execute("UPDATE device SET secret = ?", (secret,))
        device.consent(campaign.name)
        device.report(campaign.name, {"fries": 4})
        series = f"{collector}/{campaign.name}" if collector else campaign.name
        about = {
            "round": [first_round(made).hash],
            "period": [campaign.terms, "2026-11-20"],
            "seat": [campaign.hash],
        }[kind]
        expected.add(hmac.digest(secret, spelled([kind, series, *about]).encode(), "sha256")[:16])
    sent = {public for public, _ in served.reports}
    assert sent and sent <= expected and (kind == "seat" or sent == expected)


@pytest.mark.parametrize("case", WRITTEN["batches"], ids=lambda case: str(case["round"]))
def test_batches_are_laid_out_as_specified(case: dict[str, Any]) -> None:
    packed = bytes.fromhex(case["packed"])
    magic, version, number, size, count, document = struct.unpack_from("<3sBHII32s", packed)
    reports = [packed[at : at + 16 + size] for at in range(46, len(packed), 16 + size)]

    assert (magic, version, number, count) == (b"KVR", 1, case["round"], len(case["reports"]))
    assert document.hex() == case["document"]
    assert [(report[:16].hex(), report[16:].hex()) for report in reports] == [
        (report["id"], report["payload"]) for report in case["reports"]
    ]
    upload = json.loads(case["json"])
    assert upload["reports"] == [
        {"id": report["id"], "payload": base64.urlsafe_b64encode(bytes.fromhex(report["payload"])).decode().rstrip("=")}
        for report in case["reports"]
    ]


@pytest.mark.parametrize("case", WRITTEN["payloads"], ids=lambda case: f"{case['codec']} {case['payload']}")
def test_payloads_are_padded_as_specified(case: dict[str, Any]) -> None:
    mark = "80" if case["varies"] else ""
    assert case["padded"] == (case["encoded"] + mark).ljust(2 * case["report_bytes"], "0")


@pytest.mark.parametrize("case", WRITTEN["partings"], ids=lambda case: case["id"])
def test_people_are_parted_as_specified(case: dict[str, Any]) -> None:
    key = hashlib.sha256(bytes.fromhex(case["campaign"]) + b"part").digest()[:16]
    word = public_word(bytes.fromhex(case["id"]), key)

    assert f"{word:016x}" == case["word"]
    low, high = (float(edge) for edge in case["part"])
    assert low <= (word >> 32) / 2**32 < high


GROUPS = {"kvue": ("0.5", 0.0), "ssr": ("0.25", 0.5), "pckv-ue": ("0.25", 0.75)}  # share, and where its people begin


@pytest.mark.parametrize("case", WRITTEN["groups"], ids=lambda case: case["id"][:2])
def test_groups_are_told_apart_and_padded_as_specified(case: dict[str, Any]) -> None:
    public, fingerprint = bytes.fromhex(case["id"]), bytes.fromhex(case["fingerprint"])
    place = (public_word(public, hashlib.sha256(fingerprint + b"part").digest()[:16]) >> 32) / 2**32
    own = public_word(public, bytes.fromhex(case["group_fingerprint"])[:16])
    mark = "80" if case["varies"] else ""

    assert case["group"] == max((start, name) for name, (_, start) in GROUPS.items() if start <= place)[1]
    assert case["word"] == f"{own:016x}"
    assert case["padded"] == (case["encoded"] + mark).ljust(6, "0")


def test_the_fingerprint_of_groups_is_that_of_its_parts() -> None:
    prints = {case["group"]: case["group_fingerprint"] for case in WRITTEN["groups"]}
    schema = next(one["schema_sha256"] for one in WRITTEN["campaigns"] if one["document"]["name"] == "snacks-in-groups")
    document = {
        "epsilon": "1",
        "mechanism": "split",
        "parts": [[share, prints[name]] for name, (share, _) in GROUPS.items()],
        "schema": schema,
    }
    written = next(one for one in WRITTEN["rounds"] if one["campaign"] == "snacks-in-groups")

    assert hashlib.sha256(spelled(document).encode()).hexdigest() == written["fingerprint"]
    assert {case["fingerprint"] for case in WRITTEN["groups"]} == {written["fingerprint"]}
    assert written["document"]["report_bytes"] == 3 and not written["varies"]


@pytest.mark.parametrize("case", WRITTEN["refused"], ids=lambda case: f"{case['form']}: {case['what']}")
def test_what_must_be_refused_is(case: dict[str, Any]) -> None:
    with pytest.raises(KeyveilError) as refused:
        reader(case["form"])(case["input"])

    assert refused.value.code == case["code"]


def spelled(document: Any) -> str:
    """Canonical JSON, written again from the specification."""
    if isinstance(document, dict):
        return "{" + ",".join(f"{spelled(name)}:{spelled(document[name])}" for name in sorted(document)) + "}"
    if isinstance(document, list):
        return "[" + ",".join(map(spelled, document)) + "]"
    if isinstance(document, str):
        short = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
        return '"' + "".join(short.get(one, one if one >= " " else f"\\u{ord(one):04x}") for one in document) + '"'
    if document is None or isinstance(document, bool):
        return {None: "null", True: "true", False: "false"}[document]
    return str(document)
