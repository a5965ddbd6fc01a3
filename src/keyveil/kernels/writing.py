"""Many payloads into bytes: the steps of writing that a codec gives (``core.codecs.tokens``), put into bits.

The way back is ``kernels.reading``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.core.codecs.padding import Padded
from keyveil.core.codecs.payloads import Octets, Payloads, Places
from keyveil.core.codecs.rare_bits import RareBits
from keyveil.core.codecs.symbols import BitVector, Codec, Symbol
from keyveil.core.codecs.tokens import BulkWriter, Tokens
from keyveil.kernels.backend import kernel

_CELLS = 1 << 20  # of rows whose tokens are in memory at once


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
    if isinstance(codec, Symbol):
        octets = np.ascontiguousarray(rows, dtype="<u8").view(np.uint8).reshape(-1, 8)
        return _table(octets[:, : codec.size])
    if isinstance(codec, RareBits):
        return _rare_bits(codec, rows)
    if isinstance(codec, BitVector):
        return _table(np.ascontiguousarray(rows, dtype="<u8").view(np.uint8)[:, : codec.size])
    if isinstance(codec, Padded):
        return _table(padded(_write(codec.inner, rows), codec.size, codec.inner.varies))
    if isinstance(codec, BulkWriter):
        return pack(codec.tokens(rows), len(rows))
    return Payloads.of([codec.encode(payload) for payload in codec.unstack(rows)])  # a codec of others


def padded(payloads: Payloads, size: int, varies: bool) -> Octets:
    """Payloads as uint8[n, size]: an end mark where lengths vary, and zeros (``core.codecs.padding``)."""
    lengths, table = payloads.lengths, np.zeros((len(payloads), size), dtype=np.uint8)
    people = np.repeat(np.arange(len(payloads)), lengths)
    within = np.arange(len(people)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    table[people, within] = payloads.data[payloads.starts[people] + within]
    if varies:
        table[np.arange(len(payloads)), lengths] = 0x80
    return table


def pack(tokens: Tokens, count: int) -> Payloads:
    """The tokens of ``count`` payloads as bytes, each payload from a byte of its own on."""
    lengths = tokens.lengths
    bits = np.bincount(tokens.rows, weights=lengths, minlength=count).astype(np.int64)  # exact: far below 2**53
    stops = np.cumsum((bits + 7) // 8)
    starts = stops - (bits + 7) // 8
    places = np.cumsum(lengths) - lengths + (8 * starts - (np.cumsum(bits) - bits))[tokens.rows]
    data = np.zeros(int(stops[-1]) if count else 0, dtype=np.uint8)
    _put(data, places, tokens.ones, tokens.codes, tokens.sizes)
    return Payloads(data, starts, stops)


def _rare_bits(codec: RareBits, rows: NDArray[np.uint64]) -> Payloads:
    """The places of the ones, or the bits as they are where those take no more room."""
    tokens = codec.tokens(rows)
    plain = np.bincount(tokens.rows, weights=tokens.lengths, minlength=len(rows)) > codec.length
    told, bits = pack(tokens.of(~plain), int((~plain).sum())), codec.bits_of(rows[plain])
    shifted = np.ones((len(bits), codec.length + 1), dtype=np.bool_)
    shifted[:, 1:] = bits
    written = _table(np.packbits(shifted, axis=1, bitorder="little"))
    starts, stops = np.empty(len(rows), dtype=np.int64), np.empty(len(rows), dtype=np.int64)
    for chosen, part, start in ((~plain, told, 0), (plain, written, len(told.data))):
        starts[chosen], stops[chosen] = part.starts + start, part.stops + start
    return Payloads(np.concatenate([told.data, written.data]), starts, stops)


def _table(octets: Octets) -> Payloads:
    """Rows of bytes as payloads of one length."""
    ends = np.arange(len(octets) + 1, dtype=np.int64) * octets.shape[1]
    return Payloads(np.ascontiguousarray(octets).reshape(-1), ends[:-1], ends[1:])


def _put_numpy(data: Octets, places: Places, ones: Places, codes: Places, sizes: Places) -> None:
    bits = np.zeros(8 * len(data) + 1, dtype=np.int8)
    some = ones > 0  # runs of ones rise at their first bit and fall behind their last one
    np.add.at(bits, places[some], 1)
    np.add.at(bits, (places + ones)[some], -1)
    bits = np.cumsum(bits, dtype=np.int8)[:-1]
    for place in range(int(sizes.max(initial=0))):
        mine = sizes > place
        bits[(places + ones + place)[mine]] = codes[mine] >> place & 1
    data[:] = np.packbits(bits.view(np.uint8), bitorder="little")


@kernel(twin=_put_numpy)
def _put(data: Octets, places: Places, ones: Places, codes: Places, sizes: Places) -> None:
    """Write every token at its place, counted in bits; ``data`` is zero."""
    for i in range(len(places)):
        at, left = places[i], ones[i]
        while left > 0:
            part = min(left, 8 - (at & 7))
            data[at >> 3] |= np.uint8(((1 << part) - 1) << (at & 7))
            at += part
            left -= part
        code, left = codes[i], sizes[i]
        while left > 0:
            part = min(left, 8 - (at & 7))
            data[at >> 3] |= np.uint8((code & ((1 << part) - 1)) << (at & 7))
            code >>= part
            at += part
            left -= part
