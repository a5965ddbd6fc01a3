"""Many payloads into bytes: the loop of their codec (``core.codecs.writers``), compiled where that is possible.

Without a compiler payloads are written one by one. The way back is ``kernels.reading``.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.core.codecs.payloads import Loop, Octets, Payloads
from keyveil.core.codecs.symbols import BitVector, Codec, Symbol
from keyveil.core.codecs.writers import STEPS, BulkWriter
from keyveil.kernels.backend import native, twinless

_CELLS = 1 << 20  # of rows that are written at once


def write(codec: Codec, rows: NDArray[Any]) -> Payloads:
    """The encoded payloads of rows in the bulk form of the codec: what ``codec.encode`` writes, one after the other."""
    wide = max(1, int(np.prod(rows.shape[1:], dtype=np.int64)) * (64 if rows.dtype == np.uint64 else 1))
    step = max(1, _CELLS // wide)
    parts = [_write(codec, rows[start : start + step]) for start in range(0, len(rows), step)]
    if not parts:
        return Payloads.of([])
    ends = np.cumsum([0, *(len(part.data) for part in parts)])
    return Payloads(
        np.concatenate([part.data for part in parts]),
        np.concatenate([part.starts + end for part, end in zip(parts, ends, strict=False)]),
        np.concatenate([part.stops + end for part, end in zip(parts, ends, strict=False)]),
    )


def _write(codec: Codec, rows: NDArray[Any]) -> Payloads:
    from keyveil.core.codecs.padding import Padded  # few devices need it

    if isinstance(codec, Symbol):
        octets = np.ascontiguousarray(rows, dtype="<u8").view(np.uint8).reshape(-1, 8)
        return _table(octets[:, : codec.size])
    if isinstance(codec, BitVector) and not codec.varies:
        return _table(np.ascontiguousarray(rows, dtype="<u8").view(np.uint8)[:, : codec.size])
    if isinstance(codec, Padded):
        return _table(padded(_write(codec.inner, rows), codec.size, codec.inner.varies))
    if isinstance(codec, BulkWriter) and native():
        return codec.put(rows, fast)
    return Payloads.of([codec.encode(payload) for payload in codec.unstack(rows)])


def padded(payloads: Payloads, size: int, varies: bool) -> Octets:
    """Payloads as uint8[n, size]: an end mark where lengths vary, and zeros (``core.codecs.padding``)."""
    lengths, table = payloads.lengths, np.zeros((len(payloads), size), dtype=np.uint8)
    people = np.repeat(np.arange(len(payloads)), lengths)
    within = np.arange(len(people)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    table[people, within] = payloads.data[payloads.starts[people] + within]
    if varies:
        table[np.arange(len(payloads)), lengths] = 0x80
    return table


@cache
def fast(loop: Loop) -> Loop:
    """The loop as a kernel."""
    return twinless(loop, steps=STEPS)


def _table(octets: Octets) -> Payloads:
    """Rows of bytes as payloads of one length."""
    ends = np.arange(len(octets) + 1, dtype=np.int64) * octets.shape[1]
    return Payloads(np.ascontiguousarray(octets).reshape(-1), ends[:-1], ends[1:])
