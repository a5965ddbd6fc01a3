"""Vectors of rare ones straight from the wire, without an object per report."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from keyveil.core.codecs.labelled_keys import LabelledKeys
from keyveil.core.codecs.members import PATTERNS, TRIPLES
from keyveil.core.codecs.rare_bits import RareBits
from keyveil.kernels.backend import native, twinless

Words = NDArray[np.uint64]

BY_THREES = -1  # in the place of a shift
# For every four bits ahead: the pattern of three bits, and eight times the length of its code.
_AHEAD = np.array([pattern | TRIPLES[pattern][0] << 3 for pattern in PATTERNS], dtype=np.int64)
_SIZES = np.array([bits for bits, _ in TRIPLES], dtype=np.int64)


def read_rare_bits(payloads: Sequence[bytes], codec: RareBits) -> Words:
    """What ``codec.stack`` makes of the decoded payloads, of which the first malformed one is refused."""
    if native():
        rows = np.zeros((len(payloads), codec.words), dtype=np.uint64)
        data = np.frombuffer(b"".join(payloads), dtype=np.uint8)
        offsets = np.cumsum([0, *map(len, payloads)], dtype=np.int64)
        shift = codec.places.shift if isinstance(codec.places, LabelledKeys) else BY_THREES
        if _read(data, offsets, rows, codec.length, shift, _AHEAD, _SIZES) < 0:
            return rows
    return codec.stack([codec.decode(data) for data in payloads])  # this says what is wrong, too


@twinless
def _read(
    data: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    rows: Words,
    length: int,
    shift: int,
    ahead: NDArray[np.int64],
    sizes: NDArray[np.int64],
) -> int:
    """Sets the ones of every payload, and returns the number of the first malformed one (-1 if there is none)."""
    one = np.uint64(1)
    for i in range(len(offsets) - 1):
        at, stop = 8 * offsets[i], 8 * offsets[i + 1]  # in bits
        if at == stop:
            return i
        plain = data[at >> 3] & 1
        at += 1
        start, key = at, 0
        if plain:
            if stop != 8 * (offsets[i] + length // 8 + 1):
                return i
            while key < length:
                if (data[at >> 3] >> (at & 7)) & 1:
                    rows[i, key >> 6] |= one << np.uint64(key & 63)
                at += 1
                key += 1
        elif shift < 0:
            while key < length:
                if at >= stop:
                    return i
                window = np.int64(data[at >> 3])
                if at + 8 < stop:
                    window |= np.int64(data[(at >> 3) + 1]) << 8
                found = ahead[(window >> (at & 7)) & 15]
                at += found >> 3
                for place in range(3):
                    if (found >> place) & 1:
                        if key + place >= length:
                            return i
                        rows[i, (key + place) >> 6] |= one << np.uint64((key + place) & 63)
                key += 3
        else:
            while key < length:
                unary, last = 0, ((length - key - 1) >> shift) + 1
                while unary < last and at < stop and (data[at >> 3] >> (at & 7)) & 1:
                    at += 1
                    unary += 1
                if unary == last:
                    break
                at += 1
                if at + shift > stop:
                    return i
                low = np.int64(0)
                for octet in range((shift + (at & 7) + 7) >> 3):
                    low |= np.int64(data[(at >> 3) + octet]) << (8 * octet)
                key += (unary << shift) + ((low >> (at & 7)) & ((1 << shift) - 1))
                at += shift
                if key >= length:
                    return i
                rows[i, key >> 6] |= one << np.uint64(key & 63)
                key += 1
        # What is left is the padding of the last byte: fewer than eight bits, all zero.
        if not 0 <= stop - at < 8 or (at < stop and data[at >> 3] >> (at & 7)):
            return i
        # The shorter form is the right one, and plain bits where both are equal.
        taken = at - start
        if plain:
            taken, silent = 0, 0
            for key in range(0, length, 3 if shift < 0 else 1):
                if shift < 0:
                    pattern = np.int64(0)
                    for place in range(min(3, length - key)):
                        bit = (rows[i, (key + place) >> 6] >> np.uint64((key + place) & 63)) & one
                        pattern |= np.int64(bit) << place
                    taken += sizes[pattern]
                elif (rows[i, key >> 6] >> np.uint64(key & 63)) & one:
                    taken += (silent >> shift) + 1 + shift
                    silent = 0
                else:
                    silent += 1
            if shift >= 0 and silent:
                taken += ((silent - 1) >> shift) + 1
        if (taken >= length) != (plain == 1):
            return i
    return -1
