"""What a collection asks, why, at what price and until when: a document that never changes.

Devices show it to the person and hash it; the hash is its version, and every report says under which one it was made.
So it holds no floats, and has one canonical form (``core.canonical``). A long list of keys may lie beside it as a
*dictionary*, named by its own hash and fetched once.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Any

from keyveil.campaign.recurrence import FIELDS as RECURRENCE
from keyveil.campaign.recurrence import ONCE, Recurrence, read_day, read_recurrence, read_whole
from keyveil.core.canonical import canonical
from keyveil.core.epsilon import decimal_text, parse_epsilon
from keyveil.core.errors import CampaignError, KeyveilError
from keyveil.core.hints import did_you_mean
from keyveil.core.schema import Schema
from keyveil.mechanisms.registry import build
from keyveil.protocols.base import Protocol
from keyveil.protocols.catalogue import answered, unsuited
from keyveil.protocols.registry import as_protocol

VERSION = 1
NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
HASH_PREFIX = re.compile(
    r"[0-9a-f]{6,64}"
)  # the beginning of a campaign's hash, which commands and addresses take in place of its name
LONGEST_TEXT = 2000  # characters of a purpose: people are meant to read it
LARGEST = 1 << 20  # bytes of a document; longer lists of keys belong into a dictionary
MOST_RETENTION = 3650
MOST_ROUNDS = 1000
ENROLMENTS = ("none", "token")

_FIELDS = frozenset(
    ("keyveil", "name", "purpose", "schema", "protocol", "rounds", "min_reports", "enrolment", "retention_days")
) | {"contact", "reason", "browser", *RECURRENCE}
_NEEDED = frozenset(("keyveil", "name", "purpose", "schema", "protocol", "rounds"))

Fetch = Callable[[str], bytes]
"""Gives the dictionary with a hash."""


@dataclass(frozen=True)
class RoundWindow:
    """When a round takes reports: from a day on, until the end of a day, or until there are enough; all optional."""

    opens: date | None = None
    closes: date | None = None
    enough: int | None = None

    def __post_init__(self) -> None:
        if self.opens and self.closes and self.closes < self.opens:
            raise CampaignError("campaign/dates", f"A round cannot close on {self.closes} before it opens.")
        if self.enough is not None and self.enough < 1:
            raise CampaignError("campaign/enough", f"Enough reports are at least one, not {self.enough}.")

    def document(self) -> dict[str, Any]:
        named = {"opens": self.opens, "closes": self.closes}
        days = {name: day.isoformat() for name, day in named.items() if day is not None}
        return days if self.enough is None else {**days, "enough": self.enough}


@dataclass(frozen=True, repr=False)
class Campaign:
    """One collection: the question, the price, the windows of its rounds, and what happens to the reports."""

    name: str
    purpose: str
    schema: Schema
    protocol: Protocol
    protocol_name: str  # as the document has it; a mechanism's name where there is one round
    options: Mapping[str, Any]
    rounds: tuple[RoundWindow, ...]
    min_reports: int = 1000
    enrolment: str = "none"
    retention_days: int = 30
    contact: str = ""
    reason: str = ""  # why this mechanism, where it was chosen by a plan
    recurrence: Recurrence = ONCE
    dictionary: str | None = None  # hash of the list of keys, if that lies beside the document
    browser: bool = False  # whether devices may answer whose storage does not last, as that of browsers

    def __repr__(self) -> str:
        return f"Campaign({self.name}, {self.hash[:8]}…)"

    def window(self, number: int) -> RoundWindow:
        """The window of a round; rounds beyond the list take the last one's ``enough`` and have no dates."""
        if number <= len(self.rounds):
            return self.rounds[number - 1]
        return RoundWindow(enough=self.rounds[-1].enough)

    @property
    def dates(self) -> tuple[date, date] | None:
        """The first and the last day on which it may ask anything, if every window names both."""
        opens, last = [window.opens for window in self.rounds if window.opens], self.until
        return None if last is None or len(opens) < len(self.rounds) else (min(opens), last)

    @property
    def until(self) -> date | None:
        """The last day on which it may ask anything, if every window names one."""
        days = [window.closes for window in self.rounds if window.closes]
        return max(days) if len(days) == len(self.rounds) else None

    def document(self) -> dict[str, Any]:
        """The campaign as JSON without floats."""
        schema = self.schema.document()
        if self.dictionary is not None:
            schema["keys"] = {"sha256": self.dictionary, "count": len(schema["keys"])}
        return {
            "keyveil": VERSION,
            "name": self.name,
            "purpose": self.purpose,
            "schema": schema,
            "protocol": {"name": self.protocol_name, "epsilon": decimal_text(self.protocol.epsilon), **self.options},
            "rounds": [window.document() for window in self.rounds],
            "min_reports": self.min_reports,
            "enrolment": self.enrolment,
            "retention_days": self.retention_days,
            "contact": self.contact,
            **({"reason": self.reason} if self.reason else {}),  # documents without one keep their hash
            **({"browser": True} if self.browser else {}),
            **self.recurrence.document(),
        }

    @cached_property
    def answers(self) -> tuple[str, ...]:
        """The kinds of questions that the collection will be able to answer (``mechanisms.questions.ASKABLE``)."""
        return answered(self.protocol)

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the canonical document, in hex: the campaign's version."""
        return hashlib.sha256(canonical(self.document())).hexdigest()

    @cached_property
    def terms(self) -> str:
        """SHA-256 of the document without its dates, in hex: what the campaigns of a series have in common."""
        lasting = {**self.document(), "rounds": [window.enough for window in self.rounds]}
        return hashlib.sha256(canonical(lasting)).hexdigest()

    def answers_to(self, text: str) -> bool:
        """Whether a text names this campaign: by its name, by its hash, or by the first six or more digits of it."""
        return text == self.name or (HASH_PREFIX.fullmatch(text) is not None and self.hash.startswith(text))

    @classmethod
    def from_document(cls, document: Any, fetch: Fetch | None = None) -> Campaign:
        """The campaign that a document describes, refused with the first thing that is wrong."""
        fields = _fields(document)
        schema, dictionary = _schema(fields["schema"], fetch)
        protocol_name, epsilon, options = _protocol(fields["protocol"])
        protocol = as_protocol(build(protocol_name, schema, parse_epsilon(epsilon), options))
        browser = _browser(fields)
        if browser and protocol.single is not None:
            options = protocol.single.options  # such devices search nothing: the document names what was chosen
        campaign = cls(
            name=_name(fields["name"]),
            purpose=_text(fields["purpose"], "purpose", needed=True),
            schema=schema,
            protocol=protocol,
            protocol_name=protocol_name,
            options=options,
            rounds=_windows(fields["rounds"]),
            min_reports=read_whole(fields.get("min_reports", 1000), "min_reports", 1, 1 << 40),
            enrolment=_one_of(fields.get("enrolment", "none"), "enrolment", ENROLMENTS),
            retention_days=read_whole(fields.get("retention_days", 30), "retention_days", 0, MOST_RETENTION),
            contact=_text(fields.get("contact", ""), "contact"),
            reason=_text(fields.get("reason", ""), "reason"),
            recurrence=read_recurrence(fields),
            dictionary=dictionary,
            browser=browser,
        )
        refuse_impossible_series(campaign.recurrence, campaign.protocol, campaign.rounds)
        return campaign


