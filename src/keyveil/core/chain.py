"""Entries of a journal, each bound to the one before it by a hash: what can be checked without a collector."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from keyveil.core.canonical import canonical
from keyveil.core.errors import KeyveilError, StorageError

FIELDS = ("number", "at", "actor", "action", "subject", "detail")
START = bytes(32)  # stands before the first entry


def entry_hash(before: bytes, fields: Mapping[str, Any]) -> bytes:
    """SHA-256 over the hash before an entry and the entry's fields as canonical JSON."""
    return hashlib.sha256(before + canonical(fields)).digest()


def verify(entries: Iterable[Any], head: str | None = None) -> tuple[int, str]:
    """How many entries there are and the last hash in hex; raises if they are no unbroken chain from the first.

    ``head`` is a hash that was noted earlier: some entry must have it, or the end was cut off or written anew.
    """
    number, before, known = 0, START, head is None
    for entry in entries:
        number += 1
        if not isinstance(entry, Mapping) or set(entry) != {*FIELDS, "hash"} or entry["number"] != number:
            raise _broken(f"entry {number} is missing or malformed")
        try:
            before = entry_hash(before, {name: entry[name] for name in FIELDS})
        except (KeyveilError, RecursionError):
            raise _broken(f"entry {number} is malformed") from None
        if before.hex() != entry["hash"]:
            raise _broken(f"entry {number} was changed")
        known = known or entry["hash"] == head
    if not known:
        raise _broken(f"none of {number} entries has the hash that was noted")
    return number, before.hex()


def _broken(how: str) -> StorageError:
    return StorageError("journal/broken", f"The journal is broken: {how}.")
