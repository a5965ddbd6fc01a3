"""The two people whom a report tells apart best, in the same words wherever they are named."""

from __future__ import annotations

from keyveil.core.schema import GRID
from keyveil.privacy.certify import Certificate, Pairs


def worst_pair(certificate: Certificate) -> tuple[str, str]:
    """What the person holds who makes the worst report likely, and what the other holds.

    Keys are numbered from 1, because enumerations run at sizes of their own, with keys that have no names. Values are
    on [-1, 1], and are said only where both hold the same keys.
    """
    first, second = certificate.worst.likely, certificate.worst.unlikely
    values = {key for key, _ in first} == {key for key, _ in second}
    keys = certificate.worst_sizes.get("keys")
    return _said(first, keys, values), _said(second, keys, values)


def _said(pairs: Pairs, keys: int | None, values: bool) -> str:
    if not pairs:
        return "no key"
    named = [f"{key + 1}" + (f" at {value / GRID:+g}" if values else "") for key, value in pairs]
    among = "" if keys is None else f" of {keys:,}"
    return f"key{'' if len(named) == 1 else 's'} {' and '.join(named)}{among}"
