"""The route for uploads: the one that must be fast, so its bodies are decoded without the framework.

Bodies are cut off at their limit while they stream in; then the whole request waits for one commit. Whatever is
refused is counted under its code, so that an operator sees why devices fail, but not which ones.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from keyveil.campaign.documents import NAME
from keyveil.campaign.wire import JSON, PACKED, Batch, from_json, from_packed
from keyveil.collector.access import bearer_token
from keyveil.collector.lanes import Lane
from keyveil.collector.metrics import Metrics
from keyveil.collector.problems import Refusal
from keyveil.core.errors import CampaignError, KeyveilError, ReportError, StorageError

if TYPE_CHECKING:
    from keyveil.collector.service import Service

DICTIONARIES = "/v1/dictionaries/"

T = TypeVar("T")

_SMALL = 4096  # bytes of a body that is decoded at once
_HEAVY = 1 << 18  # bytes of a body that has the few threads for large ones
_MOST_WAITING = 64  # bodies that wait for a thread

# Refusals that are counted without a campaign's name: there is none, or a look into the database would cost too much.
_NAMELESS = ("campaign/unknown", "campaign/ambiguous", "storage/", "queue/")

_DECODERS: dict[str, Callable[[bytes], Batch]] = {JSON: from_json, PACKED: from_packed}


async def upload(request: Request) -> Response:
    """``POST /v1/campaigns/{name}/reports``."""
    service: Service = request.app.state.service
    metrics: Metrics = request.app.state.metrics
    name: str = request.path_params["name"]
    if not NAME.fullmatch(name):
        raise no_such_campaign(name)
    begin, token = time.perf_counter(), _token(request)
    body = b""

    async def in_lane(step: Callable[[], T]) -> T:
        """Run a step in a thread: long decoding or a query would block all other requests."""
        return await _lane(request, len(body)).run(name, len(body), step)

    try:
        decode, body = _decoder(request), await request.body()
        _refuse_when_busy(_lane(request, len(body)), service)  # before any work goes into it: a refusal must be cheap
        small = len(body) <= _SMALL  # then a thread would cost more than the work
        batch = decode(body) if small else await in_lane(lambda: decode(body))
    except StorageError as refused:
        metrics.refused(None, refused.code)
        raise
    except (KeyveilError, Refusal) as refused:
        await _count(service, metrics, name, refused.code)
        raise
    try:
        at_once = small and service.remembers(name, batch.document)
        queued = (
            service.submit(name, batch, token) if at_once else await in_lane(lambda: service.submit(name, batch, token))
        )
        label = _label(service, name)  # submit has just read the campaign: no look into the database
        answer = await asyncio.shield(asyncio.wrap_future(queued))  # a client that goes must not disturb the commit
    except KeyveilError as refused:
        nameless = refused.code.startswith(_NAMELESS)
        metrics.refused(None if nameless else await in_lane(lambda: _label(service, name)), refused.code)
        raise
    codes = [code for _, code in answer.refused]
    metrics.stored(label, answer.accepted, answer.duplicates, codes, time.perf_counter() - begin)
    document = {
        "accepted": answer.accepted,
        "duplicates": answer.duplicates,
        "refused": [{"id": number.hex(), "code": code} for number, code in answer.refused],
    }
    return Response(msgspec.json.encode(document), media_type=JSON)


def _lane(request: Request, size: int) -> Lane:
    """The threads for a body of so many bytes."""
    lane: Lane = request.app.state.heavy_lane if size > _HEAVY else request.app.state.lane
    return lane


def _refuse_when_busy(lane: Lane, service: Service) -> None:
    """Refuse an upload that would wait too long for the disk, or for a thread that decodes it."""
    service.writer.refuse_when_full()
    if lane.waiting >= _MOST_WAITING:
        raise StorageError("queue/full", "The collector is busy; send the same reports again a little later.")


class UploadRoute(Route):
    """A route past the framework that is still known by its template in the metrics."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        match, found = super().matches(scope)
        return match, found if match is Match.NONE else {**found, "route": self}


def no_such_campaign(name: str) -> CampaignError:
    return CampaignError("campaign/unknown", f"There is no campaign {name[:64]!r}.")


class Bounded:
    """Middleware that refuses bodies that are too long, arrive too slowly, or exceed a total over all requests.

    So the memory that unknown clients can take is bounded, however many there are.
    """

    def __init__(self, app: ASGIApp, most: int, most_of_dictionaries: int, together: int, seconds: float) -> None:
        self._app, self._most, self._dictionaries = app, most, most_of_dictionaries
        self._together, self._seconds = together, seconds
        self._held = 0  # bytes of bodies of requests under way

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        most = self._dictionaries if scope["path"].startswith(DICTIONARIES) else self._most
        deadline = time.monotonic() + self._seconds
        declared, size, whole = _declared(scope), 0, False

        async def receiving() -> Message:
            nonlocal size, whole
            if whole:
                return await receive()  # from here on it only waits for the client to disconnect
            try:
                async with asyncio.timeout(deadline - time.monotonic()):
                    message = await receive()
                    piece = len(message.get("body", b""))
                    size += piece
                    self._held += piece
                    whole = not message.get("more_body", False)
                    refused = self._refusal(max(size, declared), most)
                    if refused is not None:
                        whole = whole or await _drained(receive, _DRAINED * most)
                        raise Refusal(*refused, {} if whole else _CLOSE)
            except TimeoutError:
                raise Refusal("request/slow", "The body did not arrive in time.", _CLOSE) from None
            return message

        try:
            await self._app(scope, receiving, send)
        finally:
            self._held -= size

    def _refusal(self, size: int, most: int) -> tuple[str, str] | None:
        """Code and sentence of the refusal of a body that has at least ``size`` bytes; nothing if it may go on."""
        if size > most:
            return "request/too-large", f"A body has at most {most} bytes here."
        if self._held > self._together:
            return "queue/full", "The collector is busy; send the same again a little later."
        return None


_CLOSE = {"Connection": "close"}  # there may be more of the body on its way
_DRAINED = 4  # times the limit: what is read of a body that is refused, and thrown away


async def _drained(receive: Receive, most: int) -> bool:
    """Read on to the end of a refused body, up to a limit: many clients read an answer only after they sent all."""
    drained = 0
    while drained < most:
        message = await receive()
        drained += len(message.get("body", b""))
        if not message.get("more_body", False):
            return True
    return False


def _declared(scope: Scope) -> int:
    length = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
    return int(length) if length.isdigit() else 0


def _decoder(request: Request) -> Callable[[bytes], Batch]:
    media_type, _, parameters = request.headers.get("content-type", "").partition(";")
    found = _DECODERS.get(media_type.strip().lower())
    encoded = request.headers.get("content-encoding", "identity").lower() != "identity"
    if found is None or encoded or parameters.strip().lower() not in ("", "charset=utf-8"):
        raise ReportError("report/media-type", f"Reports come as {JSON} or {PACKED}, not compressed.")
    return found


def _token(request: Request) -> str | None:
    return bearer_token(request.headers.get("authorization"))


async def _count(service: Service, metrics: Metrics, name: str, code: str) -> None:
    """Count a refusal that never reached the service; does nothing where that is not possible."""

    def note() -> str | None:
        service.refused(name, code)
        return _label(service, name)

    metrics.refused(await run_in_threadpool(note), code)


def _label(service: Service, name: str) -> str | None:
    """What metrics call a campaign, whether it was named or given by its hash; nothing if there is none."""
    try:
        return service.own_name(name)
    except KeyveilError:
        return None
