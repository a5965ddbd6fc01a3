"""Codecs: how a payload becomes bytes, and arrays when there are many.

A codec fixes three forms of the same answer: the ``Payload`` of one report, its bytes (integers only, as short as the
alphabet allows, decoded strictly: every payload has exactly one encoding), and a row of an array for bulk work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from keyveil.core.codecs.payloads import FINE, RANGE, Decoded, Fast, Payloads, malformed, plainly
from keyveil.core.report import Payload


class Codec(Protocol):
    """What the bytes and the bulk form of a mechanism's payloads look like."""

    @property
    def bits(self) -> float:
        """Bits of an encoded payload, on average where the length varies."""

    @property
    def longest(self) -> int:
        """Bytes that no encoded payload exceeds; reports are padded to it, so that their length says nothing."""

    @property
    def varies(self) -> bool:
        """Whether some payloads are shorter than others."""

    def encode(self, payload: Payload) -> bytes: ...

    def decode(self, data: bytes) -> Payload: ...

    def stack(self, payloads: Sequence[Payload]) -> NDArray[Any]:
        """Payloads of single reports as the array of the bulk form."""

    def unstack(self, rows: NDArray[Any]) -> list[Payload]:
        """The array of the bulk form as payloads of single reports."""


@runtime_checkable
class BulkCodec(Codec, Protocol):
    """A codec that reads many payloads at once; every codec of Keyveil does."""

    def read(self, payloads: Payloads, keep: bool = True, fast: Fast = plainly) -> Decoded:
        """Rows and flaws of encoded payloads. ``fast`` compiles a loop; rows are not kept where only flaws count."""


@dataclass(frozen=True)
class Symbol:
    """One symbol out of ``outputs``; in bulk an array int64[n]."""

    outputs: int

    @property
    def bits(self) -> float:
        return (self.outputs - 1).bit_length()

    @property
    def size(self) -> int:
        return (int(self.bits) + 7) // 8

    @property
    def longest(self) -> int:
        return self.size

    varies = False

    def encode(self, payload: Payload) -> bytes:
        if not isinstance(payload, int) or not 0 <= payload < self.outputs:
            raise malformed(f"{payload!r} is not a symbol below {self.outputs}")
        return payload.to_bytes(self.size, "little")

    def decode(self, data: bytes) -> Payload:
        if len(data) != self.size:
            raise malformed(f"it has {len(data)} bytes instead of {self.size}")
        symbol = int.from_bytes(data, "little")
        if symbol >= self.outputs:
            raise malformed(f"symbol {symbol} is not below {self.outputs}")
        return symbol

    def read(self, payloads: Payloads, keep: bool = True, fast: Fast = plainly) -> Decoded:
        table, flaws = payloads.table(self.size)
        octets = np.zeros((len(payloads), 8), dtype=np.uint8)
        octets[:, : self.size] = table
        symbols = octets.view("<u8")[:, 0]
        flaws[(flaws == FINE) & (symbols >= self.outputs)] = RANGE
        return Decoded(symbols.astype(np.int64), flaws)

    def stack(self, payloads: Sequence[Payload]) -> NDArray[Any]:
        return np.array(payloads, dtype=np.int64).reshape(len(payloads))

    def unstack(self, rows: NDArray[Any]) -> list[Payload]:
        return list(rows.tolist())


@dataclass(frozen=True)
class BitVector:
    """``length`` bits, the first in the lowest bit of the first byte; in bulk an array uint64[n, words]."""

    length: int

    @property
    def bits(self) -> float:
        return self.length

    @property
    def size(self) -> int:
        return (self.length + 7) // 8

    @property
    def longest(self) -> int:
        return self.size

    varies = False

    @property
    def words(self) -> int:
        return (self.length + 63) // 64

    def encode(self, payload: Payload) -> bytes:
        if not isinstance(payload, bytes):
            raise malformed(f"{payload!r} is not a vector of bits")
        self.decode(payload)
        return payload

    def decode(self, data: bytes) -> Payload:
        if len(data) != self.size:
            raise malformed(f"it has {len(data)} bytes instead of {self.size}")
        if self.length % 8 and data[-1] >> (self.length % 8):
            raise malformed("bits beyond the last one are set")
        return bytes(data)

    def read(self, payloads: Payloads, keep: bool = True, fast: Fast = plainly) -> Decoded:
        table, flaws = payloads.table(self.size)
        if self.length % 8:
            flaws[(flaws == FINE) & (table[:, -1] >> (self.length % 8) > 0)] = RANGE
        if not keep:
            return Decoded(None, flaws)
        rows = np.zeros((len(payloads), 8 * self.words), dtype=np.uint8)
        rows[:, : self.size] = table
        return Decoded(rows.view("<u8").astype(np.uint64, copy=False), flaws)

    def stack(self, payloads: Sequence[Payload]) -> NDArray[Any]:
        rows = np.zeros((len(payloads), 8 * self.words), dtype=np.uint8)
        rows[:, : self.size] = np.frombuffer(b"".join(payloads), np.uint8).reshape(-1, self.size)  # type: ignore[arg-type]
        return rows.view("<u8").astype(np.uint64, copy=False)

    def unstack(self, rows: NDArray[Any]) -> list[Payload]:
        raw = np.ascontiguousarray(rows, dtype="<u8").view(np.uint8)[:, : self.size]
        return [row.tobytes() for row in raw]

    @staticmethod
    def pack(bits: Sequence[int] | NDArray[np.bool_]) -> bytes:
        """Bits as bytes, in this codec's order."""
        return np.packbits(np.asarray(bits, dtype=np.uint8), bitorder="little").tobytes()
