"""The pages: which there are, who may see them, and what happens before and after each.

``PAGES`` is the whole table; nothing is served that is not in it. A page is a function from a ``Visit`` to a response.
It is called when the session is good, its token is still good, the role suffices, and a form that changes something has
come from a page of this session.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from keyveil.campaign.documents import NAME
from keyveil.collector.access import AccessControl, refuse_limited
from keyveil.collector.problems import status_of
from keyveil.collector.service import Service
from keyveil.collector.sessions import Sessions
from keyveil.collector.settings import Settings
from keyveil.core.errors import AccessError, CampaignError, KeyveilError
from keyveil.dashboard import refusals, signing
from keyveil.dashboard.ask import show_ask
from keyveil.dashboard.campaigns import show_campaigns
from keyveil.dashboard.collection import act, enrol, next_one, show_collection
from keyveil.dashboard.compare import show_compare
from keyveil.dashboard.files import send_file, show_files
from keyveil.dashboard.layout import HEADERS
from keyveil.dashboard.overview import show_overview
from keyveil.dashboard.privacy import show_privacy
from keyveil.dashboard.processed import show_processed
from keyveil.dashboard.results import Results
from keyveil.dashboard.tokens import make_token, revoke_token, show_tokens
from keyveil.dashboard.visits import Fields, Site, Visit
from keyveil.dashboard.wizard import show_wizard, step

ANALYST, ADMIN, ADMIN_OF_ALL = "analyst", "admin", "admin of all campaigns"
STATIC = Path(__file__).parent / "static"
MOST_FIELDS = 1000
MOST_FORM_BYTES = 4 << 20  # a list of keys may be long

_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}


@dataclass(frozen=True)
class Page:
    """An address, who may ask for it, and the function that answers."""

    method: str
    path: str
    least: str
    show: Callable[[Visit], Response]


PAGES = (
    Page("GET", "/", ANALYST, show_campaigns),
    Page("GET", "/campaigns/{name}", ANALYST, show_overview),
    Page("GET", "/campaigns/{name}/ask", ANALYST, show_ask),
    Page("GET", "/campaigns/{name}/processed", ANALYST, show_processed),
    Page("GET", "/campaigns/{name}/compare", ANALYST, show_compare),
    Page("GET", "/campaigns/{name}/privacy", ANALYST, show_privacy),
    Page("GET", "/campaigns/{name}/collection", ANALYST, show_collection),
    Page("GET", "/campaigns/{name}/files", ANALYST, show_files),
    Page("GET", "/campaigns/{name}/files/{file}", ANALYST, send_file),
    Page("POST", "/campaigns/{name}/act", ADMIN, act),
    Page("POST", "/campaigns/{name}/next", ADMIN, next_one),
    Page("POST", "/campaigns/{name}/enrol", ADMIN, enrol),
    Page("GET", "/new", ADMIN, show_wizard),
    Page("POST", "/new", ADMIN, step),
    Page("GET", "/tokens", ADMIN_OF_ALL, show_tokens),
    Page("POST", "/tokens", ADMIN_OF_ALL, make_token),
    Page("POST", "/tokens/revoke", ADMIN_OF_ALL, revoke_token),
    Page("POST", "/sign-out", ANALYST, signing.sign_out),
)


def dashboard(service: Service, settings: Settings) -> ASGIApp:
    """The pages of a collector as an app, to be mounted at ``/``."""
    access = AccessControl(service, settings.present_tokens)
    sessions = Sessions(access, settings.session_minutes, settings.session_hours)
    site = Site(service, access, sessions, Results(service), settings.reachable or settings.behind_tls)
    files = {f"/static/{file.name}": file.read_bytes() for file in STATIC.iterdir() if file.suffix in _TYPES}
    routes = [
        Route(signing.PATH, _SigningIn(site), methods=["GET", "POST"]),
        *(Route(path, _file(content, Path(path).suffix)) for path, content in files.items()),
        *(Route(one.path, _Answering(site, one), methods=[one.method]) for one in PAGES),
    ]
    return Router(routes, redirect_slashes=False, default=_Nowhere(site))


class _Answering:
    """One page behind its checks."""

    def __init__(self, site: Site, page: Page) -> None:
        self._site, self._page = site, page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        form = await _form(request) if self._page.method == "POST" else {}
        answer = await run_in_threadpool(self._answer, request, form)
        await answer(scope, receive, send)

    def _answer(self, request: Request, form: Fields | None) -> Response:
        here, site = request.url.path.removeprefix(request.scope.get("root_path", "")) or "/", self._site
        secret = request.cookies.get(site.cookie, "")
        visit: Visit | None = None
        try:
            holder = site.sessions.admit(secret)
            if holder is None:
                return self._stranger(request, here, bool(secret))
            name, file = (request.path_params.get(part, "") for part in ("name", "file"))
            query = parse_qs(request.url.query, max_num_fields=MOST_FIELDS)
            visit = Visit(site, holder, here, query, form or {}, secret, name, file, _origin(request, site))
            if self._page.method == "POST":
                _refuse_forged(request, form, secret)
            if name and not NAME.fullmatch(name):
                raise CampaignError("campaign/unknown", f"There is no campaign {name[:64]!r}.")
            site.access.check(holder, ADMIN if self._page.least == ADMIN_OF_ALL else self._page.least, name or None)
            if self._page.least == ADMIN_OF_ALL:
                refuse_limited(holder)
            return self._page.show(visit)
        except KeyveilError as refused:
            return refusals.refused(here, visit, refused, status_of(refused.code))
        except ValueError:
            wrong = KeyveilError("request/malformed", "The address has too many fields.")
            return refusals.refused(here, visit, wrong, status_of(wrong.code))

    def _stranger(self, request: Request, here: str, had_session: bool) -> Response:
        """Whoever is not signed in reads nothing and changes nothing."""
        if self._page.method == "GET":
            return signing.to_sign_in(here, request.url.query, had_session)
        return signing.show(self._site, {}, "You are not signed in any more: nothing was done.", 401)


class _SigningIn:
    """The only page for people without a session."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        if request.method == "POST":
            form = await _form(request)
            before = signing.before(self._site, request.cookies) if _from_us(request) else ""
            answer = await run_in_threadpool(signing.sign_in, self._site, form or {}, before)
        else:
            answer = signing.show(self._site, parse_qs(request.url.query))
        await answer(scope, receive, send)


