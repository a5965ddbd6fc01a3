"""Pages of a collector in this process, and somebody who looks at them with cookies and without scripts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urljoin, urlsplit

from keyveil.campaign.transport import HttpAnswer, Transport
from keyveil.collector.app import make_app
from keyveil.collector.inprocess import AppTransport
from keyveil.collector.service import Service
from keyveil.collector.settings import Settings
from keyveil.dashboard.app import dashboard
from tests.collector.conftest import SetClock
from tests.collector.running import empty_database

FORM = "application/x-www-form-urlencoded"
WISH = {  # the first step of a new campaign
    "change": "8",
    "people": "20000",
    "keys": "coffee\ncrisps\napple",
    "pairs": "1.5",
    "low": "1",
    "high": "5",
}


@dataclass
class Browser:
    """One window: where it is, what it was shown, and its cookies."""

    transport: Transport
    cookies: dict[str, str] = field(default_factory=dict)
    at: str = "/"
    answer: HttpAnswer = field(default_factory=lambda: HttpAnswer(0))

    @property
    def text(self) -> str:
        return self.answer.body.decode()

    @property
    def words(self) -> str:
        """What a person reads: no tags."""
        return " ".join(re.sub(r"<[^>]*>", " ", self.text).split())

    def get(self, path: str, follow: bool = True, **headers: str) -> Browser:
        return self._ask("GET", path, b"", headers, follow)

    def post(self, path: str, /, follow: Any = True, genuine: Any = True, **fields: Any) -> Browser:
        """Send a form as the page that is shown would: with its token, unless it is forged."""
        if genuine:
            fields = {"form_token": self.form_token, **fields}
        return self._ask("POST", path, urlencode(fields, doseq=True).encode(), {"Content-Type": FORM}, follow)

    @property
    def form_token(self) -> str:
        found = re.search(r'name="form_token" value="(\w+)"', self.text)
        assert found is not None, self.words[:300]
        return found[1]

    def sign_in(self, token: str, to: str = "/") -> Browser:
        self.get(f"/sign-in?{urlencode({'next': to})}")
        return self.post("/sign-in", token=token, next=to)

    def _ask(self, method: str, path: str, body: bytes, headers: dict[str, str], follow: bool) -> Browser:
        kept = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        self.answer = self.transport.request(method, path, body, {**headers, **({"Cookie": kept} if kept else {})})
        self.at = path
        if "set-cookie" in self.answer.headers:  # the last one, where there are several
            name, _, value = self.answer.headers["set-cookie"].partition(";")[0].partition("=")
            self.cookies[name] = value.strip('"')
        if follow and self.answer.status == 303:
            target = urlsplit(urljoin(f"http://x{path}", self.answer.headers["location"]))
            return self.get(target.path + (f"?{target.query}" if target.query else ""))
        return self


@dataclass(frozen=True)
class Pages:
    """A collector with its pages, and the tokens of two people."""

    service: Service
    transport: Transport
    clock: SetClock
    admin: str
    analyst: str

    def browser(self, token: str | None = None, to: str = "/") -> Browser:
        one = Browser(self.transport)
        return one if token is None else one.sign_in(token, to)


@contextmanager
def pages(folder: Path, url: str | None = None, **settings: Any) -> Iterator[Pages]:
    """A collector and its pages in this process; time passes when a test says so."""
    if url is None:
        (folder / "keyveil.db").write_bytes(empty_database())
        url = f"sqlite:///{folder / 'keyveil.db'}"
    clock = SetClock()
    service = Service(url, clock, steady=clock.steady)
    try:
        chosen = Settings(database_url=url, tick_seconds=0, **settings)
        app = make_app(service, chosen, {"/": dashboard(service, chosen)})
        with AppTransport(app) as transport:
            admin, analyst = (service.roles.grant(role, f"the-{role}") for role in ("admin", "analyst"))
            yield Pages(service, transport, clock, admin, analyst)
    finally:
        service.close()


class Elements(HTMLParser):
    """Every element of a page with its attributes, in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {name: value or "" for name, value in attrs}))

    def named(self, *tags: str) -> list[dict[str, str]]:
        return [attributes for tag, attributes in self.found if tag in tags]
