"""Numbers for operators: how many requests and reports, how they ended, and how long things take.

Labels come from closed sets only: templates of routes, statuses, codes of errors, and names of campaigns that exist.
So nothing that a sender chooses can become a label. Each app has a registry of its own.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any, Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from keyveil.collector import logs
from keyveil.collector.problems import unexpected
from keyveil.core.errors import KeyveilError

_METHODS = frozenset(("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"))
_GROWING = ("commits", "commit_seconds", "failed_commits", "failed_folds")
_GONE = 499  # nginx's number for a client that did not wait for its answer
_FOLDED = "keyveil_last_fold"  # seconds on the machine's steady clock, which all of its processes share

SHARED = "PROMETHEUS_MULTIPROC_DIR"
"""Names the folder in which the workers of one port keep their numbers, so that each of them can tell the sum. The
library looks at it when it is loaded, so it has to be set before a worker starts."""

log = logs.logger()


class Numbers(Protocol):
    """What a collector knows about itself; see ``health.Health``."""

    def gauges(self) -> Mapping[str, float]:
        """All numbers, with those that need the database."""

    def own_gauges(self) -> Mapping[str, float]:
        """Those that can be told without it."""

    def failures(self) -> Mapping[str, int]:
        """How often the storage failed, by code."""


class Metrics:
    """The numbers of one app; or of all workers of one port, where these share a folder."""

    def __init__(self, numbers: Numbers) -> None:
        # They would show, to the microsecond, when the first report of a campaign came.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._numbers, self._folder = numbers, os.environ.get(SHARED)
        self._registry = registry = CollectorRegistry()
        self._requests = Counter("keyveil_requests", "Requests.", ["route", "method", "status"], registry=registry)
        self._seconds = Histogram(
            "keyveil_request_seconds", "Time from request to answer.", ["route"], registry=registry
        )
        self._reports = Counter(
            "keyveil_reports", "Reports, by what became of them.", ["campaign", "outcome"], registry=registry
        )
        self._refusals = Counter(
            "keyveil_refusals", "Refused reports or uploads, by reason.", ["campaign", "code"], registry=registry
        )
        self._durable = Histogram(
            "keyveil_upload_seconds", "Time from the first byte of an upload to its commit.", registry=registry
        )
        self._failures = Counter(
            "keyveil_storage_failures", "Failures of the storage, by reason.", ["code"], registry=registry
        )
        self._growing = {name: Counter(f"keyveil_{name}", _help(name), registry=registry) for name in _GROWING}
        self._waiting = Gauge(
            "keyveil_waiting_reports", _help("waiting_reports"), multiprocess_mode="livesum", registry=registry
        )
        self._folded = Gauge(_FOLDED, "When folding last went through.", multiprocess_mode="livemin", registry=registry)
        self._children: dict[tuple[Any, ...], Any] = {}  # by metric and labels, which come from closed sets
        self._published: dict[str, float] = {}
        self._publishing = threading.Lock()

    def request(self, route: str, method: str, status: int, seconds: float) -> None:
        told = method if method in _METHODS else "OTHER"
        self._child(self._requests, route, told, str(status)).inc()
        self._child(self._seconds, route).observe(seconds)

    def stored(self, campaign: str | None, accepted: int, duplicates: int, refused: list[str], seconds: float) -> None:
        """An upload that was committed."""
        campaign = campaign or ""
        for outcome, count in (("accepted", accepted), ("duplicate", duplicates), ("refused", len(refused))):
            if count:
                self._child(self._reports, campaign, outcome).inc(count)
        for code in refused:
            self._refusals.labels(campaign, code).inc()
        self._durable.observe(seconds)

    def refused(self, campaign: str | None, code: str) -> None:
        """An upload that was refused as a whole; without a name if there is no such campaign."""
        self._refusals.labels(campaign or "", code).inc()

    def _child(self, metric: Any, *labels: str) -> Any:
        """The number of a metric that has these labels, remembered: the library looks under a lock each time."""
        found = self._children.get((metric, *labels))
        if found is None:
            found = self._children[metric, *labels] = metric.labels(*labels)
        return found

    def publish(self) -> None:
        """Bring the numbers that this process keeps by itself to where every worker can read them."""
        own, failures = self._numbers.own_gauges(), self._numbers.failures()
        with self._publishing:
            for name, counter in self._growing.items():
                counter.inc(self._news(name, own[name]))
            for code, count in failures.items():
                self._failures.labels(code).inc(self._news(code, count))
            self._waiting.set(own["waiting_reports"])
            self._folded.set(time.monotonic() - own["fold_age_seconds"])

    def text(self) -> bytes:
        """All numbers as they are now; those of other workers as they were at their last tick."""
        self.publish()
        shown = CollectorRegistry()
        kept = self._registry if self._folder is None else MultiProcessCollector(None, self._folder)  # type: ignore[no-untyped-call]
        shown.register(_Together(kept, self._numbers))
        return generate_latest(shown)

    def _news(self, name: str, total: float) -> float:
        """By how much a number has grown since it was last published."""
        before, self._published[name] = self._published.get(name, 0), total
        return total - before


class _Together(Collector):
    """What workers have published, and what the service knows at the moment of a scrape."""

    def __init__(self, kept: Any, numbers: Numbers) -> None:
        self._kept, self._numbers = kept, numbers

    def collect(self) -> Iterator[Metric]:
        try:
            now = {**self._numbers.gauges(), "database_up": 1.0}
        except KeyveilError:  # what this process knows by itself is worth showing all the more
            now = {**self._numbers.own_gauges(), "database_up": 0.0}
        told = {f"keyveil_{name}": value for name, value in now.items()}
        for metric in self._kept.collect():
            told.pop(metric.name, None)  # it speaks for all workers
            told.pop(metric.name.removesuffix("_total"), None)
            if metric.name == _FOLDED:
                told["keyveil_fold_age_seconds"] = time.monotonic() - metric.samples[0].value
            else:
                yield metric
        for name, value in told.items():
            yield GaugeMetricFamily(name, _help(name.removeprefix("keyveil_")), value=value)

    def describe(self) -> list[Metric]:
        return []


def _help(name: str) -> str:
    return f"{name.replace('_', ' ').capitalize()}."


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
