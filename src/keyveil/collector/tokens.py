"""Tokens of analysts, administrators and enrolled devices. Only their hashes are kept."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass

from sqlalchemy import delete, func, select

from keyveil.collector import tables
from keyveil.collector.writer import Writer
from keyveil.core.errors import AccessError

ROLES = ("admin", "analyst")

_TOKEN_BYTES = 24


def new_token() -> str:
    return secrets.token_urlsafe(_TOKEN_BYTES)


def hashed(token: str) -> bytes:
    """How a token is kept: whoever reads the database cannot use it."""
    return hashlib.sha256(token.encode()).digest()


@dataclass(frozen=True)
class Roles:
    """Who may do what."""

    writer: Writer

    def grant(self, role: str) -> str:
        """A new token for a role."""
        if role not in ROLES:
            raise AccessError("access/role", f"A token is for {' or '.join(ROLES)}, not {role!r}.")
        token = new_token()
        row = {"token_hash": hashed(token), "role": role}
        self.writer.run(lambda connection: self.writer.database.insert_new(connection, tables.access, row))
        return token

    def admit(self, token: str) -> str | None:
        """The role of a token. Tokens are compared by their hashes, so time tells nothing about them."""
        table, wanted = tables.access, hashed(token)
        with self.writer.database.read() as connection:
            rows = connection.execute(select(table.c.token_hash, table.c.role)).all()
        found = None
        for row in rows:
            if hmac.compare_digest(bytes(row.token_hash), wanted):
                found = str(row.role)
        return found

    def revoke(self, role: str) -> None:
        """No token that was granted for a role is good any more."""
        table = tables.access
        self.writer.run(lambda connection: connection.execute(delete(table).where(table.c.role == role)))

    def granted(self, role: str) -> bool:
        """Whether anybody has been given a token for a role."""
        counted = select(func.count()).where(tables.access.c.role == role)
        with self.writer.database.read() as connection:
            return connection.execute(counted).scalar() != 0
