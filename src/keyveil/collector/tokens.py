"""Tokens of analysts, administrators and enrolled devices. Only their hashes are kept.

A token of an analyst or administrator has a name, a role, the campaigns that it is good for (by the name of their
series; otherwise all), a last day, and may be revoked. Several may be good at once, so that one can replace another.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from datetime import date
from typing import Any

from sqlalchemy import Connection, Row, delete, func, select, update

from keyveil.campaign.documents import NAME
from keyveil.collector.journal import OPERATOR, Journal, Note, Notes
from keyveil.collector.tables import access, session
from keyveil.core.clock import today
from keyveil.core.errors import AccessError

ROLES = ("analyst", "admin")  # each may do what those before it may

_TOKEN_BYTES = 24
_NAMES = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_MOST_CAMPAIGNS = 100


def new_token() -> str:
    return secrets.token_urlsafe(_TOKEN_BYTES)


def hashed(token: str) -> bytes:
    """How a token is kept: whoever reads the database cannot use it."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


@dataclass(frozen=True)
class Holder:
    """Whoever has a token: its name, its role, and the series of campaigns that it is good for (none: all)."""

    name: str
    role: str
    campaigns: frozenset[str] | None = None

    def may(self, least: str) -> bool:
        return ROLES.index(self.role) >= ROLES.index(least)

    def reaches(self, series: str) -> bool:
        """Whether the token is good for campaigns of this name."""
        return self.campaigns is None or series in self.campaigns


@dataclass(frozen=True)
class Roles:
    """Who may do what, as the database knows it."""

    journal: Journal

    def grant(
        self,
        role: str,
        name: str | None = None,
        campaigns: Collection[str] | None = None,
        expires: date | None = None,
        by: str = OPERATOR,
    ) -> str:
        """A new token; it is shown now and never again."""
        if role not in ROLES:
            raise AccessError("access/invalid", f"A token is for an {' or an '.join(ROLES)}, not for {role!r}.")
        name = f"{role}-{secrets.token_hex(4)}" if name is None else name
        if not _NAMES.fullmatch(name):
            raise AccessError("access/invalid", f"A token's name has up to 64 of a-z, 0-9 and '-', not {name!r}.")
        series = None if campaigns is None else sorted(set(campaigns))
        if series is not None and not (
            1 <= len(series) <= _MOST_CAMPAIGNS and all(NAME.fullmatch(one) for one in series)
        ):
            raise AccessError("access/invalid", f"A token is good for 1 to {_MOST_CAMPAIGNS} campaigns by their names.")
        token = new_token()
        row = {
            "token_hash": hashed(token),
            "role": role,
            "name": name,
            "campaigns": None if series is None else " ".join(series),
            "expires": None if expires is None else expires.isoformat(),
        }

        def step(connection: Connection, notes: Notes) -> None:
            if not self.journal.writer.database.insert_new(connection, access, row):
                raise AccessError("access/exists", f"There is a token {name} already; choose another name.")
            detail = {"role": role, "campaigns": series, "expires": row["expires"]}
            notes.append(Note("token.create", name, detail))

        self.journal.run(by, step)
        return token

    def admit(self, token: str) -> Holder | None:
        """Who holds a token that is good today. Tokens are compared by hashes, so time tells nothing about them."""
        return self.admit_hash(hashed(token))

    def admit_hash(self, wanted: bytes) -> Holder | None:
        """Who holds the token with this hash, if it is good today."""
        with self.journal.writer.database.read() as connection:
            rows = connection.execute(select(access)).all()
        found = None
        for row in rows:
            if hmac.compare_digest(bytes(row.token_hash), wanted) and self._good(row):
                found = Holder(row.name, row.role, None if row.campaigns is None else frozenset(row.campaigns.split()))
        return found

    def revoke(self, name: str, by: str = OPERATOR) -> None:
        """From now on a token is no longer good, nor are its sessions; its name stays taken."""

        def step(connection: Connection, notes: Notes) -> None:
            good = (access.c.name == name) & (access.c.revoked == 0)
            signed_in = session.c.token_hash.in_(select(access.c.token_hash).where(good))
            connection.execute(delete(session).where(signed_in))
            if not connection.execute(update(access).where(good).values(revoked=1)).rowcount:
                raise AccessError("access/no-token", f"There is no token {name[:64]} that could be revoked.")
            notes.append(Note("token.revoke", name, {}))

        self.journal.run(by, step)

    def tokens(self) -> list[dict[str, Any]]:
        """All tokens that were ever made, without anything that would let somebody use them."""
        with self.journal.writer.database.read() as connection:
            rows = connection.execute(select(access).order_by(access.c.name)).all()
        return [
            {
                "name": row.name,
                "role": row.role,
                "campaigns": None if row.campaigns is None else row.campaigns.split(),
                "expires": row.expires,
                "state": "revoked" if row.revoked else "good" if self._good(row) else "expired",
            }
            for row in rows
        ]

    def granted(self, role: str) -> bool:
        """Whether anybody has been given a token for a role, good or not."""
        counted = select(func.count()).where(access.c.role == role)
        with self.journal.writer.database.read() as connection:
            return connection.execute(counted).scalar() != 0

    def revoke_first(self, role: str) -> None:
        """Revoke the tokens that a first start made for a role, now that a file holds one."""
        for one in self.tokens():
            if one["name"].startswith(f"first-{role}") and one["state"] == "good":
                self.revoke(one["name"])

    def _good(self, row: Row[Any]) -> bool:
        """By the believed time: a clock that jumps must not lock out whoever could set it right."""
        return not row.revoked and (row.expires is None or today(self.journal.clock).isoformat() <= row.expires)
