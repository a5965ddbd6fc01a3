"""Counting the members of Rice-coded sets straight from the wire, without an object per report."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from keyveil.core.codes_subset import RealMembers
from keyveil.core.errors import ReportError
from keyveil.kernels.backend import kernel


def count_members(
    data: NDArray[np.uint8], offsets: NDArray[np.int64], codec: RealMembers
) -> tuple[NDArray[np.int64], int]:
    """How many payloads contain each symbol, and the number of the first malformed one (-1 if there is none).

    Payload i is ``data[offsets[i]:offsets[i + 1]]``; malformed is what ``codec.decode`` refuses.
    """
    counts = np.zeros(codec.symbols, dtype=np.int64)
    return counts, _count(data, offsets, counts, codec.symbols, codec.size, codec.dummies, codec.shift)


def _count_numpy(
    data: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    counts: NDArray[np.int64],
    symbols: int,
    size: int,
    dummies: int,
    shift: int,
) -> int:
    codec, whole = RealMembers(symbols, size, dummies), data.tobytes()
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


@kernel(twin=_count_numpy)
def _count(
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
