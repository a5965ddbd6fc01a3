"""A collector that tests hold in their hands: it serves what it is told to and remembers every byte that arrives."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from keyveil.campaign.documents import Campaign
from keyveil.campaign.rounds import RoundDocument
from keyveil.campaign.transport import NO_HEADERS, HttpAnswer
from keyveil.campaign.wire import JSON, Batch, from_json, from_packed
from keyveil.core.errors import TransportError
from keyveil.protocols.base import Round

SNACKS: dict[str, Any] = {
    "keyveil": 1,
    "name": "snack-survey",
    "purpose": "Which snacks people buy and how they rate them. Nobody sees your answers.",
    "schema": {"keys": ["burger", "fries", "pepsi"], "low": 1, "high": 5},
    "protocol": {"name": "kvue", "epsilon": "1"},
    "rounds": [{"enough": 200000}],
    "min_reports": 1000,
    "enrolment": "none",
    "retention_days": 30,
    "contact": "privacy@example.org",
}

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)

Behaviour = Callable[[Batch], HttpAnswer]
Request = tuple[str, str, tuple[tuple[str, str], ...], bytes]  # method, path, headers in their order, body


def document(**changes: Any) -> dict[str, Any]:
    return {**copy.deepcopy(SNACKS), **changes}


def later_round(campaign: Campaign, number: int, **announced: Any) -> Round:
    """A declared round of the campaign, with what a collector announces to it."""
    declared = campaign.protocol.course[number - 1]
    return replace(declared, mechanism=replace(declared.mechanism, **announced))


def view_of(campaign: Campaign, asked: RoundDocument | None) -> dict[str, Any]:
    """What an honest collector says about a campaign and its open round."""
    shown = None
    if asked is not None:
        shown = {"document": asked.document(), "hash": asked.hash, "number": asked.number, "state": "open"}
    return {"campaign": campaign.document(), "hash": campaign.hash, "state": "open", "round": shown}


def json_answer(content: Any, status: int = 200, **headers: str) -> HttpAnswer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return HttpAnswer(status, {"content-type": JSON, **named}, msgspec.json.encode(content))


def problem(status: int, code: str, **headers: str) -> HttpAnswer:
    content = {"type": f"/problems/{code}", "title": code, "status": status, "detail": "No.", "code": code}
    return json_answer(content, status, **{"content_type": "application/problem+json", **headers})


def accept(batch: Batch) -> HttpAnswer:
    return json_answer({"accepted": len(batch), "duplicates": 0, "refused": []})


def refuse(batch: Batch) -> HttpAnswer:
    refused = [{"id": public.hex(), "code": "report/malformed"} for public in batch.ids]
    return json_answer({"accepted": 0, "duplicates": 0, "refused": refused})


def lose_answer(batch: Batch) -> HttpAnswer:
    """The report arrives, the answer does not."""
    raise TransportError("transport/unreachable", "The connection broke.")


@dataclass
class Collector:
    """Stands in for the network and the service behind it."""

    views: dict[str, Any] = field(default_factory=dict)
    dictionaries: dict[str, bytes] = field(default_factory=dict)
    bodies: list[bytes] = field(default_factory=list)  # of all uploads, as they came
    headers: list[dict[str, str]] = field(default_factory=list)
    received: list[Batch] = field(default_factory=list)
    script: list[Behaviour] = field(default_factory=list)  # what to do with the next uploads; then accept all
    gets: int = 0
    requests: list[Request] = field(default_factory=list)  # everything that reached it, in order

    def open(self, made: dict[str, Any], asked: Round | None = None) -> Campaign:
        """Open a campaign at its first round, or at the one given."""
        campaign = Campaign.from_document(made)
        first = asked or campaign.protocol.next_round([])
        assert first is not None
        self.views[campaign.name] = view_of(campaign, RoundDocument.of(campaign, first))
        return campaign

    def request(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] = NO_HEADERS) -> HttpAnswer:
        *_, where, last = path.split("/")
        self.requests.append((method, path, tuple(sorted(headers.items())), body))
        if method == "GET":
            self.gets += 1
            if where == "dictionaries":
                return HttpAnswer(200, {}, self.dictionaries[last])
            view = self.views.get(last) or self._by_hash(last)
            if view is None:
                return problem(404, "campaign/unknown")
            return HttpAnswer(200, {}, view) if isinstance(view, bytes) else json_answer(view)
        self.bodies.append(body)
        self.headers.append(dict(headers))
        batch = from_json(body) if headers["Content-Type"] == JSON else from_packed(body)
        self.received.append(batch)
        return (self.script.pop(0) if self.script else accept)(batch)

    def _by_hash(self, digits: str) -> Any:
        views = (view for view in self.views.values() if isinstance(view, dict))
        return next((view for view in views if str(view["hash"]).startswith(digits)), None)

    @property
    def reports(self) -> list[tuple[bytes, bytes]]:
        return [report for batch in self.received for report in batch]


@dataclass
class Watch:
    """A clock that tests set."""

    now: datetime = NOON

    def __call__(self) -> datetime:
        return self.now

    def days_later(self, days: int) -> None:
        self.now += timedelta(days=days)


@dataclass
class Sleeper:
    """Sleeps in no time and remembers how long it would have been."""

    naps: list[float] = field(default_factory=list)

    def __call__(self, seconds: float) -> None:
        self.naps.append(seconds)
