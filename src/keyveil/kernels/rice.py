"""Counting the members of encoded sets straight from the wire, without an object per report."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from keyveil.core.codecs.members import PATTERNS, TRIPLES, DenseMembers, RealMembers
from keyveil.core.errors import ReportError
from keyveil.kernels.backend import kernel


def count_members(
    data: NDArray[np.uint8], offsets: NDArray[np.int64], codec: RealMembers | DenseMembers
) -> tuple[NDArray[np.int64], int]:
    """How many payloads contain each symbol, and the number of the first malformed one (-1 if there is none).

    Payload i is ``data[offsets[i]:offsets[i + 1]]``; malformed is what ``codec.decode`` refuses.
    """
    counts = np.zeros(codec.symbols, dtype=np.int64)
    sizes = codec.symbols, codec.size, codec.dummies
    if isinstance(codec, RealMembers):
        return counts, _count_gaps(data, offsets, counts, *sizes, codec.shift)
    return counts, _count_triples(data, offsets, counts, *sizes, _AHEAD)


# For every four bits ahead: the pattern of three symbols, and eight times the length of its code.
_AHEAD = np.array([pattern | TRIPLES[pattern][0] << 3 for pattern in PATTERNS], dtype=np.int64)


def _count_decoded(
    data: NDArray[np.uint8], offsets: NDArray[np.int64], counts: NDArray[np.int64], codec: RealMembers | DenseMembers
) -> int:
    whole = data.tobytes()
    for i in range(len(offsets) - 1):
        start, stop = int(offsets[i]), int(offsets[i + 1])
        try:
            members = codec.decode(whole[start:stop]) if 0 <= start <= stop <= len(whole) else None
        except ReportError:
            members = None
        if not isinstance(members, tuple):
            return i
        counts[list(members)] += 1
    return -1


def _count_gaps_numpy(
    data: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    counts: NDArray[np.int64],
    symbols: int,
    size: int,
    dummies: int,
    shift: int,
) -> int:
    return _count_decoded(data, offsets, counts, RealMembers(symbols, size, dummies))


def _count_triples_numpy(
    data: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    counts: NDArray[np.int64],
    symbols: int,
    size: int,
    dummies: int,
    ahead: NDArray[np.int64],
) -> int:
    return _count_decoded(data, offsets, counts, DenseMembers(symbols, size, dummies))


@kernel(twin=_count_gaps_numpy)
def _count_gaps(
    data: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    counts: NDArray[np.int64],
    symbols: int,
    size: int,
    dummies: int,
    shift: int,
) -> int:
    for i in range(len(offsets) - 1):
        if not 0 <= offsets[i] <= offsets[i + 1] <= len(data):
            return i
        at, stop = 8 * offsets[i], 8 * offsets[i + 1]  # in bits
        symbol, wanted = -1, -1  # the first number says how many symbols are missing
        while wanted != 0:
            start = at
            while at < stop and (data[at >> 3] >> (at & 7)) & 1:
                at += 1
            unary = at - start
            at += 1
            if wanted < 0:
                if unary > min(size, dummies):
                    return i
                wanted = size - unary
                continue
            if at + shift > stop:
                return i
            low = np.int64(0)
            for octet in range((shift + (at & 7) + 7) >> 3):
                low |= np.int64(data[(at >> 3) + octet]) << (8 * octet)
            symbol += 1 + (unary << shift) + ((low >> (at & 7)) & ((1 << shift) - 1))
            at += shift
            if symbol >= symbols:
                return i
            counts[symbol] += 1
            wanted -= 1
        # What is left is the padding of the last byte: fewer than eight bits, all zero.
        if not 0 <= stop - at < 8 or (at < stop and data[at >> 3] >> (at & 7)):
            return i
    return -1


@kernel(twin=_count_triples_numpy)
def _count_triples(
    data: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    counts: NDArray[np.int64],
    symbols: int,
    size: int,
    dummies: int,
    ahead: NDArray[np.int64],
) -> int:
    for i in range(len(offsets) - 1):
        if not 0 <= offsets[i] <= offsets[i + 1] <= len(data):
            return i
        at, stop = 8 * offsets[i], 8 * offsets[i + 1]  # in bits
        members = 0
        for first in range(0, symbols, 3):
            if at >= stop:
                return i
            window = np.int64(data[at >> 3])
            if at + 8 < stop:
                window |= np.int64(data[(at >> 3) + 1]) << 8
            found = ahead[(window >> (at & 7)) & 15]
            at += found >> 3
            for place in range(3):
                if (found >> place) & 1:
                    if first + place >= symbols:
                        return i
                    counts[first + place] += 1
                    members += 1
        if not size - dummies <= members <= size:
            return i
        if not 0 <= stop - at < 8 or (at < stop and data[at >> 3] >> (at & 7)):
            return i
    return -1
