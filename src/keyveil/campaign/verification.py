"""Reading what a collector serves, as if it were hostile: sizes, names, consistency and price are checked.

Nothing here depends on the record. A mechanism that could not take every record is refused, because then a missing
report would tell something about the record. A round is refused if its price, computed from its channel, exceeds what
its document states.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import date
from functools import lru_cache
from typing import Any

import msgspec

from keyveil.campaign.documents import LARGEST, NAME, Campaign, Fetch
from keyveil.campaign.rounds import RoundDocument
from keyveil.campaign.transport import HttpAnswer, Transport
from keyveil.core.canonical import canonical
from keyveil.core.epsilon import decimal_text
from keyveil.core.errors import CampaignError, DeviceError, KeyveilError, PrivacyError, TransportError
from keyveil.core.text import plain
from keyveil.core.work import limited
from keyveil.protocols.declarations import refuse_undeclared

_HASH = re.compile(r"[0-9a-f]{64}")
_PAIRS = frozenset(("max_pairs", "padding", "set_sizes", "sizes", "most"))  # options that count pairs of a record
_FAR = re.compile(r"[eE][+-]?[\d_]{3,}")  # exponents of numbers too long to write out
_NONSENSE = (TypeError, ValueError, ArithmeticError, LookupError, AttributeError, AssertionError, RecursionError)


@dataclass(frozen=True)
class DeviceLimits:
    """The most that a device reads and computes; this protects its time and memory, not privacy."""

    document_bytes: int = 4 * LARGEST
    keys: int = 1 << 16
    pairs: int = 1 << 8  # of a record that count: max_pairs, padding, set sizes
    number: int = 1 << 32  # any whole number among its options
    work: int = 1 << 23  # keys times bins times pairs: what the tables of a question grow with
    units: int = 1 << 20  # of computation that is priced before it is done (core.work): about a second
    report_bytes: int = 1 << 16


@dataclass(frozen=True)
class Notice:
    """A campaign and its open round, read and found consistent."""

    campaign: Campaign
    open_round: RoundDocument | None
    state: str
    dictionary: bytes | None = None  # the list of keys beside the document

    @property
    def opened(self) -> date | None:
        """The first day on which the open round could have been open, if one is named; rounds open in their order."""
        number = 0 if self.open_round is None else self.open_round.number
        return max((window.opens for window in self.campaign.rounds[:number] if window.opens), default=None)

    def next_opening(self, day: date) -> date | None:
        """The first day after a day on which a round opens, if one is named."""
        return min(
            (window.opens for window in self.campaign.rounds if window.opens and window.opens > day), default=None
        )

    def refuse_closed(self, day: date) -> None:
        """Refuse a round outside its dates, which the owner was shown.

        A round that is not listed opens no earlier than the listed ones, and ends with the campaign.
        """
        if self.open_round is None:
            return
        which = f"Round {self.open_round.number} of {self.campaign.name}"
        closes = self.campaign.window(self.open_round.number).closes or self.campaign.until
        if day < (self.opened or day):
            raise CampaignError("round/closed", f"{which} is not open today: it opens on {self.opened}.")
        if day > (closes or day):
            raise CampaignError("round/closed", f"{which} is not open today: its last day was {closes}.")


def read_notice(transport: Transport, name: str, limits: DeviceLimits, known: Callable[[str], bytes | None]) -> Notice:
    """The campaign of a name (or with a hash that begins so) as its collector serves it.

    ``known`` gives lists of keys that need not be fetched.
    """
    if not NAME.fullmatch(name):
        raise CampaignError("campaign/name", f"A campaign's name looks like snack-survey, not {name!r}.")

    fetched: list[bytes] = []

    def fetch(wanted: str) -> bytes:
        if not _HASH.fullmatch(wanted):
            raise CampaignError("campaign/dictionary", "A list of keys is named by its hash.")
        fetched.append(known(wanted) or _get(transport, f"/v1/dictionaries/{wanted}", limits))
        return fetched[-1]

    body = _get(transport, f"/v1/campaigns/{name}", limits)
    try:
        with limited(limits.units):
            understood = _without_dictionary(body, name, limits) or _understood(_view(body), name, limits, fetch)
    except _NONSENSE as reason:
        raise CampaignError("campaign/document", f"What {name} asks makes no sense to this device.") from reason
    except MemoryError as reason:
        raise DeviceError("device/limits", f"What {name} asks is more than this device has room for.") from reason
    return replace(understood, dictionary=fetched[-1]) if fetched else understood


class _DictionaryNeeded(Exception):
    """The keys lie beside the document."""


@lru_cache(maxsize=4)
def _without_dictionary(body: bytes, name: str, limits: DeviceLimits) -> Notice | None:
    """The notice in these bytes if it needs no list of keys; cached, as the same bytes are often read again."""

    def fetch(wanted: str) -> bytes:
        raise _DictionaryNeeded

    try:
        return _understood(_view(body), name, limits, fetch)
    except _DictionaryNeeded:
        return None


def _understood(view: dict[str, Any], name: str, limits: DeviceLimits, fetch: Fetch) -> Notice:
    document, round_view = view["campaign"], view["round"]
    _refuse_large(document, limits)
    campaign = Campaign.from_document(document, fetch)
    _refuse_numbers(campaign.protocol.parameters, campaign.schema.d, limits)  # with the defaults that were left out
    if not campaign.answers_to(name):
        raise CampaignError("campaign/changed", f"The collector served {campaign.name!r} instead of {name!r}.")
    if campaign.hash != view["hash"]:
        raise CampaignError("campaign/changed", f"The campaign {name} does not have the hash that its collector says.")
    if canonical(campaign.document()) != canonical(document):
        raise CampaignError("campaign/document", f"The document of {name} is not in canonical form.")
    open_round = None if round_view is None else _round(campaign, round_view, limits)
    return Notice(campaign, open_round, str(view["state"]))


def _round(campaign: Campaign, view: Any, limits: DeviceLimits) -> RoundDocument | None:
    if view["state"] != "open":
        return None
    _refuse_numbers([view["document"]["options"], view["document"]["part"]], campaign.schema.d, limits)
    document = RoundDocument.from_document(view["document"], campaign)
    if document.hash != view["hash"] or document.number != view["number"]:
        raise CampaignError("campaign/changed", f"Round {document.number} is not the one that its collector says.")
    mechanism = document.mechanism
    if mechanism.takes != "every set":
        raise DeviceError(
            "device/mechanism", f"{mechanism.name} cannot take every record, so answering at all would tell."
        )
    if document.report_bytes > limits.report_bytes:
        raise DeviceError(
            "device/limits", f"A report of {document.report_bytes} bytes is larger than this device sends."
        )
    _refuse_unplanned(campaign, document)
    if document.cost > mechanism.epsilon:
        raise PrivacyError("privacy/exceeded", f"Round {document.number} tells more than the epsilon that it states.")
    if document.cost > campaign.protocol.epsilon:
        raise PrivacyError(
            "budget/exceeded",
            f"Round {document.number} costs more than the whole campaign ({decimal_text(campaign.protocol.epsilon)}).",
        )
    return document


def _refuse_unplanned(campaign: Campaign, document: RoundDocument) -> None:
    """Hold the collector to its protocol: answers may set announced options of later rounds, and nothing else."""
    protocol, number = campaign.protocol, document.number
    first = protocol.next_round([])
    course = protocol.course if number > 1 else (first,) if first is not None else ()
    if number > len(course):
        raise CampaignError("campaign/round", f"{campaign.protocol_name} has no round {number}.")
    declared = course[number - 1]
    if number == 1 or not protocol.announces:
        fits = RoundDocument.of(campaign, declared).hash == document.hash
    else:
        fits = document.mechanism.name in {kind.name for kind in protocol.kinds(number)}
    if not fits:
        raise CampaignError("campaign/round", f"Round {number} is not what {campaign.protocol_name} asks.")
    if number > 1:
        refuse_undeclared(protocol, replace(declared, mechanism=document.mechanism, part=document.part))


def _refuse_large(document: Any, limits: DeviceLimits) -> None:
    """Refuse sizes that are too large before anything of that size is made."""
    keys = document["schema"]["keys"]
    count = keys["count"] if isinstance(keys, dict) else len(keys) if isinstance(keys, list) else keys
    if count > limits.keys:
        raise DeviceError("device/limits", f"{count} keys are more than this device reads ({limits.keys}).")
    values = [document["schema"].get(name) for name in ("low", "high", "levels")]
    _refuse_numbers([*values, document["protocol"]], count, limits, max(2, _most_levels(values[-1])))


def _most_levels(levels: Any) -> int:
    """How many levels a key has at most, as a document spells them: for all keys, or for each."""
    if not isinstance(levels, list):
        return 0
    return max([len(levels)] if not any(isinstance(row, list) for row in levels) else map(_most_levels, levels))


def _refuse_numbers(part: Any, keys: int, limits: DeviceLimits, bins: int = 2) -> None:
    """``bins`` are the values that a report tells apart, of which a sign has two, unless an option says more."""
    pairs = 1
    for name, number in _numbers(part):
        if abs(number) > (limits.pairs if name in _PAIRS else limits.number):
            raise DeviceError("device/limits", f"{number} for {_called(name)} is more than this device computes.")
        pairs, bins = max(pairs, number * (name in _PAIRS)), max(bins, number * (name == "bins"))
    if keys * bins * pairs > limits.work:
        raise DeviceError(
            "device/limits", f"{pairs} pairs of {keys} keys with {bins} values each are more than this device computes."
        )


def _numbers(part: Any, name: str = "") -> Iterator[tuple[str, int]]:
    """The whole numbers in a document with their names; also those in a text, such as "ssr.max_pairs=3; ssr.bins=4"."""
    if isinstance(part, dict):
        for called, value in part.items():
            yield from _numbers(called, name)  # a law of set sizes may be an object of sizes
            yield from _numbers(value, called)
    elif isinstance(part, list):
        for value in part:
            yield from _numbers(value, name)
    elif isinstance(part, int):
        yield name, part
    elif isinstance(part, str):
        if _FAR.search(part):
            raise DeviceError("device/limits", f"The number in {_called(name)} is beyond what this device computes.")
        for entry in re.split("[;,]", part):
            option, equals, value = entry.rpartition("=")
            name = option.strip().rpartition(".")[2] if equals else name
            try:
                yield name, int(value.partition(":")[0])
            except ValueError:
                continue


def _called(name: str) -> str:
    return plain(name)[:80] or "a number"


def _get(transport: Transport, path: str, limits: DeviceLimits) -> bytes:
    answer = transport.request("GET", path, b"", {"Accept": "application/json"})
    if answer.status != 200:
        raise problem(answer) or TransportError("transport/status", f"The collector answered {answer.status}.")
    if len(answer.body) > limits.document_bytes:
        raise DeviceError("device/limits", f"The collector's document exceeds {limits.document_bytes} bytes.")
    return answer.body


def _view(body: bytes) -> dict[str, Any]:
    try:
        view = json.loads(body.decode(), object_pairs_hook=_once)
    except (ValueError, RecursionError):
        view = None
    if not isinstance(view, dict) or not {"campaign", "hash", "state", "round"} <= set(view):
        raise CampaignError("campaign/document", "The collector's answer is no campaign.")
    return view


def _once(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; one with a repeated name is refused, since readers do not agree which value counts."""
    made = dict(fields)
    if len(made) < len(fields):
        raise ValueError("a name stands twice")
    return made


class _Problem(msgspec.Struct):
    code: str
    detail: str = ""


_CODE = re.compile(r"[a-z0-9-]{1,40}/[a-z0-9-]{1,40}")


def problem(answer: HttpAnswer) -> KeyveilError | None:
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