class _Nowhere:
    """Every other address."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        wrong = KeyveilError("request/not-found", "There is nothing at this address.")
        answer = refusals.refused("/" + "x/" * (scope["path"].count("/") - 1), None, wrong, status_of(wrong.code))
        await answer(scope, receive, send)


async def _form(request: Request) -> Fields | None:
    """The fields of a form; nothing if it is none, or too long."""
    body = await request.body()
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded" or len(body) > MOST_FORM_BYTES:
        return None
    try:
        return parse_qs(body.decode(), max_num_fields=MOST_FIELDS, keep_blank_values=True)
    except ValueError:
        return None


def _origin(request: Request, site: Site) -> str:
    return f"{'https' if site.secure else 'http'}://{request.headers.get('host', 'localhost')}"


def _refuse_forged(request: Request, form: Fields | None, secret: str) -> None:
    """Refuse a form that no page of this session can have sent."""
    if form is None or not _from_us(request) or not signing.genuine(form, secret):
        raise AccessError("access/form", "This form did not come from a page of your session: nothing was done.")


def _from_us(request: Request) -> bool:
    """Whether a browser says that a page of this very host sent the request; old ones say nothing."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site not in (None, "same-origin", "none"):
        return False
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")


def _file(content: bytes, ending: str) -> Callable[[Request], Response]:
    headers = {**HEADERS, "Cache-Control": "no-cache"}
    return lambda _: Response(content, media_type=_TYPES[ending], headers=headers)
