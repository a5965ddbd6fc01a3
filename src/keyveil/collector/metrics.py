"""Numbers for operators: how many requests and reports, how they ended, and how long things take.

Labels come from closed sets only: templates of routes, statuses, codes of errors, and names of campaigns that exist.
So nothing that a sender chooses can become a label. Each app has a registry of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from keyveil.collector import logs
from keyveil.collector.problems import unexpected
from keyveil.core.errors import KeyveilError

_METHODS = frozenset(("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"))
_GROWING = frozenset(("commits", "commit_seconds", "failed_commits", "failed_folds"))  # of the gauges: only ever grow
_GONE = 499  # nginx's number for a client that did not wait for its answer

Gauges = Callable[[], Mapping[str, float]]

log = logs.logger()


class Metrics:
    """The counters of one app; ``gauges`` is called at every scrape, and ``own`` where those cannot be had."""

    def __init__(self, gauges: Gauges, own: Gauges = dict) -> None:
        # They would show, to the microsecond, when the first report of a campaign came.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        self._registry.register(_Gauges(gauges, own))
        self._requests = Counter(
            "keyveil_requests", "Requests.", ["route", "method", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "keyveil_request_seconds", "Time from request to answer.", ["route"], registry=self._registry
        )
        self._reports = Counter(
            "keyveil_reports", "Reports, by what became of them.", ["campaign", "outcome"], registry=self._registry
        )
        self._refusals = Counter(
            "keyveil_refusals", "Refused reports or uploads, by reason.", ["campaign", "code"], registry=self._registry
        )
        self._durable = Histogram(
            "keyveil_upload_seconds", "Time from the first byte of an upload to its commit.", registry=self._registry
        )

    def request(self, route: str, method: str, status: int, seconds: float) -> None:
        self._requests.labels(route, method if method in _METHODS else "OTHER", str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def stored(self, campaign: str | None, accepted: int, duplicates: int, refused: list[str], seconds: float) -> None:
        """An upload that was committed."""
        campaign = campaign or ""
        for outcome, count in (("accepted", accepted), ("duplicate", duplicates), ("refused", len(refused))):
            if count:
                self._reports.labels(campaign, outcome).inc(count)
        for code in refused:
            self._refusals.labels(campaign, code).inc()
        self._durable.observe(seconds)

    def refused(self, campaign: str | None, code: str) -> None:
        """An upload that was refused as a whole; without a name if there is no such campaign."""
        self._refusals.labels(campaign or "", code).inc()

    def text(self) -> bytes:
        return generate_latest(self._registry)


class _Gauges(Collector):
    """What the service knows at the moment of a scrape."""

    def __init__(self, gauges: Gauges, own: Gauges) -> None:
        self._gauges, self._own = gauges, own

    def collect(self) -> Iterator[Metric]:
        try:
            now = {**self._gauges(), "database_up": 1.0}
        except KeyveilError:  # what this process knows by itself is worth showing all the more
            now = {**self._own(), "database_up": 0.0}
        for name, value in now.items():
            family = CounterMetricFamily if name in _GROWING else GaugeMetricFamily
            yield family(f"keyveil_{name}", f"{name.replace('_', ' ').capitalize()}.", value=value)

    def describe(self) -> list[Metric]:
        return []


class Watch:
    """Middleware around the whole app: counts and times requests and adds the headers that all answers have.

    An unexpected exception becomes an answer that tells nothing about it, and a line in the log without request data.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begin, status = time.perf_counter(), 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                _complete(message["headers"])
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except ClientDisconnect:
            status = _GONE
        except Exception:
            log.error("A request failed unexpectedly.", route=_template(scope), exc_info=True)
            if status:
                raise  # the answer is under way and cannot be taken back; the server drops the connection
            status = HTTPStatus.INTERNAL_SERVER_ERROR
            await unexpected()(scope, receive, sending)
        finally:
            self._metrics.request(_template(scope), scope["method"], int(status), time.perf_counter() - begin)


def _complete(headers: list[tuple[bytes, bytes]]) -> None:
    headers.append((b"x-content-type-options", b"nosniff"))
    if not any(name == b"cache-control" for name, _ in headers):
        headers.append((b"cache-control", b"no-store"))


def _template(scope: Scope) -> str:
    """The route as it is written in the code; never the path of the request."""
    route: Any = scope.get("route")
    return str(getattr(route, "path", "other"))
