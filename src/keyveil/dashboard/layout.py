"""What every page looks like: head, navigation, main part and foot; and the headers that hold browsers to it."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import HTMLResponse, RedirectResponse, Response

from keyveil.dashboard.visits import Visit, relative
from keyveil.display.markup import Child, Html, tag, together

HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",  # without any, browsers hide from us that a form is ours
    "X-Frame-Options": "DENY",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}

TABS = (  # of a campaign: what the address ends with, and what people call it
    ("", "Results"),
    ("ask", "Ask"),
    ("processed", "Raw and processed"),
    ("compare", "Over time"),
    ("privacy", "Privacy"),
    ("collection", "Collection"),
    ("files", "Download"),
)


def page(visit: Visit, title: str, *children: Child, status: int = 200) -> Response:
    """A page for somebody who is signed in."""
    links = [("/", "Campaigns"), *([("/new", "New campaign"), ("/tokens", "Tokens")] if visit.admin else [])]
    who = together(
        tag("span", f"{visit.holder.name} · {visit.holder.role}", class_="who"),
        form(visit, "/sign-out", tag("button", "Sign out", class_="plain")),
    )
    navigation = tag(
        "nav",
        [tag("a", word, href=visit.to(to), aria_current=visit.path == to and "page") for to, word in links],
        aria_label="Pages",
    )
    return whole(visit.path, title, together(navigation, who), together(*children), status)


def whole(here: str, title: str, head: Child, body: Child, status: int = 200) -> Response:
    """The document around a page."""
    told = tag(
        "html",
        tag(
            "head",
            tag("meta", charset="utf-8"),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("meta", name="color-scheme", content="light dark"),
            tag("title", f"{title} · Keyveil"),
            tag("link", rel="icon", href="data:,"),
            tag("link", rel="stylesheet", href=relative(here, "/static/page.css")),
            tag("script", src=relative(here, "/static/page.js"), defer=True),
        ),
        tag(
            "body",
            tag("a", "Skip to the content", href="#content", class_="skip"),
            tag("header", tag("a", "Keyveil", href=relative(here, "/"), class_="brand"), head),
            tag("main", tag("h1", title), body, id="content", tabindex="-1"),
            tag("footer", "Every number here comes from randomised reports. Nobody sees anybody’s answers."),
        ),
        lang="en",
    )
    return HTMLResponse(f"<!doctype html>{told}", status, dict(HEADERS))


def tabs(visit: Visit, current: str) -> Html:
    """The navigation among the pages of one campaign."""
    return tag(
        "nav",
        [
            tag(
                "a",
                word,
                href=visit.to(f"/campaigns/{visit.name}" + (f"/{end}" if end else "")),
                aria_current=end == current and "page",
            )
            for end, word in TABS
        ],
        class_="tabs",
        aria_label="This campaign",
    )


def redirect(visit: Visit, path: str, **query: str) -> Response:
    """On to another page, which is then asked for with GET."""
    return RedirectResponse(visit.to(path, **query), 303, dict(HEADERS))


def form(visit: Visit, action: str, *children: Child, **attributes: str) -> Html:
    """A form that changes something, with the token that only pages of this session know."""
    token = tag("input", type="hidden", name="form_token", value=visit.form_token)
    return tag("form", token, *children, method="post", action=visit.to(action), **attributes)


def question(visit: Visit, action: str, *children: Child, **attributes: str) -> Html:
    """A form that only asks: its fields stand in the address, which can be kept as a bookmark."""
    return tag("form", *children, method="get", action=visit.to(action), **attributes)


def field(
    label: str, name: str, value: str = "", hint: str = "", type: str = "text", id: str = "", **more: str | bool
) -> Html:
    """A labelled input, with a line below it that says what to write; several of one name need ids of their own."""
    id = id or name
    described = f"{id}-hint" if hint else None
    return tag(
        "div",
        tag("label", label, for_=id),
        tag("input", id=id, name=name, type=type, value=value, aria_describedby=described, **more),
        hint and tag("small", hint, id=described),
        class_="field",
    )


def choice(label: str, name: str, options: Mapping[str, str], value: str = "", hint: str = "") -> Html:
    """A labelled list of which one is chosen."""
    described = f"{name}-hint" if hint else None
    listed = [tag("option", word, value=one, selected=one == value) for one, word in options.items()]
    return tag(
        "div",
        tag("label", label, for_=name),
        tag("select", listed, id=name, name=name, aria_describedby=described),
        hint and tag("small", hint, id=described),
        class_="field",
    )


def facts(*pairs: tuple[str, Child]) -> Html:
    """Names and what belongs to them."""
    return tag("dl", [together(tag("dt", name), tag("dd", told)) for name, told in pairs if told])


def table(caption: str, head: tuple[Child, ...], rows: Child, **attributes: str) -> Html:
    """A table that scrolls by itself where the window is narrow."""
    inside = tag(
        "table",
        tag("caption", tag("span", caption)),
        tag("thead", tag("tr", [tag("th", one, scope="col") for one in head])),
        tag("tbody", rows),
        **attributes,
    )
    return tag("div", inside, class_="wide", tabindex="0", role="region", aria_label=caption)


def numbers(title: str) -> Html:
    """The title of a column of numbers, for the head of a ``table``."""
    return tag("span", title, class_="number")


def note(*children: Child, kind: str = "note") -> Html:
    """A remark in a box."""
    return tag("p", *children, class_=kind, role="status" if kind == "note" else "alert")
