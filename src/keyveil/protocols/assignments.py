"""Options of a part of a protocol, as the command line writes them: "max_pairs=3; bins=4"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keyveil.core.errors import ProtocolError


def assignments(given: Mapping[str, Any] | str) -> dict[str, Any]:
    """Names with their values; a mapping stays what it is."""
    if not isinstance(given, str):
        return dict(given)
    read: dict[str, Any] = {}
    for entry in filter(None, (part.strip() for part in given.split(";"))):
        name, equals, value = (part.strip() for part in entry.partition("="))
        if not (name and equals):
            raise ProtocolError("protocol/option", f"Options are written like max_pairs=3; bins=4, not {entry!r}.")
        read[name] = value
    return read
