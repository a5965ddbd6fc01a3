"""The conformance kit holds, also for a reader who knows docs/wire.md and none of this code."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from typing import Any

import pytest

from keyveil.core.errors import KeyveilError
from keyveil.core.public import public_word
from tests.campaign.vectors import KIT, kit, reader

WRITTEN: dict[str, list[dict[str, Any]]] = json.loads(KIT.read_text(encoding="utf-8"))


def test_the_kit_is_what_the_code_does() -> None:
    assert json.loads(json.dumps(kit())) == WRITTEN


@pytest.mark.parametrize("case", WRITTEN["campaigns"] + WRITTEN["rounds"], ids=lambda case: case["sha256"][:8])
def test_documents_have_one_spelling_and_its_hash(case: dict[str, Any]) -> None:
    assert case["canonical"] == spelled(case["document"])
    assert case["sha256"] == hashlib.sha256(case["canonical"].encode()).hexdigest()


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
