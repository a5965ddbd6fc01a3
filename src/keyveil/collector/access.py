"""Who may do what: bearer tokens of administrators and analysts, and the headers that carry them.

An administrator may do whatever an analyst may. A token may be good for some campaigns only; tokens, the journal and
the clock concern all campaigns, and need one that is good for all. Tokens lie in the database as hashes, or in files
that the operator names and may change at any time; both are compared in constant time. Devices have no role: what they
send is checked against the campaign.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from keyveil.collector.tokens import Holder, hashed
from keyveil.core.errors import AccessError, CampaignError

if TYPE_CHECKING:
    from keyveil.collector.service import Service

Kept = Callable[[], Mapping[str, Sequence[str]]]  # tokens outside the database, by role, as they are now

_LONGEST = 512  # characters of a token

_bearer = HTTPBearer(auto_error=False, scheme_name="token", description="A token of an administrator or analyst.")
_Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]


@dataclass(frozen=True)
class AccessControl:
    """Whom a token belongs to: those in the database, and those that the operator put into files."""

    service: Service
    kept: Kept

    def holder(self, token: str) -> Holder | None:
        return None if len(token) > _LONGEST else self.holder_of(hashed(token))

    def holder_of(self, given: bytes) -> Holder | None:
        """Whom the token with this hash belongs to, if it is good now."""
        found = self.service.roles.admit_hash(given)
        for role, tokens in self.kept().items():
            for known in tokens:
                if hmac.compare_digest(given, hashed(known)):
                    found = Holder(f"{role}-file", role)
        return found

    def require(self, least: str, token: str | None, name: str | None = None) -> Holder:
        """Refuse a token that is missing, unknown, whose role may do less than ``least``, or that is not good for the
        campaign that ``name`` means."""
        if token is None:
            raise AccessError("access/needed", f"This needs a token: Authorization: Bearer <token> of an {least}.")
        holder = self.holder(token)
        if holder is None:
            raise AccessError("access/unknown", "This token is not known here, has expired or was revoked.")
        self.check(holder, least, name)
        return holder

    def check(self, holder: Holder, least: str, name: str | None = None) -> None:
        """Refuse whoever may do less than ``least``, or has nothing to do with the campaign that ``name`` means."""
        if not holder.may(least):
            raise AccessError("access/role", f"This needs the token of an {least}.")
        if name is not None and holder.campaigns is not None:
            refuse_elsewhere(holder, self._series(name))

    def _series(self, name: str) -> str:
        try:
            return self.service.own_name(name, drafts=True)
        except CampaignError:
            return name  # of nothing that is here: whether it is is not for this token to know


def refuse_elsewhere(holder: Holder, series: str) -> None:
    """Refuse a token that is not good for campaigns of this name."""
    if not holder.reaches(series):
        raise AccessError("access/campaign", "This token is not good for this campaign.")


def refuse_limited(holder: Holder) -> None:
    """Refuse a token that is good for some campaigns only."""
    if holder.campaigns is not None:
        raise AccessError("access/campaign", "This needs the token of an admin that is good for all campaigns.")


def analyst(request: Request, credentials: _Credentials) -> Holder:
    return _required("analyst", request, credentials)


def admin(request: Request, credentials: _Credentials) -> Holder:
    return _required("admin", request, credentials)


def admin_of_all(request: Request, credentials: _Credentials) -> Holder:
    holder = _required("admin", request, credentials)
    refuse_limited(holder)
    return holder


def anybody(request: Request, credentials: _Credentials) -> Holder | None:
    """Whoever asks: the holder of a token, if there is one that is good for this campaign."""
    try:
        return _required("analyst", request, credentials)
    except AccessError:
        return None


def _required(least: str, request: Request, credentials: HTTPAuthorizationCredentials | None) -> Holder:
    access: AccessControl = request.app.state.access
    token = None if credentials is None else credentials.credentials
    return access.require(least, token, request.path_params.get("name"))


Analyst = Annotated[Holder, Depends(analyst)]
Admin = Annotated[Holder, Depends(admin)]
AdminOfAll = Annotated[Holder, Depends(admin_of_all)]
Anybody = Annotated[Holder | None, Depends(anybody)]


def bearer_token(header: str | None) -> str | None:
    """The token of an Authorization header, if it has one."""
    scheme, _, token = (header or "").partition(" ")
    return token.strip()[: _LONGEST + 1] or None if scheme.lower() == "bearer" else None
