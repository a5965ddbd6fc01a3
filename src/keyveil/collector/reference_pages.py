"""Pages for people who write clients: the API at ``/api``, and what problems mean at ``/problems``, their type.

They are made of the description in ``/openapi.json`` and of ``explanations``, need no script, and load nothing.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from functools import cache
from html import escape
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.responses import Response

from keyveil.collector.explanations import CODES, FAMILIES, explain
from keyveil.collector.problems import status_of
from keyveil.display.http_api import Operation, operations

API, PROBLEMS = "/api", "/problems"

_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 56rem; margin: 2rem auto; padding: 0 1rem; }
code, pre { font-family: ui-monospace, monospace; overflow-wrap: anywhere; }
table { border-collapse: collapse; margin: .5rem 0; }
th, td { text-align: left; vertical-align: top; padding: .2rem .8rem .2rem 0; }
section { border-top: 1px solid #8886; margin-top: 1rem; }
.who { opacity: .75; }
"""
_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_HEADERS = {
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{_HASH}'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def add_reference_pages(app: FastAPI) -> None:
    """Routes for both; no part of the API's description."""

    @cache
    def api() -> str:
        return _page("The API of this collector", _api(app.openapi()), root=".")

    async def show_api() -> Response:
        return _html(api())

    unlisted: dict[str, Any] = {"methods": ["GET", "HEAD"], "include_in_schema": False}
    pages: dict[str, Callable[..., Any]] = {
        API: show_api,
        PROBLEMS: _show_problems,
        f"{PROBLEMS}/{{code:path}}": _show_problem,
    }
    for path, show in pages.items():
        app.add_api_route(path, show, **unlisted)


async def _show_problems() -> Response:
    rows = "".join(_row(code) for code in sorted(CODES))
    families = "".join(f"<tr><th>{name}/…</th><td>{one.meaning}</td></tr>" for name, one in sorted(FAMILIES.items()))
    body = (
        "<p>Every refusal is a problem document (RFC 9457). Its <code>type</code> leads to one of these pages.</p>"
        f"<table>{rows}</table><h2>Families</h2><table>{families}</table>"
    )
    return _html(_page("Problems", body, root="."))


async def _show_problem(code: str) -> Response:
    found = explain(code)
    if found is None:
        raise HTTPException(404)
    body = (
        f"<p>{escape(found.meaning)}</p><p>{escape(found.advice)}</p>"
        f"<p>HTTP status {status_of(code)}. The document's <code>detail</code> says it of the very request.</p>"
    )
    depth = code.count("/") + 1  # addresses are relative, for collectors that have a path of their own
    return _html(_page(escape(code), body, root="/".join([".."] * depth)))


def _row(code: str) -> str:
    found = CODES[code]
    link = f'<a href="{PROBLEMS[1:]}/{code}"><code>{code}</code></a>'
    return f"<tr><th>{link}</th><td>{status_of(code)}</td><td>{escape(found.meaning)}</td></tr>"


def _api(document: dict[str, Any]) -> str:
    """All operations, those for everybody first."""
    told = (
        "<p>The same as data: <a href='openapi.json'>openapi.json</a>. Refusals are problem documents: "
        "<a href='problems'>problems</a>.</p>"
    )
    return told + "".join(_operation(one) for one in operations(document))


def _operation(one: Operation) -> str:
    rows = "".join(
        f"<tr><th><code>{escape(part.name)}</code></th><td>{escape(part.where)}</td><td>{escape(part.kind)}</td>"
        f"<td>{escape(part.told)}</td></tr>"
        for part in one.parameters
    )
    parameters = f"<table>{rows}</table>" if rows else ""
    body = f"<p>Body: {escape(', '.join(one.takes))}</p>" if one.takes else ""
    answers = f"<p>Answer: {escape(one.status)}, {escape(', '.join(one.gives) or 'no content')}</p>"
    return (
        f"<section><h2><code>{one.method} {escape(one.path)}</code></h2><p class=who>{escape(one.who)}</p>"
        f"<p>{escape(one.told)}</p>{parameters}{body}{answers}</section>"
    )


def _page(title: str, body: str, root: str) -> str:
    return (
        f"<!doctype html><html lang=en><head><meta charset=utf-8><title>{title} · Keyveil</title>"
        f'<meta name=viewport content="width=device-width"><style>{_STYLE}</style></head>'
        f'<body><nav><a href="{root}/api">API</a> · <a href="{root}/problems">Problems</a></nav>'
        f"<main><h1>{title}</h1>{body}</main></body></html>"
    )


def _html(page: str) -> Response:
    return Response(page, media_type="text/html; charset=utf-8", headers=_HEADERS)
