"""One request of somebody who is signed in: who asks, for what, with which fields; and what pages need to answer."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from keyveil.collector.access import AccessControl
from keyveil.collector.service import Service
from keyveil.collector.sessions import Sessions
from keyveil.collector.tokens import Holder
from keyveil.dashboard.results import Results

Fields = Mapping[str, Sequence[str]]  # of an address or a form


@dataclass(frozen=True)
class Site:
    """What all pages of a collector share."""

    service: Service
    access: AccessControl
    sessions: Sessions
    results: Results
    secure: bool  # cookies travel over TLS only

    @property
    def cookie(self) -> str:
        """The name of the cookie; browsers hold one with this prefix to its host, its path and TLS."""
        return "__Host-keyveil" if self.secure else "keyveil"


@dataclass(frozen=True)
class Visit:
    """A request whose session and role have been checked."""

    site: Site
    holder: Holder
    path: str
    query: Fields
    form: Fields
    secret: str  # of the session, or of the sign-in page
    name: str = ""  # the campaign in the address
    file: str = ""  # the file in the address
    origin: str = ""  # how the browser calls the collector

    @property
    def service(self) -> Service:
        return self.site.service

    @property
    def admin(self) -> bool:
        return self.holder.may("admin")

    @property
    def form_token(self) -> str:
        """What every form of this session carries, and no other page can know."""
        return form_token(self.secret)

    def asked(self, name: str, default: str = "") -> str:
        """A field of the address, without spaces around it."""
        return first(self.query, name, default)

    def given(self, name: str, default: str = "") -> str:
        """A field of the form."""
        return first(self.form, name, default)

    def number(self, name: str, default: int, most: int = 1 << 31) -> int:
        """A whole number in the address, from 1 up to the most that is sensible."""
        text = self.asked(name)
        given = int(text) if text.isascii() and text.isdigit() and len(text) < 18 else default
        return min(max(given, 1), most)

    def several(self, name: str) -> list[str]:
        """All values of a field of the address that are not empty; lines count as values of their own."""
        return [line.strip() for value in self.query.get(name, ()) for line in value.splitlines() if line.strip()]

    def to(self, path: str, **query: str | Sequence[str]) -> str:
        """A relative address: a collector may lie below a path of its own."""
        return relative(self.path, path, **query)


def relative(here: str, path: str, **query: str | Sequence[str]) -> str:
    """How a page at ``here`` calls ``path``."""
    up = "../" * (here.count("/") - 1)
    asked = f"?{urlencode(query, doseq=True)}" if query else ""
    return (up + quote(path.lstrip("/")) or "./") + asked


def first(fields: Fields, name: str, default: str = "") -> str:
    """The first value of a field, without spaces around it."""
    values = fields.get(name)
    return values[0].strip() if values and values[0].strip() else default


def form_token(secret: str) -> str:
    return hmac.digest(secret.encode(), b"keyveil form", hashlib.sha256).hex()
