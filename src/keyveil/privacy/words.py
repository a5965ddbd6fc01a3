"""The two people whom a report tells apart best, and an exact epsilon, in the same words wherever they are named."""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal
from fractions import Fraction

from keyveil.core.epsilon import decimal_text
from keyveil.core.schema import GRID
from keyveil.privacy.certify import Certificate, Pairs


def worst_pair(certificate: Certificate) -> tuple[str, str]:
    """What the person holds who makes the worst report likely, and what the other holds.

    Enumerations run at sizes of their own, with keys that have no names: it is said how many keys there are and whether
    they are the same. Where both hold several keys, and some are the same, the keys are numbered from 1. Values are
    said only where both hold the same keys.
    """
    first, second = certificate.worst.likely, certificate.worst.unlikely
    ones, others = ({key for key, _ in pairs} for pairs in (first, second))
    if ones == others and len(ones) == 1:
        return f"a key at {_value(first[0][1])}", f"the same key at {_value(second[0][1])}"
    if ones & others:
        keys, values = certificate.worst_sizes.get("keys"), ones == others
        return _numbered(first, keys, values), _numbered(second, keys, values)
    return _counted(len(ones), "key"), _counted(len(others), "other key" if ones else "key")


def at_most(exact: Decimal, places: int = 12) -> str:
    """An exact epsilon for the eye: so many places, rounded up."""
    if not exact.is_finite():
        return str(exact)
    return decimal_text(Fraction(exact.quantize(Decimal(1).scaleb(-places), ROUND_CEILING)))


def _counted(keys: int, word: str) -> str:
    return "no key" if not keys else f"one {word}" if keys == 1 else f"{keys:,} {word}s"


def _value(value: int) -> str:
    ends = {GRID: "its largest value", -GRID: "its least value"}
    return ends.get(value, f"{value / GRID:+g}, of −1 to 1")


def _numbered(pairs: Pairs, keys: int | None, values: bool) -> str:
    named = [f"{key + 1}" + (f" at {value / GRID:+g}" if values else "") for key, value in pairs]
    among = "" if keys is None else f" of {keys:,}"
    return f"key{'' if len(named) == 1 else 's'} {' and '.join(named)}{among}"
