"""A report: what leaves a device. One object for one person, columns for many."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Payload = int | bytes | tuple[int, ...]

PUBLIC_BYTES = 16


@dataclass(frozen=True)
class Report:
    """The randomised answer, and the public bytes that were drawn before the record was looked at (also its id)."""

    public: bytes
    payload: Payload


@dataclass(frozen=True, eq=False)
class Reports:
    """Many reports as columns: public bytes [n, 16], and payloads in the form that the mechanism's codec fixes."""

    publics: NDArray[np.uint8]
    payloads: NDArray[Any]

    def __len__(self) -> int:
        return len(self.publics)

    def blocks(self, size: int) -> Iterator[Reports]:
        for start in range(0, len(self), size):
            yield Reports(self.publics[start : start + size], self.payloads[start : start + size])
