"""The files that a collector serves to browsers: the page "Try it", and for development the client itself.

"Try it" may send nothing: its headers forbid every connection, so that what is typed stays in the page. The client
lies below it for that page only. Below ``/client/`` it is served to other pages if a setting says so. Code that a
collector serves must be trusted like the collector (docs/browser.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from keyveil.core.errors import KeyveilError

TRY, CLIENT = "/try", "/client"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
}
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
_TRY = {
    **_HEADERS,
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'none'; "
        "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


@dataclass(frozen=True)
class Files:
    """Files by their paths, held in memory, and the headers that all of them have."""

    contents: Mapping[str, bytes]
    headers: Mapping[str, str]

    async def show(self, path: str) -> Response:
        content = self.contents.get(path)
        if content is None:
            raise HTTPException(404)
        return Response(content, media_type=_TYPES[Path(path).suffix or ".html"], headers=dict(self.headers))


def add_client_files(app: FastAPI, serve_client: bool) -> None:
    """Routes for "Try it", and for the client where it is served for development; no part of the API's description.

    An installation without the client's modules collects without them, unless the setting asks for them.
    """
    folder = client_folder()
    if folder is None:
        if serve_client:
            raise KeyveilError("serve/client", "The client's modules are missing in this installation of Keyveil.")
        return
    client = dict(_read(folder))
    page = dict(_read(Path(__file__).parent / "try_it"))
    page[""] = page["index.html"]
    shown = Files({**page, **{f"client/{path}": content for path, content in client.items()}}, _TRY)
    unlisted: dict[str, Any] = {"methods": ["GET", "HEAD"], "include_in_schema": False}
    app.add_api_route(TRY, _to_the_page, **unlisted)
    app.add_api_route(f"{TRY}/{{path:path}}", shown.show, **unlisted)
    if serve_client:
        app.add_api_route(f"{CLIENT}/{{path:path}}", Files(client, _HEADERS).show, **unlisted)


async def _to_the_page() -> Response:
    return RedirectResponse(f"{TRY[1:]}/", 307)  # relative, for collectors that have a path of their own


def client_folder() -> Path | None:
    """Where the client's modules are: inside an installed package, or beside the sources; None if they are missing."""
    package = Path(__file__).parents[1]
    found = [package / "clients" / "javascript", package.parents[1] / "clients" / "javascript"]
    return next((folder for folder in found if (folder / "index.js").is_file()), None)


def _read(folder: Path) -> Iterator[tuple[str, bytes]]:
    for file in sorted(folder.rglob("*")):
        if file.suffix in _TYPES and "node_modules" not in file.parts:
            yield file.relative_to(folder).as_posix(), file.read_bytes()
