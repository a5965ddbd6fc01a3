"""Keys of several dimensions, as one domain: "berlin/fries" is the key of a pair of city and product."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from keyveil.core.errors import SchemaError

SEPARATOR = "/"


def joint_key(*parts: str) -> str:
    """The name of a combination, one part a dimension."""
    for part in parts:
        if not part or SEPARATOR in part:
            raise SchemaError("schema/part", f"A part of a key must be a name without {SEPARATOR!r}, not {part!r}.")
    return SEPARATOR.join(parts)


def product_keys(*dimensions: Sequence[str]) -> list[str]:
    """All combinations, the last dimension running fastest (mixed radix)."""
    return [joint_key(*parts) for parts in product(*dimensions)]


def prefixes(keys: Sequence[str], level: int) -> list[str]:
    """The distinct keys of a hierarchy cut to their first ``level`` parts, in order."""
    return list(dict.fromkeys(prefix(key, level) for key in keys))


def prefix(key: str, level: int) -> str:
    """A key of a hierarchy cut to its first ``level`` parts."""
    return SEPARATOR.join(key.split(SEPARATOR)[:level])
