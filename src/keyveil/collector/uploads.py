"""The route for uploads: the one that must be fast, so its bodies are decoded without the framework.

Bodies are cut off at their limit while they stream in; then the whole request waits for one commit. Whatever is
refused is counted under its code, so that an operator sees why devices fail, but not which ones.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

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
from keyveil.collector.mailbox import Mailbox
from keyveil.collector.metrics import Metrics, Watch
from keyveil.collector.problems import Refusal, of_keyveil_error
from keyveil.collector.protocol import WHOLE
from keyveil.collector.storing import UploadResult
from keyveil.core.errors import CampaignError, KeyveilError, ReportError, StorageError

if TYPE_CHECKING:
    from keyveil.collector.service import Service

DICTIONARIES = "/v1/dictionaries/"

_SMALL = 1 << 14  # bytes of a body that is decoded and checked at once: less than a millisecond
_HEAVY = 1 << 18  # bytes of a body that has the few threads for large ones
_UPLOAD_THREADS = 6  # of their own, so that slow questions of analysts do not hold up devices;
_HEAVY_THREADS = 2  # others for large uploads, so that these do not hold up small ones
_MOST_WAITING = 64  # bodies that wait for a thread

# Refusals that are counted without a campaign's name: there is none, or a look into the database would cost too much.
_NAMELESS = ("campaign/unknown", "campaign/ambiguous", "storage/", "queue/")

_DECODERS: dict[str, Callable[[bytes], Batch]] = {JSON: from_json, PACKED: from_packed}
_FORMS = frozenset(("", "charset=utf-8"))  # parameters of a media type that change nothing
_ACCEPTED = b'{"accepted":%d,"duplicates":0,"refused":[]}'
_TYPE = (b"content-type", JSON.encode())


class Uploads:
    """Takes bodies of uploads to the disk: decoded, checked, queued, and answered after their commit."""

    def __init__(self, service: Service, metrics: Metrics) -> None:
        self._service, self._metrics = service, metrics
        self._lane, self._heavy_lane = Lane(_UPLOAD_THREADS), Lane(_HEAVY_THREADS)
        self._mailbox: Mailbox[UploadResult] = Mailbox()

    async def take(self, name: str, headers: Mapping[bytes, bytes], body: bytes) -> bytes:
        """Store the reports of a body; the document of the answer, or the error that refuses all of it."""
        if not NAME.fullmatch(name):
            raise no_such_campaign(name)
        service, metrics, size = self._service, self._metrics, len(body)
        lane = self._heavy_lane if size > _HEAVY else self._lane
        begin, token = time.perf_counter(), _token(headers)
        small = size <= _SMALL  # then a thread would cost more than the work
        try:
            decode = _decoder(headers)
            _refuse_when_busy(lane, service)  # before any work goes into it: a refusal must be cheap
            batch = decode(body) if small else await lane.run(name, size, lambda: decode(body))
        except StorageError as refused:
            metrics.refused(None, refused.code)
            raise
        except KeyveilError as refused:
            await self.count(name, refused.code)
            raise
        try:
            if small and service.remembers(name, batch.document):
                queued = service.submit(name, batch, token)
            else:  # long decoding or a query would block all other requests
                queued = await lane.run(name, size, lambda: service.submit(name, batch, token))
            label = _label(service, name)  # submit has just read the campaign: no look into the database
            answer = await self._mailbox.outcome(queued)  # a client that goes does not disturb the commit
        except KeyveilError as refused:
            nameless = refused.code.startswith(_NAMELESS)
            known = None if nameless else await lane.run(name, size, lambda: _label(service, name))
            metrics.refused(known, refused.code)
            raise
        codes = [code for _, code in answer.refused]
        metrics.stored(label, answer.accepted, answer.duplicates, codes, time.perf_counter() - begin)
        if not codes and not answer.duplicates:
            return _ACCEPTED % answer.accepted
        refused_ids = [{"id": number.hex(), "code": code} for number, code in answer.refused]
        return msgspec.json.encode(
            {"accepted": answer.accepted, "duplicates": answer.duplicates, "refused": refused_ids}
        )

    async def count(self, name: str, code: str) -> None:
        """Count a refusal that never reached the service; does nothing where that is not possible."""

        def note() -> str | None:
            self._service.refused(name, code)
            return _label(self._service, name)

        self._metrics.refused(await run_in_threadpool(note), code)


async def upload(request: Request) -> Response:
    """``POST /v1/campaigns/{name}/reports`` by way of the framework: bodies in several pieces, and refused ones."""
    uploads: Uploads = request.app.state.uploads
    name: str = request.path_params["name"]
    if not NAME.fullmatch(name):
        raise no_such_campaign(name)
    headers = _headers(request.scope)
    try:
        _decoder(headers)  # what cannot be read is not waited for
        body = await request.body()
    except (KeyveilError, Refusal) as refused:
        await uploads.count(name, refused.code)
        raise
    return Response(await uploads.take(name, headers, body), media_type=JSON)


class DirectUploads:
    """The upload route in front of the framework, for bodies that arrive in one piece and are not too long.

    Most do. The framework's layers would cost more than everything else that is done for a single report. Whatever is
    not ordinary goes the long way through ``app``, with what was received so far, and is refused there.
    """

    def __init__(self, app: ASGIApp, uploads: Uploads, metrics: Metrics, limits: BodyLimits, route: Route) -> None:
        self._app, self._uploads, self._limits, self._route = app, uploads, limits, route
        self._watched = Watch(self._answer, metrics)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        place = _PLACE.fullmatch(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if place is None:
            await self._app(scope, receive, send)
            return
        scope[DEADLINE] = time.monotonic() + self._limits.seconds
        first = await receive() if WHOLE in scope else await _in_time(receive, self._limits.seconds)
        if first is None or not self._limits.fit(first, _declared(scope)):
            await self._app(scope, receive if first is None else _again(first, receive), send)
            return
        scope["route"], scope["path_params"], scope[_BODY] = self._route, place.groupdict(), first.get("body", b"")
        await self._watched(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        body: bytes = scope[_BODY]
        self._limits.held += len(body)
        try:
            document = await self._uploads.take(scope["path_params"]["name"], _headers(scope), body)
        except KeyveilError as refused:
            await of_keyveil_error(refused)(scope, receive, send)
            return
        finally:
            self._limits.held -= len(body)
        length = (b"content-length", str(len(document)).encode())
        await send({"type": "http.response.start", "status": 200, "headers": [length, _TYPE]})
        await send({"type": "http.response.body", "body": document})


async def _in_time(receive: Receive, seconds: float) -> Message | None:
    """The next part of a body; nothing if the time is up, which is told where the whole is refused."""
    try:
        async with asyncio.timeout(seconds):
            return await receive()
    except TimeoutError:
        return None


_PLACE = re.compile(r"/v1/campaigns/(?P<name>[^/]+)/reports")
_BODY = "keyveil.body"
DEADLINE = "keyveil.deadline"
"""Where a request says by when its body must be here, if it has waited before ``Bounded`` sees it."""


def _again(first: Message, receive: Receive) -> Receive:
    """What was received already, and then the rest."""
    before = [first]

    async def receiving() -> Message:
        return before.pop() if before else await receive()

    return receiving


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


@dataclass
class BodyLimits:
    """How long bodies may be, how long they may take, and how much memory those of all requests take together."""

    most: int
    most_of_dictionaries: int
    together: int
    seconds: float
    held: int = 0  # bytes of bodies of requests under way

    def fit(self, message: Message, declared: int) -> bool:
        """Whether a message is a whole body within all limits."""
        size = len(message.get("body", b""))
        whole = message["type"] == "http.request" and not message.get("more_body", False)
        return whole and max(size, declared) <= self.most and self.held + size <= self.together

    def refusal(self, size: int, most: int) -> tuple[str, str] | None:
        """Code and sentence of the refusal of a body that has at least ``size`` bytes; nothing if it may go on."""
        if size > most:
            return "request/too-large", f"A body has at most {most} bytes here."
        if self.held > self.together:
            return "queue/full", "The collector is busy; send the same again a little later."
        return None


class Bounded:
    """Middleware that refuses bodies that are too long, arrive too slowly, or exceed a total over all requests.

    So the memory that unknown clients can take is bounded, however many there are.
    """

    def __init__(self, app: ASGIApp, limits: BodyLimits) -> None:
        self._app, self._limits = app, limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limits = self._limits
        most = limits.most_of_dictionaries if scope["path"].startswith(DICTIONARIES) else limits.most
        deadline = scope.get(DEADLINE) or time.monotonic() + limits.seconds
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
                    limits.held += piece
                    whole = not message.get("more_body", False)
                    refused = limits.refusal(max(size, declared), most)
                    if refused is not None:
                        whole = whole or await _drained(receive, _DRAINED * most)
                        raise Refusal(*refused, {} if whole else _CLOSE)
            except TimeoutError:
                raise Refusal("request/slow", "The body did not arrive in time.", _CLOSE) from None
            return message

        try:
            await self._app(scope, receiving, send)
        finally:
            limits.held -= size


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


def _headers(scope: Scope) -> dict[bytes, bytes]:
    """The headers by name; of several with one name the first."""
    return dict(reversed(scope["headers"]))


def _decoder(headers: Mapping[bytes, bytes]) -> Callable[[bytes], Batch]:
    media_type, _, parameters = headers.get(b"content-type", b"").decode("latin-1").partition(";")
    found = _DECODERS.get(media_type.strip().lower())
    encoded = headers.get(b"content-encoding", b"identity").lower() != b"identity"
    if found is None or encoded or parameters.strip().lower() not in _FORMS:
        raise ReportError("report/media-type", f"Reports come as {JSON} or {PACKED}, not compressed.")
    return found


def _token(headers: Mapping[bytes, bytes]) -> str | None:
    told = headers.get(b"authorization")
    return None if told is None else bearer_token(told.decode("latin-1"))


def _label(service: Service, name: str) -> str | None:
    """What metrics call a campaign, whether it was named or given by its hash; nothing if there is none."""
    try:
        return service.own_name(name)
    except KeyveilError:
        return None
