"""What a page says when it cannot be shown: one sentence, its code, and what to do."""

from __future__ import annotations

from starlette.responses import Response

from keyveil.core.errors import KeyveilError
from keyveil.dashboard.layout import facts, note, page, whole
from keyveil.dashboard.visits import Visit, relative
from keyveil.display.markup import Html, tag, together

_WHAT_TO_DO = {  # by the beginning of a code; the longest that fits
    "access/role": "Sign out, and sign in with the token of an administrator.",
    "access/campaign": "Sign out, and sign in with a token that is good for it.",
    "access/form": "Open the page again and send the form from there.",
    "campaign/unknown": "The list of campaigns shows those that your token is good for.",
    "campaign/too-few": (
        "Wait until more people have reported; when the round closes, what waits is counted. If the campaign is over, "
        "ask again in a new one, of more people."
    ),
    "campaign/state": "The page “Collection” shows which step is next.",
    "question/too-few": "Wait until more people have reported; if the campaign is over, ask more people in a new one.",
    "queue/": "Try again in a moment.",
    "storage/": "The collector’s log and /readyz say what is wrong with its database.",
    "request/not-found": "The list of campaigns has links to all pages.",
}


def refused(here: str, visit: Visit | None, error: KeyveilError, status: int) -> Response:
    """The page for an error; whoever is signed in keeps the navigation."""
    body = explained(error)
    if visit is not None:
        return page(visit, "This is not possible", body, status=status)
    back = tag("p", tag("a", "To the campaigns", href=relative(here, "/")))
    return whole(here, "This is not possible", "", together(body, back), status)


def explained(error: KeyveilError) -> Html:
    """An error as a part of a page."""
    fitting = [code for code in _WHAT_TO_DO if error.code.startswith(code)]
    advice = _WHAT_TO_DO[max(fitting, key=len)] if fitting else ""
    return together(
        note(error.sentence, kind="refused"), facts(("What to do", advice), ("Code", tag("code", error.code)))
    )
