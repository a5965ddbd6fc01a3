"""Every refusal that leaves the collector, as a problem document (RFC 9457) with the code of its error.

``STATUS`` is the only place that turns codes into HTTP statuses; the longest prefix that fits decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match

from keyveil.collector import logs
from keyveil.core.errors import KeyveilError

log = logs.logger()

PROBLEM = "application/problem+json"

STATUS: Mapping[str, int] = {
    "": 422,  # a user's mistake unless something below says otherwise: schema/…, epsilon/…, campaign/…, report/…
    "access/": 401,
    "access/campaign": 403,
    "access/exists": 409,
    "access/form": 403,
    "access/invalid": 422,
    "access/no-token": 404,
    "access/role": 403,
    "campaign/ambiguous": 409,
    "campaign/exists": 409,
    "campaign/state": 409,
    "campaign/too-few": 409,
    "campaign/unknown": 404,
    "dictionary/unknown": 404,
    "enrolment/needed": 401,
    "enrolment/none": 409,
    "enrolment/revoked": 401,
    "enrolment/unknown": 401,
    "enrolment/used": 409,
    "entropy/": 500,
    "estimate/min-reports": 409,
    "install/": 501,
    "question/too-few": 409,
    "queue/": 429,
    "report/document": 409,
    "report/malformed": 400,
    "report/media-type": 415,
    "report/too-large": 413,
    "request/accept": 406,
    "request/malformed": 400,
    "request/method": 405,
    "request/not-found": 404,
    "request/slow": 408,
    "request/too-large": 413,
    "round/": 409,
    "round/unknown": 404,
    "server/": 500,
    "storage/": 503,
    "storage/conflict": 409,
    "tally/": 500,
}
RETRY_AFTER: Mapping[int, str] = {429: "1", 503: "5"}  # seconds
CHALLENGE = 'Bearer realm="keyveil"'

# What frameworks refuse before our code sees it.
_CODES = {400: "request/malformed", 404: "request/not-found", 405: "request/method"}
_SENTENCES = {
    400: "The request cannot be read.",
    404: "There is nothing at this address.",
    405: "This address does not take this method.",
    500: "The collector made a mistake; nothing of this request was kept.",
}


class Refusal(HTTPException):
    """A refusal that passes through the framework's own reading of bodies unharmed."""

    def __init__(self, code: str, sentence: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status_of(code), sentence, dict(headers or {}))
        self.code = code


def status_of(code: str) -> int:
    """The HTTP status of an error's code."""
    fitting = [prefix for prefix in STATUS if code == prefix or (prefix[-1:] in ("", "/") and code.startswith(prefix))]
    return STATUS[max(fitting, key=len)]


def problem(code: str, sentence: str, headers: Mapping[str, str] | None = None) -> Response:
    """The answer that tells a client what was wrong."""
    status = status_of(code)
    document = {
        "type": f"/problems/{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": sentence,
        "code": code,
    }
    told = dict(headers or {})
    if status in RETRY_AFTER:
        told["Retry-After"] = RETRY_AFTER[status]
    if status == HTTPStatus.UNAUTHORIZED:
        told["WWW-Authenticate"] = CHALLENGE
    return Response(msgspec.json.encode(document), status, told, PROBLEM)


def unexpected() -> Response:
    """The answer to a request on which the collector itself failed; it tells nothing about the inside."""
    return problem("server/error", _SENTENCES[500])


async def on_keyveil_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, KeyveilError)
    return of_keyveil_error(error)


def of_keyveil_error(error: KeyveilError) -> Response:
    """The answer for an error of ours; one that is the collector's own fault is logged."""
    if status_of(error.code) == HTTPStatus.INTERNAL_SERVER_ERROR:
        log.error("A request failed.", code=error.code, exc_info=error)
    return problem(error.code, error.sentence)


async def on_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if isinstance(error, Refusal):
        return problem(error.code, error.detail, error.headers)
    headers = dict(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = ", ".join(_allowed(request))
    code = _CODES.get(error.status_code, "server/error")
    return problem(code, _SENTENCES[status_of(code)], headers)


async def on_validation_error(_: Request, error: Exception) -> Response:
    """Which part of the request is wrong and how; what was sent is not repeated."""
    assert isinstance(error, RequestValidationError)
    first: Mapping[str, Any] = error.errors()[0]
    where = " ".join(str(part) for part in first["loc"])
    if first["type"] == "json_invalid":
        return problem("request/malformed", "The body is not JSON.")
    return problem("request/invalid", f"In {where}: {str(first['msg']).rstrip('.')}.")


def _allowed(request: Request) -> list[str]:
    """All methods of an address: it may be served by several routes."""
    routes = [route for route in request.app.routes if route.matches(request.scope)[0] is not Match.NONE]
    return sorted({method for route in routes for method in getattr(route, "methods", None) or ()})