def dictionary_of(keys: Sequence[str]) -> bytes:
    """The bytes of a list of keys that lies beside a document; its SHA-256 is its name."""
    return canonical(list(keys))


def refuse_unanswerable(name: str, protocol: Protocol) -> None:
    """Refuse a mechanism that cannot take every record, as devices do: a missing report would tell."""
    choosy = unsuited(protocol)
    if choosy is not None:
        takes = {"one key": "exactly one key", "every key": "a value for every key"}.get(choosy.takes, choosy.takes)
        raise _refused(
            "unanswerable",
            f"No device would answer {name}: it needs {takes} of everybody, so that answering at all would tell. "
            "Key-value mechanisms such as ssr or kvue take every record.",
        )


def refuse_impossible_series(recurrence: Recurrence, protocol: Protocol, rounds: Sequence[RoundWindow]) -> None:
    """Refuse what cannot be repeated so: periods of several rounds, and a rhythm without dates or shorter than one."""
    if recurrence.renew_days is not None and protocol.single is None:
        raise _refused(
            "periods",
            "A report that stands for a period belongs to a mechanism of one round (or split); "
            f"{protocol.name} has rounds that depend on earlier ones.",
        )
    if recurrence.every_days is None:
        return
    opens, closes = ([getattr(one, end) for one in rounds] for end in ("opens", "closes"))
    if None in opens or None in closes:
        raise _refused(
            "every", "A campaign that returns every so many days names the first and last day of each round."
        )
    if (max(closes) - min(opens)).days >= recurrence.every_days:
        raise _refused("every", f"A campaign that returns every {recurrence.every_days} days cannot last longer.")
    if recurrence.series_until is not None and max(closes) > recurrence.series_until:
        raise _refused("every", f"The series ends on {recurrence.series_until}, before this campaign does.")


