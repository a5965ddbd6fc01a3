"""How a request reaches a collector, whatever carries it: a network, or a call within the process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

NO_HEADERS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class HttpAnswer:
    """What came back; the names of headers are in lower case."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


class Transport(Protocol):
    """Whatever can carry a request to a collector; raises ``TransportError`` if there is no whole answer."""

    def request(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] = NO_HEADERS
    ) -> HttpAnswer: ...
