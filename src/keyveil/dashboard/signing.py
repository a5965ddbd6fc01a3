"""Signing in with a token, and out again."""

from __future__ import annotations

import hmac
import re

from starlette.responses import RedirectResponse, Response

from keyveil.collector.tokens import new_token
from keyveil.core.errors import AccessError
from keyveil.dashboard.layout import HEADERS, field, note, redirect, whole
from keyveil.dashboard.visits import Fields, Site, Visit, first, form_token, relative
from keyveil.display.markup import Child, tag, together

PATH = "/sign-in"
_BEFORE = "-before"  # the cookie of somebody who is not signed in yet
_OWN = re.compile(r"/(?!/)[A-Za-z0-9/_.~-]*(?:\?[A-Za-z0-9=&%+._~-]*)?")  # an address of these pages, without a host


def show(site: Site, query: Fields, refused: str = "", status: int = 200) -> Response:
    """The page that asks for a token; its form has a token of its own, so that no other page can sign people in."""
    secret, ended = new_token(), first(query, "ended")
    said: list[Child] = [note(refused, kind="refused")] if refused else []
    if ended and not refused:
        said.append(note("You are signed out: nothing was asked for a while, or the token is no longer good."))
    body = together(
        said,
        tag(
            "form",
            tag("input", type="hidden", name="form_token", value=form_token(secret)),
            tag("input", type="hidden", name="next", value=_own(first(query, "next"))),
            tag("input", type="text", name="who", value="token", autocomplete="username", hidden=True),  # for managers
            field(
                "Token",
                "token",
                type="password",
                hint="Of an analyst or an administrator. keyveil serve says where it wrote the first ones.",
                autocomplete="current-password",
                required=True,
                autofocus=True,
            ),
            tag("button", "Sign in"),
            method="post",
            action=relative(PATH, PATH),
            class_="card",
        ),
        tag(
            "p",
            "Analysts read results. Administrators also create, open and close campaigns. Lost the token? Whoever runs "
            "the collector makes a new one: ",
            tag("code", "keyveil token create --role analyst --name anna"),
            ".",
        ),
    )
    answer = whole(PATH, "Sign in", "", body, status)
    _set(site, answer, site.cookie + _BEFORE, secret)
    return answer


def sign_in(site: Site, form: Fields, before: str) -> Response:
    """A session for a token that is good; the page again, with what was wrong, for any other."""
    if not before or not genuine(form, before):
        return show(site, form, "This form is too old. Please try again.", 403)
    try:
        started = site.sessions.start(first(form, "token"))
    except AccessError as refused:
        return show(site, form, refused.sentence, 401)
    answer = RedirectResponse(f".{_own(first(form, 'next'))}", 303, dict(HEADERS))
    _drop(site, answer, site.cookie + _BEFORE)
    _set(site, answer, site.cookie, started.secret)
    return answer


def sign_out(visit: Visit) -> Response:
    """The end of a session, in the database and in the browser."""
    visit.site.sessions.end(visit.secret)
    answer = redirect(visit, PATH)
    _drop(visit.site, answer, visit.site.cookie)
    return answer


def before(site: Site, cookies: dict[str, str]) -> str:
    """The secret of the sign-in page that this browser was shown."""
    return cookies.get(site.cookie + _BEFORE, "")


def to_sign_in(here: str, query: str, ended: bool) -> Response:
    """Off to the sign-in page, and back to this one afterwards."""
    wanted = {"next": f"{here}?{query}" if query else here, **({"ended": "1"} if ended else {})}
    return RedirectResponse(relative(here, PATH, **wanted), 303, dict(HEADERS))


def genuine(form: Fields, secret: str) -> bool:
    """Whether a form came from a page that was made for this secret."""
    return hmac.compare_digest(first(form, "form_token").encode(), form_token(secret).encode())


def _own(address: str) -> str:
    """An address of these pages; the first page for anything else."""
    return address if _OWN.fullmatch(address) and not address.startswith(PATH) else "/"


def _set(site: Site, answer: Response, name: str, value: str) -> None:
    answer.set_cookie(name, value, path="/", httponly=True, samesite="strict", secure=site.secure)


def _drop(site: Site, answer: Response, name: str) -> None:
    answer.delete_cookie(name, path="/", httponly=True, samesite="strict", secure=site.secure)
