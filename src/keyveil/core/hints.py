"""A hint for a name that was mistyped."""

from __future__ import annotations

from collections.abc import Collection

_MOST = 10_000  # names that are compared; a list of more would make whoever mistyped a key wait for seconds


def did_you_mean(name: object, known: Collection[str]) -> str:
    """`` (did you mean fries?)`` if one of the known names is close to this one, otherwise nothing; case is ignored."""
    if len(known) > _MOST:
        return ""
    from difflib import get_close_matches  # only when a name was mistyped

    spelled = {one.casefold(): one for one in known}
    close = get_close_matches(str(name).casefold(), spelled, n=1)
    return f" (did you mean {_quoted(spelled[close[0]])}?)" if close else ""


def _quoted(name: str) -> str:
    """As it stands if it is one plain word; in quotation marks, with odd characters escaped, if it is not."""
    return name if name.replace("-", "").replace("_", "").isalnum() else repr(name)
