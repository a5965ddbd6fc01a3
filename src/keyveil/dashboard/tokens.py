"""The tokens of analysts and administrators: who has one, a new one, and one that is no longer good."""

from __future__ import annotations

from datetime import date
from typing import Any

from starlette.responses import Response

from keyveil.core.errors import AccessError
from keyveil.dashboard.layout import choice, field, form, note, page, redirect, table
from keyveil.dashboard.visits import Visit
from keyveil.display.markup import Html, tag


def show_tokens(visit: Visit) -> Response:
    """All tokens that were ever made, and a form for another."""
    rows = [_row(visit, one) for one in visit.service.roles.tokens()]
    head = ("Name", "Role", "Good for", "Until", "State", "Step")
    new = form(
        visit,
        "/tokens",
        tag("h2", "A new token"),
        field("Name", "name", hint="Up to 64 of a-z, 0-9 and -, such as anna.", required=True, autocomplete="off"),
        choice("Role", "role", {"analyst": "analyst: reads", "admin": "admin: also acts"}),
        field("Campaigns", "campaigns", hint="Names with spaces between them; all if empty.", autocomplete="off"),
        field("Last day", "expires", hint="Good for ever if empty.", type="date"),
        tag("button", "Make it"),
        class_="card",
    )
    said = note("The token is revoked, and whoever was signed in with it is signed out.", kind="done")
    none = "No token was made here yet. Those of the first start lie in files beside the database."
    listed = table("Tokens", head, rows) if rows else note(none)
    return page(visit, "Tokens", visit.asked("done") and said, listed, new)


def make_token(visit: Visit) -> Response:
    """A new token, on a page that is shown this once."""
    last = visit.given("expires")
    try:
        expires = date.fromisoformat(last) if last else None
    except ValueError:
        raise AccessError("access/invalid", "The last day is a date such as 2027-01-31.") from None
    campaigns = visit.given("campaigns").split() or None
    name = visit.given("name")
    token = visit.service.roles.grant(visit.given("role"), name, campaigns, expires, visit.holder.name)
    return page(
        visit,
        f"The token of {name}",
        note("Copy it now: it is shown this once, and only its hash is kept."),
        tag("pre", token, id="token"),
        tag("p", tag("a", "Back to the tokens", href=visit.to("/tokens"))),
    )


def revoke_token(visit: Visit) -> Response:
    """A token that is no longer good."""
    visit.service.roles.revoke(visit.given("name"), visit.holder.name)
    return redirect(visit, "/tokens", done="revoke")


def _row(visit: Visit, one: dict[str, Any]) -> Html:
    campaigns, name = one["campaigns"], one["name"]
    revoke = form(
        visit,
        "/tokens/revoke",
        tag("input", type="hidden", name="name", value=name),
        tag("button", "Revoke", class_="danger", data_sure=f"Revoke {name}? It cannot be taken back."),
    )
    return tag(
        "tr",
        tag("th", name, scope="row"),
        tag("td", one["role"]),
        tag("td", "all campaigns" if campaigns is None else ", ".join(campaigns)),
        tag("td", one["expires"] or "for ever"),
        tag("td", one["state"]),
        tag("td", revoke if one["state"] == "good" else ""),
    )
