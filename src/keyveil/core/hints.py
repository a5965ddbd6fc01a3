"""A hint for a name that was mistyped."""

from __future__ import annotations

from collections.abc import Collection

_MOST = 10_000  # names that are compared; a list of more would make whoever mistyped a key wait for seconds
_EQUALS = 20  # close names among which letters decide; among names of three letters many are equally close


def did_you_mean(name: object, known: Collection[str]) -> str:
    """`` (did you mean fries?)`` if one of the known names is close to this one, otherwise nothing; case is ignored.

    Of names that are equally close, one made of the same letters is meant: srr is ssr rather than grr.
    """
    if len(known) > _MOST:
        return ""
    from difflib import SequenceMatcher, get_close_matches  # only when a name was mistyped

    spelled, given = {one.casefold(): one for one in known}, str(name).casefold()
    close = get_close_matches(given, spelled, n=_EQUALS)
    if not close:
        return ""
    best = max(close, key=lambda one: (SequenceMatcher(None, one, given).ratio(), set(one) == set(given)))
    return f" (did you mean {_quoted(spelled[best])}?)"


def _quoted(name: str) -> str:
    """As it stands if it is one plain word; in quotation marks, with odd characters escaped, if it is not."""
    return name if name.replace("-", "").replace("_", "").isalnum() else repr(name)
