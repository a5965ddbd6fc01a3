"""The collector over HTTP: the table of routes, and the middleware around all of them."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.metadata import version
from typing import Any

from fastapi import Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.routing import Match, Mount
from starlette.types import ASGIApp, Receive, Scope, Send

from keyveil.campaign.wire import JSON
from keyveil.collector import endpoints, logs, models, problems
from keyveil.collector.access import AccessControl, admin, admin_of_all, analyst
from keyveil.collector.client_files import add_client_files
from keyveil.collector.cors import SharedWithPages
from keyveil.collector.metrics import Metrics, Watch
from keyveil.collector.reference_pages import add_reference_pages
from keyveil.collector.service import Service
from keyveil.collector.settings import Settings
from keyveil.collector.uploads import DICTIONARIES, BodyLimits, Bounded, DirectUploads, UploadRoute, Uploads, upload
from keyveil.core.errors import KeyveilError

ALL = "/v1/campaigns"
ONE = ALL + "/{name}"
LIST = DICTIONARIES + "{sha256}"
TOKENS = "/v1/tokens"
ROOT = "/"  # pages at every address that is not of the API

Mounts = Mapping[str, ASGIApp]  # path -> app
NO_PAGES: Mounts = {}

Who = tuple[str, Sequence[Any]]  # in words, and dependencies that refuse everybody else
EVERYBODY: Who = ("everybody", ())
ANALYSTS: Who = ("analysts", (Depends(analyst),))
ADMINS: Who = ("admins", (Depends(admin),))
ADMINS_OF_ALL: Who = ("admins of all campaigns", (Depends(admin_of_all),))

log = logs.logger()


def make_app(service: Service, settings: Settings, pages: Mounts = NO_PAGES) -> FastAPI:
    """The app of one service; while it runs it also calls ``service.tick`` now and then; it is closed by the caller.

    ``pages`` are other ASGI apps by the path below which they answer, such as ``{"/dashboard": app}``; those at ``/``
    answer wherever the API has nothing. They have the
    limits, metrics and headers of the API; who may see them is for them to check, and their lifespan is not run.
    """
    metrics = Metrics(service.health)
    app = _Collector(
        title="Keyveil collector",
        version=version("keyveil"),
        docs_url=None,  # those pages load scripts from elsewhere; /api has none
        redoc_url=None,
        redirect_slashes=False,
        responses=models.PROBLEMS,
        lifespan=_ticking(service, settings.tick_seconds, metrics.publish),
        # Traces would hold addresses and queries of those who ask, and go to whatever the environment names.
        telemetry={
            "tracing": False,
            "metrics": False,
            "logs": False,
            "operation_spans": False,
            "auto_configure": False,
        },
    )
    app.state.service = service
    app.state.access = AccessControl(service, settings.present_tokens)
    app.state.metrics = metrics
    app.state.uploads = uploads = Uploads(service, metrics)
    limits = BodyLimits(settings.body_bytes, settings.dictionary_bytes, settings.memory_bytes, settings.body_seconds)
    app.add_middleware(Bounded, limits=limits)
    app.add_middleware(Watch, metrics=metrics)  # added last, so it is outermost
    app.add_exception_handler(KeyveilError, problems.on_keyveil_error)
    app.add_exception_handler(HTTPException, problems.on_http_exception)
    app.add_exception_handler(RequestValidationError, problems.on_validation_error)
    route = _add_routes(app)
    add_client_files(app, settings.serve_client)
    add_reference_pages(app)
    origins = [one.strip() for one in settings.origins.split(",") if one.strip()]
    app.direct = SharedWithPages(DirectUploads(app.by_the_framework, uploads, metrics, limits, route), origins)
    taken = frozenset(str(getattr(route, "path", "")).split("/")[1] for route in app.routes)
    for path, page in pages.items():
        if path == ROOT:
            app.router.routes.append(_Elsewhere(page, taken))
            continue
        _refuse_taken(path, taken)
        app.mount(path, page)
    return app


def _refuse_taken(path: str, taken: Collection[str]) -> None:
    """Refuse a page without a path, or below an address of the API, where requests would not reach all of it."""
    first = path.split("/")[1] if path.startswith("/") else ""
    if not first or first in taken:
        raise KeyveilError("serve/page", f"Pages have a path of their own such as /dashboard, not {path!r}.")


class _Elsewhere(Mount):
    """Pages at every address that does not begin like one of the API, which refuses wrong ones itself."""

    def __init__(self, page: ASGIApp, taken: Collection[str]) -> None:
        super().__init__("", page)
        self._taken = taken

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        first = scope["path"].split("/")[1] if scope["path"].startswith("/") else ""
        return (Match.NONE, {}) if first in self._taken else super().matches(scope)


def _add_routes(app: FastAPI) -> UploadRoute:
    """All routes; gives the one for uploads."""

    def route(
        method: str, path: str, who: Who, does: Callable[..., Any], shape: type | None = None, **told: Any
    ) -> None:
        words, needed = who
        described = {"tags": [words], "response_model": shape, **told}
        app.add_api_route(path, does, methods=[method], dependencies=list(needed), **described)

    without_token: dict[str, Any] = {"security": [{}]}  # also: a token shows drafts
    route("GET", ONE, EVERYBODY, endpoints.show_campaign, models.CampaignView, openapi_extra=without_token)
    route("GET", LIST, EVERYBODY, endpoints.show_dictionary)
    # Devices have no role: the campaign says whose reports it takes.
    uploads = UploadRoute(f"{ONE}/reports", upload, methods=["POST"])
    app.router.routes.append(uploads)

    route("GET", ALL, ANALYSTS, endpoints.list_campaigns, models.Campaigns)
    route("GET", f"{ONE}/status", ANALYSTS, endpoints.show_status)
    route("GET", f"{ONE}/estimates", ANALYSTS, endpoints.show_estimates, responses=models.ESTIMATES)
    route("POST", f"{ONE}/queries", ANALYSTS, endpoints.ask, models.AnswerRows, openapi_extra=models.QUERY_BODY)
    route("GET", f"{ONE}/tally", ANALYSTS, endpoints.export_tally, responses=models.content(models.TALLY, JSON))

    route("POST", ALL, ADMINS, endpoints.create_campaign, models.CampaignView, status_code=201)
    route("PATCH", ONE, ADMINS, endpoints.act_on_campaign, models.CampaignView)
    route("POST", f"{ONE}/enrolments", ADMINS, endpoints.enrol, models.Tokens, status_code=201)
    route("PUT", LIST, ADMINS, endpoints.keep_dictionary, models.Stored, openapi_extra=models.DICTIONARY_BODY)
    route("POST", f"{ONE}/revocations", ADMINS, endpoints.revoke_enrolments, models.Revoked)
    route("DELETE", ONE, ADMINS, endpoints.delete_campaign, models.Gone)
    route("GET", f"{ONE}/reports", ADMINS, endpoints.export_reports, responses=models.content(models.PARQUET))

    route("GET", TOKENS, ADMINS_OF_ALL, endpoints.list_tokens, models.TokenList)
    route("POST", TOKENS, ADMINS_OF_ALL, endpoints.create_token, models.NewToken, status_code=201)
    route("DELETE", TOKENS + "/{token}", ADMINS_OF_ALL, endpoints.revoke_token, models.Gone)
    route("GET", "/v1/journal", ADMINS_OF_ALL, endpoints.show_journal, models.JournalPage)
    route("GET", "/v1/clock", ADMINS_OF_ALL, endpoints.show_clock, models.ClockView)
    route("POST", "/v1/clock", ADMINS_OF_ALL, endpoints.confirm_clock, models.ClockView)

    route("GET", "/healthz", EVERYBODY, endpoints.alive, models.Alive)
    route("GET", "/readyz", EVERYBODY, endpoints.ready, models.Alive)
    route("GET", "/metrics", EVERYBODY, endpoints.metrics, responses=models.content("text/plain"))
    return uploads


class _Collector(FastAPI):
    """Lets uploads pass by the framework, and adds their route to the description of the API."""

    direct: SharedWithPages  # around uploads, which pass by, and everything else

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.direct(scope, receive, send)

    async def by_the_framework(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Through all middleware to the route."""
        await super().__call__(scope, receive, send)

    def openapi(self) -> dict[str, Any]:
        document = super().openapi()
        document["paths"][f"{ONE}/reports"].setdefault("post", models.UPLOAD)
        return document


def _ticking(
    service: Service, seconds: float, ticked: Callable[[], None]
) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    """While the app runs, a thread moves rounds on, folds and scrubs; whatever fails is tried again later."""

    def tick(over: threading.Event) -> None:
        while not over.wait(seconds):
            try:
                try:
                    while service.tick() and not over.is_set():
                        pass
                finally:
                    ticked()
            except Exception as reason:
                log.error("Rounds could not be moved on.", code=getattr(reason, "code", None), exc_info=True)

    @asynccontextmanager
    async def running(_: FastAPI) -> AsyncIterator[None]:
        over = threading.Event()
        ticked()
        service.folding.watched = seconds > 0
        thread = threading.Thread(target=tick, args=(over,), name="keyveil-tick", daemon=True)
        if seconds:
            thread.start()
        yield
        over.set()
        if seconds:
            await run_in_threadpool(thread.join)

    return running
