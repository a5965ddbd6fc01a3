"""Who may do what: bearer tokens of administrators and analysts, and the headers that carry them.

An administrator may do whatever an analyst may. Tokens lie in the database as hashes, or in files that the operator
names; both are compared in constant time. Devices have no role: what they send is checked against the campaign.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from keyveil.core.errors import AccessError

if TYPE_CHECKING:
    from keyveil.collector.service import Service

ROLES = ("analyst", "admin")  # each may do what those before it may
_LONGEST = 512  # characters of a token

_bearer = HTTPBearer(auto_error=False, scheme_name="token", description="A token of an administrator or analyst.")
_Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]


@dataclass(frozen=True)
class AccessControl:
    """Which role a token has: those in the database, and those that the operator put into files."""

    service: Service
    kept: Mapping[str, str]  # role -> token

    def role(self, token: str) -> str | None:
        if len(token) > _LONGEST:
            return None
        found = self.service.roles.admit(token)
        given = _digest(token)
        for role, known in self.kept.items():
            if hmac.compare_digest(given, _digest(known)):
                found = role
        return found

    def require(self, least: str, token: str | None) -> None:
        """Refuse a token that is missing, unknown, or whose role may do less than ``least``."""
        if token is None:
            raise AccessError("access/needed", f"This needs a token: Authorization: Bearer <token> of an {least}.")
        role = self.role(token)
        if role is None:
            raise AccessError("access/unknown", "This token is not known here.")
        if role not in ROLES or ROLES.index(role) < ROLES.index(least):
            raise AccessError("access/role", f"This needs the token of an {least}.")


def analyst(request: Request, credentials: _Credentials) -> None:
    request.app.state.access.require("analyst", credentials and credentials.credentials)


def admin(request: Request, credentials: _Credentials) -> None:
    request.app.state.access.require("admin", credentials and credentials.credentials)


def bearer_token(header: str | None) -> str | None:
    """The token of an Authorization header, if it has one."""
    scheme, _, token = (header or "").partition(" ")
    return token.strip()[: _LONGEST + 1] or None if scheme.lower() == "bearer" else None


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
