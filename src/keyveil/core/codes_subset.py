"""The wire form of a set whose size varies a little: its real members, without the dummies that completed it.

A subset of ``size`` symbols was drawn, but at most ``dummies`` of them carry no news and are not sent. How many are
missing is written in unary, then the gaps between the members in Rice code. Every set has exactly one encoding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.core.errors import ReportError
from keyveil.core.report import Payload


@dataclass(frozen=True)
class RealMembers:
    """Up to ``size`` distinct symbols below ``symbols``, sorted; in bulk int32[n, size], dummies are ≥ ``symbols``."""

    symbols: int
    size: int
    dummies: int

    @property
    def fewest(self) -> int:
        """The least number of members: there are only so many dummies."""
        return max(0, self.size - self.dummies)

    @cached_property
    def shift(self) -> int:
        """Low bits of a gap that are written plainly: the number that makes gaps of this mean shortest."""
        stay = 1 - self.size / (self.symbols + self.dummies)  # chance that a symbol is not in the set

        def length(shift: int) -> float:
            step = stay ** (1 << shift)
            return shift + step / (1 - step)

        return min(range(32), key=length)

    @cached_property
    def bits(self) -> float:
        """Average length for a uniform subset: exact, because every gap of it has the same law."""
        everything = self.symbols + self.dummies
        absent = self.size * self.dummies / everything
        step, unary, tail = 1 << self.shift, 0.0, 1.0
        for low in range(self.symbols):  # tail = P[a gap exceeds low] = C(everything - low - 1, size) / C(…, size)
            tail *= max(0.0, 1 - self.size / (everything - low))
            unary += tail if (low + 1) % step == 0 else 0.0
        return 1 + absent + (self.size - absent) * (1 + self.shift + unary)

    def encode(self, payload: Payload) -> bytes:
        self._check(payload)
        assert isinstance(payload, tuple)
        missing = self.size - len(payload)
        stream, length = (1 << missing) - 1, missing + 1
        previous = -1
        for symbol in payload:
            gap, previous = symbol - previous - 1, symbol
            unary, low = gap >> self.shift, gap & ((1 << self.shift) - 1)
            stream |= ((low << (unary + 1)) | ((1 << unary) - 1)) << length
            length += unary + 1 + self.shift
        return stream.to_bytes((length + 7) // 8, "little")

    def decode(self, data: bytes) -> Payload:
        stream, left = int.from_bytes(data, "little"), 8 * len(data)
        missing = _ones(stream)
        stream, left = stream >> (missing + 1), left - missing - 1
        if missing > self.size - self.fewest:
            raise _malformed(f"it lacks more than {self.size - self.fewest} symbols")
        members, symbol = [], -1
        for _ in range(self.size - missing):
            unary = _ones(stream)
            left -= unary + 1 + self.shift
            if left < 0:
                break
            stream >>= unary + 1
            symbol += 1 + (unary << self.shift) + (stream & ((1 << self.shift) - 1))
            stream >>= self.shift
            members.append(symbol)
        if left < 0:
            raise _malformed("it ends too early")
        if left >= 8 or stream:
            raise _malformed("something follows the last symbol")
        self._check(tuple(members))
        return tuple(members)

    def _check(self, payload: Payload) -> None:
        if not isinstance(payload, tuple) or not self.fewest <= len(payload) <= self.size:
            raise _malformed(f"it is not a set of {self.fewest} to {self.size} symbols")
        rising = all(low < high for low, high in pairwise(payload))
        if not rising or (payload and not 0 <= payload[0] <= payload[-1] < self.symbols):
            raise _malformed(f"its symbols are not distinct, sorted and below {self.symbols}")

    def stack(self, payloads: Sequence[Payload]) -> NDArray[Any]:
        rows = np.full((len(payloads), self.size), self.symbols, dtype=np.int32)
        for row, payload in zip(rows, payloads, strict=True):
            assert isinstance(payload, tuple)
            row[: len(payload)] = payload
        return rows

    def unstack(self, rows: NDArray[Any]) -> list[Payload]:
        return [tuple(symbol for symbol in row if symbol < self.symbols) for row in rows.tolist()]


def _ones(stream: int) -> int:
    """How many one-bits come before the first zero."""
    return ((stream + 1) & ~stream).bit_length() - 1


def _malformed(what: str) -> ReportError:
    return ReportError("report/malformed", f"The payload is not one that a device could have sent: {what}.")
