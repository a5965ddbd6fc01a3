"""The conformance kit of docs/wire.md: documents, words, payloads and batches with the bytes that they must have.

``python -m tests.campaign.vectors`` writes ``wire_vectors.json`` anew, after a change of the format that was meant.
Whoever writes a device or collector in another language can read that file and nothing else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from datetime import date
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

from keyveil.campaign.documents import Campaign, dictionary_of
from keyveil.campaign.rounds import RoundDocument
from keyveil.campaign.wire import Batch, from_json, from_packed, pad, unpad
from keyveil.core.canonical import canonical
from keyveil.core.codecs.labelled_keys import LabelledKeys, SignedKeys
from keyveil.core.codecs.members import DenseMembers, RealMembers
from keyveil.core.codecs.rare_bits import RareBits
from keyveil.core.codecs.symbols import BitVector, Symbol
from keyveil.core.errors import KeyveilError
from keyveil.core.public import public_index, public_word
from keyveil.core.report import Report
from keyveil.device.identity import derived
from keyveil.mechanisms.parting import Part, parting_word
from keyveil.mechanisms.side_by_side import SideBySide
from keyveil.protocols.base import Round

KIT = Path(__file__).with_name("wire_vectors.json")

SECRETS = [bytes(32), bytes(range(32))]
IDS = [bytes(16), bytes(range(16)), bytes.fromhex("00112233445566778899aabbccddeeff"), b"\xff" * 16]

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
ACCENTS = {
    **SNACKS,
    "name": "crepes",
    "purpose": 'Crêpes 🥞, "sweet" or savoury?\nTabs\t, backslashes \\ and slashes / are as JSON has them.',
    "schema": {"keys": ["sucré", "salé", "日本", "\u007f"], "low": "-0.5", "high": "2.75"},
    "protocol": {"name": "kvue", "epsilon": "0.1"},
    "rounds": [{}],
    "contact": "",
}
PILOT = {
    **SNACKS,
    "name": "pilot-survey",
    "protocol": {"name": "pilot", "epsilon": "2", "share": "0.1"},
    "rounds": [{"enough": 1000}, {"enough": 9000}],
    "enrolment": "token",
}
APPS = [f"app-{number:04d}" for number in range(12)]
LONG = {
    **SNACKS,
    "name": "apps",
    "schema": {
        "keys": {"sha256": hashlib.sha256(dictionary_of(APPS)).hexdigest(), "count": len(APPS)},
        "low": 0,
        "high": 1,
    },
    "protocol": {"name": "olh", "epsilon": "1.5"},
}
SPLIT = {
    **SNACKS,
    "name": "snacks-in-groups",
    "protocol": {"name": "split", "epsilon": "1", "groups": "kvue:0.5,ssr:0.25,pckv-ue:0.25", "max_pairs": 2},
    "rounds": [{}],
}
PERIODS = {
    **SNACKS,
    "name": "snacks-by-period",
    "rounds": [{"opens": "2026-11-20", "closes": "2026-11-26"}],
    "every_days": 7,
    "series_until": "2027-06-24",
    "renew_days": 28,
    "renew_from": "2026-11-20",
}
TURNS = {
    **SNACKS,
    "name": "snacks-by-turns",
    "protocol": {"name": "privkvm", "epsilon": "1", "rounds": 2},
    "rounds": [{"opens": "2026-11-20", "closes": "2026-11-22"}, {"opens": "2026-11-23", "closes": "2026-11-26"}],
    "every_days": 7,
    "one_in": 4,
}
NEXT_PERIODS = {**PERIODS, "rounds": [{"opens": "2026-11-27", "closes": "2026-12-03"}]}  # the same terms
CAMPAIGNS = (SNACKS, ACCENTS, PILOT, LONG, SPLIT, PERIODS, NEXT_PERIODS, TURNS)
DAYS = ("2026-01-01", "2026-11-19", "2026-11-20", "2026-12-17", "2026-12-18", "2028-02-29", "0001-01-01", "9999-12-31")
GROUP_IDS = [bytes([number]) * 16 for number in range(8)]
GROUP_PAYLOADS: tuple[Any, ...] = (2, (3,), (1, 4))  # of its groups, in order

CODECS: dict[str, tuple[Any, dict[str, Any], list[Any]]] = {
    "symbol of 1": (Symbol(1), {"outputs": 1}, [0]),
    "symbol of 5": (Symbol(5), {"outputs": 5}, [0, 4]),
    "symbol of 70000": (Symbol(70_000), {"outputs": 70_000}, [0, 258, 69_999]),
    "bits": (BitVector(13), {"length": 13}, [b"\x00\x00", b"\x05\x10", b"\xff\x1f"]),
    "rare bits by gaps": (
        RareBits(20, Fraction(1, 10)),
        {"length": 20, "share": "0.1"},
        [b"\x00\x00\x00", b"\x04\x00\x08", b"\xff\xff\x0f"],
    ),
    "rare bits by threes": (
        RareBits(13, Fraction(2, 5)),
        {"length": 13, "share": "0.4"},
        [b"\x00\x00", b"\x05\x10", b"\xff\x1f"],
    ),
    "labelled keys": (
        LabelledKeys(7, 3, Fraction(1, 5)),
        {"keys": 7, "labels": 3, "share": "0.2"},
        [(), (0,), (2, 10, 20), tuple(3 * key + 2 for key in range(7))],
    ),
    "signed keys": (
        SignedKeys(8, share=Fraction(3, 10)),
        {"keys": 8, "labels": 2, "share": "0.3"},
        [(), (1, 6, 15), tuple(range(0, 16, 2))],
    ),
    "real members": (
        RealMembers(12, 3, 2),
        {"symbols": 12, "size": 3, "dummies": 2},
        [(0,), (3, 11), (0, 5, 11)],
    ),
    "dense members": (
        DenseMembers(7, 4, 3),
        {"symbols": 7, "size": 4, "dummies": 3},
        [(6,), (0, 1, 2), (0, 2, 4, 6)],
    ),
}


def kit() -> dict[str, Any]:
    """Everything that the format fixes, on examples."""
    return {
        "keyveil": 1,
        "campaigns": [_campaign(document) for document in CAMPAIGNS],
        "dictionaries": [{"keys": APPS, **_hashed(APPS)}],
        "rounds": [_round(document) for document in CAMPAIGNS],
        "periods": [_period(day) for day in DAYS],
        "ids": [_id(secret, *parts) for secret in SECRETS for parts in named()],
        "words": [_word(public) for public in IDS],
        "partings": [_parting(public) for public in IDS],
        "groups": [_group(public) for public in GROUP_IDS],
        "payloads": [_payload(name, payload) for name, (_, _, payloads) in CODECS.items() for payload in payloads],
        "batches": [_batch(count, size) for count, size in ((1, 3), (2, 1), (3, 0))],
        "refused": [_refused(*case) for case in refusals()],
    }


def read_campaign(document: Any) -> Campaign:
    """A campaign, with the one dictionary of this kit at hand."""
    return Campaign.from_document(document, lambda name: dictionary_of(APPS))


def first_round(document: Any) -> RoundDocument:
    campaign = read_campaign(document)
    asked = campaign.protocol.next_round([])
    assert isinstance(asked, Round)
    return RoundDocument.of(campaign, asked)


def _hashed(document: Any) -> dict[str, str]:
    data = canonical(document)
    return {"canonical": data.decode(), "sha256": hashlib.sha256(data).hexdigest()}


def _campaign(document: Any) -> dict[str, Any]:
    campaign = read_campaign(document)
    hashed = _hashed(document)
    assert campaign.hash == hashed["sha256"]
    return {"document": document, **hashed, "terms_sha256": campaign.terms, "schema_sha256": campaign.schema.hash}


def _round(document: Any) -> dict[str, Any]:
    written = first_round(document)
    return {
        "campaign": document["name"],
        "document": json.loads(canonical(written.document())),
        **_hashed(written.document()),
        "fingerprint": written.mechanism.fingerprint.hex(),
        "varies": written.mechanism.codec.varies,
    }


def _period(day: str) -> dict[str, str]:
    """The period of a day under the terms of ``PERIODS``."""
    recurrence = read_campaign(PERIODS).recurrence
    period = recurrence.period(date.fromisoformat(day))
    assert period is not None
    terms = {name: PERIODS[name] for name in ("renew_days", "renew_from")}
    return {**terms, "day": day, "first": period.first.isoformat(), "last": period.last.isoformat()}


def named() -> list[tuple[str, ...]]:
    """What a report can stand for: a round, a period or a seat; of a device with one collector, and with several."""
    periods, parted = read_campaign(PERIODS), read_campaign(PILOT)
    found = []
    for collector in ("", "https://collector.example/"):
        found += [
            ("round", collector + SNACKS["name"], first_round(SNACKS).hash),
            ("period", collector + periods.name, periods.terms, _period(DAYS[2])["first"]),
            ("period", collector + periods.name, periods.terms, _period(DAYS[4])["first"]),
            ("seat", collector + parted.name, parted.hash),
        ]
    return found


def _id(secret: bytes, *parts: str) -> dict[str, Any]:
    return {
        "secret": secret.hex(),
        "parts": list(parts),
        "canonical": canonical(list(parts)).decode(),
        "id": derived(secret, *parts).hex(),
    }


def _word(public: bytes) -> dict[str, Any]:
    fingerprint = first_round(SNACKS).mechanism.fingerprint
    word = public_word(public, fingerprint[:16])
    indices = {str(bound): public_index(word, bound) for bound in (2, 3, 1000)}
    return {"id": public.hex(), "fingerprint": fingerprint.hex(), "word": f"{word:016x}", "index_below": indices}


def _parting(public: bytes) -> dict[str, Any]:
    campaign = read_campaign(PILOT).hash
    word = parting_word(public, bytes.fromhex(campaign))
    edges = ("0", "0.25", "0.5", "0.75", "1")
    parts = {(start, stop): Part(Fraction(start), Fraction(stop)) for start, stop in pairwise(edges)}
    (part,) = (list(ends) for ends, part in parts.items() if part.holds(word))
    return {"id": public.hex(), "campaign": campaign, "word": f"{word:016x}", "part": part}


def _group(public: bytes) -> dict[str, Any]:
    """A report of mechanisms side by side: its part, the word of the part, and a payload at the common length."""
    mechanism = first_round(SPLIT).mechanism
    assert isinstance(mechanism, SideBySide)
    number = mechanism.part_of(public)
    part, payload = mechanism.parts[number], GROUP_PAYLOADS[number]
    return {
        "id": public.hex(),
        "fingerprint": mechanism.fingerprint.hex(),
        "group": part.name,
        "group_fingerprint": part.fingerprint.hex(),
        "word": f"{part.word(public):016x}",
        "payload": payload,
        "varies": part.codec.varies,
        "encoded": part.codec.encode(payload).hex(),
        "padded": mechanism.encode(Report(public, payload)).hex(),
    }


def _payload(name: str, payload: Any) -> dict[str, Any]:
    codec, parameters, _ = CODECS[name]
    encoded, size = codec.encode(payload), codec.longest + codec.varies
    return {
        "codec": name,
        **parameters,
        "payload": payload.hex() if isinstance(payload, bytes) else payload,
        "encoded": encoded.hex(),
        "varies": codec.varies,
        "report_bytes": size,
        "padded": pad(encoded, size, codec.varies).hex(),
    }


def _batch(count: int, size: int) -> dict[str, Any]:
    payloads = tuple(bytes((17 * (at + 1) + place) % 256 for place in range(size)) for at in range(count))
    batch = Batch(count, first_round(SNACKS).hash, tuple(IDS[1 : count + 1]), payloads)
    return {
        "round": batch.round,
        "document": batch.document,
        "reports": [{"id": public.hex(), "payload": payload.hex()} for public, payload in batch],
        "json": batch.to_json().decode(),
        "packed": batch.to_packed().hex(),
    }


# -- what is refused ------------------------------------------------------------------------------------------------


def refusals() -> list[tuple[str, str, Any]]:
    """(form, what is wrong, input): of each form some inputs that a reader must not accept."""
    good = Batch(1, "ab" * 32, (IDS[1],), (b"\x01",))
    text, packed = good.to_json().decode(), good.to_packed()
    codecs = [
        ("symbol of 5", "a symbol that does not exist", "05"),
        ("symbol of 5", "too long", "0000"),
        ("bits", "a bit beyond the last", "0020"),
        ("rare bits by gaps", "cut off", ""),
        ("rare bits by gaps", "plain bits that are longer than the gaps", "010000"),
        ("rare bits by threes", "a bit beyond the last", "ff7f"),
        ("labelled keys", "something after the end", "ffffff"),
        ("real members", "too few members", "07"),
        ("dense members", "too few members", "0000"),
    ]
    mechanism = first_round(SPLIT).mechanism
    assert isinstance(mechanism, SideBySide)
    symbol, members, _ = (
        next(public for public in GROUP_IDS if mechanism.part_of(public) == number) for number in range(3)
    )
    groups = [
        ("an end mark behind a symbol", symbol, "028000"),
        ("a symbol that does not exist", symbol, "030000"),
        ("too short", symbol, "0200"),
        ("too long", symbol, "02000000"),
        ("no end mark", members, "020000"),
        ("an answer of another group", members, "ffff80"),
    ]
    return [
        ("json", "no report", text.replace(text[text.index("[") : text.index("]") + 1], "[]")),
        ("json", "round 0", text.replace('"round":1', '"round":0')),
        ("json", "a round that is no whole number", text.replace('"round":1', '"round":1.5')),
        ("json", "a hash in upper case", text.replace("ab" * 32, "AB" * 32)),
        ("json", "a short id", text.replace(IDS[1].hex(), IDS[1].hex()[:-2])),
        ("json", "an id in upper case", text.replace(IDS[1].hex(), IDS[1].hex().upper())),
        ("json", "base64 with padding", text.replace('"AQ"', '"AQ=="')),
        ("json", "another spelling of the same byte", text.replace('"AQ"', '"AR"')),
        ("json", "a field that nobody asked for", text.replace('"payload":"AQ"', '"payload":"AQ","user":7')),
        ("json", "cut off", text[:-1]),
        ("packed", "cut off", packed[:-1].hex()),
        ("packed", "one byte too many", (packed + b"\0").hex()),
        ("packed", "another version", (packed[:3] + b"\x02" + packed[4:]).hex()),
        ("packed", "round 0", (packed[:4] + b"\0\0" + packed[6:]).hex()),
        ("packed", "no report", (packed[:10] + bytes(4) + packed[14:46]).hex()),
        ("packed", "not a batch", b"KVT".hex() + packed[3:].hex()),
        ("padding", "no end mark", "010203"),
        ("padding", "nothing but zeros", "000000"),
        ("padding", "too short", "0180"),
        ("padding", "too long", "01800000"),
        *((f"payload of {name}", what, data) for name, what, data in codecs),
        *((f"group of {public.hex()}", what, data) for what, public, data in groups),
        ("campaign", "another version", {**SNACKS, "keyveil": 2}),
        ("campaign", "a field that nobody knows", {**SNACKS, "colour": "blue"}),
        ("campaign", "a float", {**SNACKS, "min_reports": 1000.0}),
        ("campaign", "epsilon as a number", {**SNACKS, "protocol": {"name": "ssr", "epsilon": 1, "max_pairs": 3}}),
        ("campaign", "no concrete mechanism", {**SNACKS, "protocol": {"name": "auto", "epsilon": "1"}}),
        ("campaign", "a day in another spelling", {**SNACKS, "rounds": [{"opens": "20261120"}]}),
        *(("campaign", what, document) for what, document in impossible_series()),
        ("round", "of another campaign", {**first_round(SNACKS).document(), "campaign": "00" * 32}),
        ("round", "another size", {**first_round(SNACKS).document(), "report_bytes": 1}),
        ("round", "epsilon in another spelling", {**first_round(SNACKS).document(), "epsilon": "1.0"}),
        ("round", "a part in another spelling", {**first_round(SNACKS).document(), "part": ["0", "1.0"]}),
    ]


def impossible_series() -> list[tuple[str, dict[str, Any]]]:
    """(what is wrong, document): series that a reader must not accept."""

    def without(document: dict[str, Any], *names: str) -> dict[str, Any]:
        return {name: value for name, value in document.items() if name not in names}

    return [
        ("a period without its first day", without(PERIODS, "renew_from")),
        ("a first day without a period", without(PERIODS, "renew_days")),
        ("a period of no days", {**PERIODS, "renew_days": 0}),
        ("a period of more than 3660 days", {**PERIODS, "renew_days": 3661}),
        ("a period in a text", {**PERIODS, "renew_days": "28"}),
        ("null for a period", {**PERIODS, "renew_days": None, "renew_from": None}),
        ("a period that begins in another spelling", {**PERIODS, "renew_from": "20261120"}),
        ("a day that does not exist", {**PERIODS, "renew_from": "2026-02-29"}),
        ("periods and turns", {**PERIODS, "one_in": 4}),
        ("periods of several rounds", {**without(TURNS, "one_in"), "renew_days": 28, "renew_from": "2026-11-20"}),
        ("one campaign in one", {**TURNS, "one_in": 1}),
        ("one campaign in 1001", {**TURNS, "one_in": 1001}),
        ("a turn that is true", {**TURNS, "one_in": True}),
        ("an end without a rhythm", without(PERIODS, "every_days")),
        ("a rhythm of no days", {**PERIODS, "every_days": 0}),
        ("a rhythm shorter than the campaign", {**PERIODS, "every_days": 6}),
        ("a rhythm without dates", {**PERIODS, "rounds": [{"enough": 200000}]}),
        ("a campaign beyond the end of its series", {**PERIODS, "series_until": "2026-11-25"}),
    ]


def reader(form: str) -> Callable[[Any], Any]:
    """What reads an input of a form."""
    if form.startswith("payload of "):
        codec = CODECS[form.removeprefix("payload of ")][0]
        return lambda data: codec.decode(bytes.fromhex(data))
    if form.startswith("group of "):
        mechanism, public = first_round(SPLIT).mechanism, bytes.fromhex(form.removeprefix("group of "))
        return lambda data: mechanism.decode(bytes.fromhex(data), public)
    readers: dict[str, Callable[[Any], Any]] = {
        "json": lambda text: from_json(text.encode()),
        "packed": lambda data: from_packed(bytes.fromhex(data)),
        "padding": lambda data: unpad(bytes.fromhex(data), 3, varies=True),
        "campaign": read_campaign,
        "round": lambda document: RoundDocument.from_document(document, read_campaign(SNACKS)),
    }
    return readers[form]


def _refused(form: str, what: str, given: Any) -> dict[str, Any]:
    try:
        reader(form)(given)
    except KeyveilError as refused:
        return {"form": form, "what": what, "input": given, "code": refused.code}
    raise AssertionError(f"{form} takes {what}")


if __name__ == "__main__":
    KIT.write_text(json.dumps(kit(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
