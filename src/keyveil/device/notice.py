"""Reading what a collector serves, as if it were hostile: small, known, consistent, and with a price of its own making.

Nothing here depends on the record. A question that some records could not answer is refused outright, because then
silence would tell; and so is a round whose price, computed from its channel, exceeds what it says.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import msgspec

from keyveil.campaign.documents import LARGEST, NAME, Campaign, Fetch
from keyveil.campaign.rounds import RoundDocument
from keyveil.campaign.transport import Answer, Transport
from keyveil.core.epsilon import decimal_text
from keyveil.core.errors import CampaignError, DeviceError, KeyveilError, PrivacyError, TransportError
from keyveil.mechanisms.keyvalue.base import KeyValue

_HASH = re.compile(r"[0-9a-f]{64}")
_FAR = re.compile(r"[eE][+-]?[\d_]{3,}")  # exponents that would take hours to write out
_NONSENSE = (TypeError, ValueError, ArithmeticError, LookupError, AttributeError, AssertionError, RecursionError)


@dataclass(frozen=True)
class Limits:
    """What a device is willing to read and compute; a protection of its time and memory, not of privacy."""

    document_bytes: int = 4 * LARGEST
    keys: int = 1 << 16
    pairs: int = 1 << 8  # max_pairs and padding of a question
    number: int = 1 << 32  # any whole number among its options
    report_bytes: int = 1 << 16


@dataclass(frozen=True)
class Notice:
    """A campaign and its open round, understood and found consistent."""

    campaign: Campaign
    asked: RoundDocument | None
    state: str
    dictionary: bytes | None = None  # the list of keys beside the document

    def refuse_closed(self, day: date) -> None:
        """Hold the collector to its dates: until when was part of what the owner was shown."""
        if self.asked is None:
            return
        window = self.campaign.window(self.asked.number)
        if (window.opens and day < window.opens) or (window.closes and day > window.closes):
            raise CampaignError("round/closed", f"Round {self.asked.number} of {self.campaign.name} is not open today.")


def read_notice(transport: Transport, name: str, limits: Limits, known: Callable[[str], bytes | None]) -> Notice:
    """The campaign of a name as its collector serves it; ``known`` gives lists of keys that need not be fetched."""
    if not NAME.fullmatch(name):
        raise CampaignError("campaign/name", f"A campaign's name looks like snack-survey, not {name!r}.")

    fetched: list[bytes] = []

    def fetch(wanted: str) -> bytes:
        if not _HASH.fullmatch(wanted):
            raise CampaignError("campaign/dictionary", "A list of keys is named by its hash.")
        fetched.append(known(wanted) or _get(transport, f"/v1/dictionaries/{wanted}", limits))
        return fetched[-1]

    view = _view(_get(transport, f"/v1/campaigns/{name}", limits))
    try:
        understood = _understood(view, name, limits, fetch)
    except _NONSENSE as reason:
        raise CampaignError("campaign/document", f"What {name} asks makes no sense to this device.") from reason
    return replace(understood, dictionary=fetched[-1]) if fetched else understood


def _understood(view: dict[str, Any], name: str, limits: Limits, fetch: Fetch) -> Notice:
    document, round_view = view["campaign"], view["round"]
    _refuse_large(document, limits)
    campaign = Campaign.from_document(document, fetch)
    if campaign.name != name:
        raise CampaignError("campaign/changed", f"The collector served {campaign.name!r} instead of {name!r}.")
    if campaign.hash != view["hash"]:
        raise CampaignError("campaign/changed", f"The campaign {name} does not have the hash that its collector says.")
    asked = None if round_view is None else _round(campaign, round_view, limits)
    return Notice(campaign, asked, str(view["state"]))


def _round(campaign: Campaign, view: Any, limits: Limits) -> RoundDocument | None:
    if view["state"] != "open":
        return None
    _refuse_numbers([view["document"]["options"], view["document"]["part"]], limits)
    asked = RoundDocument.from_document(view["document"], campaign)
    if asked.hash != view["hash"] or asked.number != view["number"]:
        raise CampaignError("campaign/changed", f"Round {asked.number} is not the one that its collector says.")
    if not isinstance(asked.mechanism, KeyValue):
        raise DeviceError(
            "device/mechanism", f"{asked.mechanism.name} cannot take every record, so answering at all would tell."
        )
    if asked.report_bytes > limits.report_bytes:
        raise DeviceError("device/limits", f"A report of {asked.report_bytes} bytes is larger than this device sends.")
    if asked.cost > asked.mechanism.epsilon:
        raise PrivacyError("privacy/exceeded", f"Round {asked.number} tells more than the epsilon that it states.")
    if asked.cost > campaign.protocol.epsilon:
        raise PrivacyError(
            "budget/exceeded",
            f"Round {asked.number} costs more than the whole campaign ({decimal_text(campaign.protocol.epsilon)}).",
        )
    if asked.number == 1:
        first = campaign.protocol.next_round([])
        if first is None or RoundDocument.of(campaign, first).hash != asked.hash:
            raise CampaignError("campaign/round", f"Round 1 is not what {campaign.asked} asks first.")
    return asked


def _refuse_large(document: Any, limits: Limits) -> None:
    """Look at the sizes that a document names before anything of that size is made."""
    keys = document["schema"]["keys"]
    count = keys["count"] if isinstance(keys, dict) else len(keys) if isinstance(keys, list) else keys
    if count > limits.keys:
        raise DeviceError("device/limits", f"{count} keys are more than this device reads ({limits.keys}).")
    _refuse_numbers([document["schema"].get("low"), document["schema"].get("high"), document["protocol"]], limits)


def _refuse_numbers(part: Any, limits: Limits, name: str = "") -> None:
    if isinstance(part, dict):
        for called, value in part.items():
            _refuse_numbers(value, limits, called)
    elif isinstance(part, list):
        for value in part:
            _refuse_numbers(value, limits, name)
    elif isinstance(part, int):
        most = limits.pairs if name in ("max_pairs", "padding") else limits.number
        if abs(part) > most:
            raise DeviceError("device/limits", f"{part} for {name or 'a number'} is more than this device computes.")
    elif isinstance(part, str) and _FAR.search(part):
        raise DeviceError("device/limits", f"The number in {name or 'a text'} is beyond what this device computes.")


def _get(transport: Transport, path: str, limits: Limits) -> bytes:
    answer = transport.request("GET", path, b"", {"Accept": "application/json"})
    if answer.status != 200:
        raise problem(answer) or TransportError("transport/status", f"The collector answered {answer.status}.")
    if len(answer.body) > limits.document_bytes:
        raise DeviceError("device/limits", f"The collector's document exceeds {limits.document_bytes} bytes.")
    return answer.body


def _view(body: bytes) -> dict[str, Any]:
    try:
        view = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        view = None
    if not isinstance(view, dict) or not {"campaign", "hash", "state", "round"} <= set(view):
        raise CampaignError("campaign/document", "The collector's answer is no campaign.")
    return view


class _Problem(msgspec.Struct):
    code: str
    detail: str = ""


_CODE = re.compile(r"[a-z0-9-]{1,40}/[a-z0-9-]{1,40}")


def problem(answer: Answer) -> KeyveilError | None:
    """The problem document of an answer (RFC 9457), if it is one with a code that makes sense."""
    if answer.headers.get("content-type", "").partition(";")[0].strip() != "application/problem+json":
        return None
    try:
        said = msgspec.json.decode(answer.body, type=_Problem)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not _CODE.fullmatch(said.code):
        return None
    return KeyveilError(said.code, plain(said.detail)[:300] or f"The collector answered {answer.status}.")


def plain(text: str) -> str:
    """Text of a stranger for a terminal: no control characters, and so no escape sequences."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