def problems(document: Any, fetch: Fetch | None = None) -> list[KeyveilError]:
    """Everything that is wrong with a document, not only the first thing."""
    found: list[KeyveilError] = []

    def attempt(step: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return step(*arguments)
        except KeyveilError as refused:
            found.append(refused)
            return None

    if attempt(_object, document) is None:
        return found
    for step in (_small, _version, _complete, _nothing_else):
        attempt(step, document)
    checks: dict[str, tuple[Any, ...]] = {
        "name": (_name,),
        "purpose": (_text, "purpose", True),
        "rounds": (_windows,),
        "min_reports": (read_whole, "min_reports", 1, 1 << 40),
        "enrolment": (_one_of, "enrolment", ENROLMENTS),
        "retention_days": (read_whole, "retention_days", 0, MOST_RETENTION),
        "contact": (_text, "contact"),
        "reason": (_text, "reason"),
    }
    for name, (step, *arguments) in checks.items():
        if name in document:
            attempt(step, document[name], *arguments)
    attempt(_browser, document)
    recurrence = attempt(read_recurrence, document)
    schema = attempt(_schema, document["schema"], fetch) if "schema" in document else None
    protocol = attempt(_protocol, document["protocol"]) if "protocol" in document else None
    if schema and protocol:
        name, epsilon, options = protocol
        made = attempt(build, name, schema[0], epsilon, options)
        if made is not None:
            attempt(refuse_unanswerable, name, as_protocol(made))
        if made is not None and recurrence is not None and not found:
            attempt(refuse_impossible_series, recurrence, as_protocol(made), _windows(document["rounds"]))
    return found


def _fields(document: Any) -> dict[str, Any]:
    fields = _object(document)
    for check in (_small, _version, _complete, _nothing_else):
        check(fields)
    return fields


def _object(document: Any) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise _refused("document", f"A campaign is a JSON object, not a {type(document).__name__}.")
    return document


def _small(document: dict[str, Any]) -> None:
    if len(canonical(document)) > LARGEST:
        raise _refused("document", f"A campaign has at most {LARGEST} bytes; put long lists of keys beside it.")


def _version(document: dict[str, Any]) -> None:
    if document.get("keyveil") != VERSION or isinstance(document.get("keyveil"), bool):
        raise _refused("version", f'A campaign of this version says "keyveil": {VERSION}.')


def _complete(document: dict[str, Any]) -> None:
    if missing := _NEEDED - {"keyveil"} - set(document):
        raise _refused("document", f"The campaign lacks {', '.join(sorted(missing))}.")


def _nothing_else(document: dict[str, Any]) -> None:
    if strange := set(document) - _FIELDS:
        hint = did_you_mean(min(strange, key=str), _FIELDS)
        raise _refused("document", f"A campaign has no {', '.join(sorted(map(repr, strange)))}{hint}.")


def _schema(document: Any, fetch: Fetch | None) -> tuple[Schema, str | None]:
    keys = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(keys, dict):
        return Schema.from_document(document), None
    name, count = keys.get("sha256"), keys.get("count")
    if set(keys) != {"sha256", "count"} or not isinstance(name, str) or not isinstance(count, int):
        raise _refused("dictionary", "A list of keys beside the document has a sha256 and a count.")
    if fetch is None:
        raise _refused("dictionary", f"The list of keys {name[:8]}… is needed to read this campaign.")
    return Schema.from_document({**document, "keys": _dictionary(fetch(name), name, count)}), name


def _dictionary(data: bytes, name: str, count: int) -> list[str]:
    import msgspec

    if hashlib.sha256(data).hexdigest() != name:
        raise _refused("dictionary", f"The list of keys is not the one that the campaign names ({name[:8]}…).")
    try:
        keys = msgspec.json.decode(data, type=list[str])
    except msgspec.DecodeError:
        raise _refused("dictionary", "A list of keys is a JSON list of names.") from None
    if len(keys) != count:
        raise _refused("dictionary", f"The list has {len(keys)} keys, but the campaign says {count}.")
    return keys


def _protocol(document: Any) -> tuple[str, str, dict[str, Any]]:
    if not isinstance(document, dict) or not {"name", "epsilon"} <= set(document):
        raise _refused("protocol", "A campaign's protocol has a name and an epsilon.")
    options = {name: value for name, value in document.items() if name not in ("name", "epsilon")}
    if not isinstance(document["name"], str) or not isinstance(document["epsilon"], str):
        raise _refused("protocol", "The protocol's name is a string, and so is its epsilon (exact decimal).")
    if document["name"] == "auto":
        raise _refused("protocol", "A campaign names a concrete mechanism, not auto.")
    return document["name"], document["epsilon"], options


def _windows(document: Any) -> tuple[RoundWindow, ...]:
    if not isinstance(document, list) or not 1 <= len(document) <= MOST_ROUNDS:
        raise _refused("rounds", f"A campaign lists 1 to {MOST_ROUNDS} rounds.")
    windows = tuple(_window(one) for one in document)
    last: date | None = None
    for window in windows:
        if last and window.opens and window.opens < last:
            raise _refused("dates", f"A round opens on {window.opens}, before the one before it has closed.")
        last = window.closes or last
    return windows


def _window(document: Any) -> RoundWindow:
    if not isinstance(document, dict) or not set(document) <= {"opens", "closes", "enough"}:
        raise _refused("rounds", "A round has opens, closes and enough, each of them if wanted.")
    enough = document.get("enough")
    if enough is not None:
        read_whole(enough, "enough", 1, 1 << 40)
    return RoundWindow(read_day(document.get("opens")), read_day(document.get("closes")), enough)


def _name(given: Any) -> str:
    if not isinstance(given, str) or not NAME.fullmatch(given):
        raise _refused(
            "name", f"A campaign's name has up to 64 of a-z, 0-9 and '-', such as snack-survey, not {given!r}."
        )
    return given


def _text(given: Any, what: str, needed: bool = False) -> str:
    if not isinstance(given, str) or len(given) > LONGEST_TEXT or (needed and not given.strip()):
        raise _refused(what, f"The {what} is a text of at most {LONGEST_TEXT} characters that people can read.")
    return given


def _one_of(given: Any, what: str, among: Sequence[str]) -> str:
    if given not in among:
        raise _refused(what, f"{what} is {' or '.join(among)}, not {given!r}.")
    return str(given)


def _browser(fields: Mapping[str, Any]) -> bool:
    if "browser" in fields and fields["browser"] is not True:
        raise _refused("browser", "browser is true where storage may be forgotten, and left out otherwise.")
    return "browser" in fields


def _refused(code: str, sentence: str) -> CampaignError:
    return CampaignError(f"campaign/{code}", sentence)
