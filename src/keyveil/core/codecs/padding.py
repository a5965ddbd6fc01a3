"""Payloads filled up to one length, so that the length of a report says nothing.

A payload whose length varies is followed by an end mark and zeros; one of a fixed length by zeros alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.core.codecs.payloads import (
    FINE,
    PADDING,
    SIZE,
    Fast,
    Flaws,
    Octets,
    Payloads,
    Places,
    plainly,
)
from keyveil.core.codecs.symbols import Codec
from keyveil.core.errors import ReportError
from keyveil.core.report import Payload

_END = b"\x80"  # closes a payload whose length varies, before the padding


def pad(payload: bytes, size: int, varies: bool) -> bytes:
    """A payload at the fixed size of its round; an end mark tells where it stops if sizes vary."""
    whole = payload + _END if varies else payload
    if len(whole) > size or (not varies and len(whole) != size):
        raise ReportError("report/size", f"A payload of {len(payload)} bytes does not fit into {size}.")
    return whole.ljust(size, b"\0")


def pad_many(payloads: Payloads, size: int, varies: bool) -> Octets:
    """``pad`` for many: uint8[n, size]."""
    lengths = payloads.lengths
    wrong = np.flatnonzero(lengths + varies > size if varies else lengths != size)
    if len(wrong):
        pad(payloads.one(int(wrong[0])), size, varies)  # refuses it
    padded = np.zeros((len(payloads), size), dtype=np.uint8)
    padded[np.arange(size) < lengths[:, None]] = payloads.joined()
    if varies:
        padded[np.arange(len(payloads)), lengths] = _END[0]
    return padded


def unpad(padded: bytes, size: int, varies: bool) -> bytes:
    """The payload of a padded report; what no device would send is refused."""
    if len(padded) != size:
        raise ReportError("report/size", f"A report of this round has {size} bytes, not {len(padded)}.")
    if not varies:
        return padded
    whole = padded.rstrip(b"\0")
    if not whole.endswith(_END):
        raise ReportError("report/malformed", "The padding of a report begins with an end mark.")
    return whole[:-1]


def unpad_many(padded: Payloads, size: int, varies: bool, fast: Fast = plainly) -> tuple[Payloads, Flaws]:
    """``unpad`` for many: the payloads without their padding, and the flaws of those that are refused (and empty)."""
    flaws = np.where(padded.lengths == size, FINE, SIZE).astype(np.int8)
    if not varies:
        return padded.emptied(flaws), flaws
    stops = padded.stops.copy()
    fast(find_end_marks)(padded.data, padded.starts, stops, flaws)
    return Payloads(padded.data, padded.starts, stops).emptied(flaws), flaws


def find_end_marks(data: Octets, starts: Places, stops: Places, flaws: Flaws) -> None:
    """Moves every stop back over the zeros to the end mark; without one the payload has a flaw."""
    for i in range(len(starts)):
        at = stops[i] - 1
        while at >= starts[i] and data[at] == 0:
            at -= 1
        if at >= starts[i] and data[at] == 0x80:
            stops[i] = at
        elif flaws[i] == FINE:
            flaws[i] = PADDING


@dataclass(frozen=True)
class Padded:
    """The payloads of another codec, every one of them in ``size`` bytes."""

    inner: Codec
    size: int

    varies = False

    @property
    def bits(self) -> float:
        """What the payload itself takes on average."""
        return self.inner.bits

    @property
    def longest(self) -> int:
        return self.size

    def encode(self, payload: Payload) -> bytes:
        return self.fill(self.inner.encode(payload))

    def decode(self, data: bytes) -> Payload:
        return self.inner.decode(self.unfill(data))

    def fill(self, encoded: bytes) -> bytes:
        """Bytes of the other codec in their padded form."""
        return pad(encoded, self.size, varies=True) if self.inner.varies else encoded.ljust(self.size, b"\0")

    def unfill(self, data: bytes) -> bytes:
        """Bytes of the other codec from their padded form; refused if a device would not have padded so."""
        if self.inner.varies:
            return unpad(data, self.size, varies=True)
        encoded, rest = data[: self.inner.longest], data[self.inner.longest :]
        if len(data) != self.size or rest.strip(b"\0"):
            raise ReportError("report/malformed", f"A report of this group has {self.inner.longest} bytes, then zeros.")
        return encoded

    def unfill_many(self, padded: Payloads, fast: Fast = plainly) -> tuple[Payloads, Flaws]:
        """``unfill`` for many: the bytes of the other codec, and the flaws of those that are refused (and empty)."""
        if self.inner.varies:
            return unpad_many(padded, self.size, True, fast)
        table, flaws = padded.table(self.size)
        flaws[(flaws == FINE) & table[:, self.inner.longest :].any(axis=1)] = PADDING
        return Payloads(padded.data, padded.starts, padded.starts + self.inner.longest).emptied(flaws), flaws

    def stack(self, payloads: Sequence[Payload]) -> NDArray[Any]:
        return self.inner.stack(payloads)

    def unstack(self, rows: NDArray[Any]) -> list[Payload]:
        return self.inner.unstack(rows)
