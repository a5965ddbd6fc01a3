"""The loops that read encoded payloads, one for each codec, and the steps that they share.

All of it is plain Python over arrays that Numba can compile as it stands; ``kernels.reading`` does so. A loop and the
steps that it calls are in one file because Numba keeps machine code until the file of its loop has changed.
Places are counted in bits; the first bit of a byte is its lowest.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.core.codecs.payloads import (
    ENDS,
    FINE,
    FOLLOWS,
    FORM,
    LENGTH,
    NUMBER,
    RANGE,
    Flaws,
    Octets,
    Places,
)

Counts = NDArray[np.int64]
_STOP, _CUT = -1, -2  # in the place of a number: it says that none follows; the payload ends in the midst of it


# -- the loops ------------------------------------------------------------------------------------------------------


def read_gaps(
    data: Octets,
    starts: Places,
    stops: Places,
    rows: NDArray[np.int32],
    counts: Counts,
    flaws: Flaws,
    symbols: int,
    size: int,
    fewest: int,
    shift: int,
) -> None:
    """The loop of ``RealMembers``: members into row i modulo the number of rows, and counted if nothing is wrong."""
    for i in range(len(starts)):
        at, stop = 8 * starts[i], 8 * stops[i]
        row, symbol, members, flaw = i % len(rows), -1, 0, FINE
        missing, at = rice(data, at, stop, stop + 1, 0)  # how many members are missing; no number of ones ends here
        if missing == _CUT:
            flaw = ENDS
        elif missing > size - fewest:
            flaw = NUMBER
        while flaw == FINE and members < size - missing:
            gap, at = rice(data, at, stop, stop + 1, shift)
            symbol += 1 + gap
            if gap == _CUT:
                flaw = ENDS
            elif symbol >= symbols:
                flaw = RANGE
            else:
                rows[row, members] = symbol
                members += 1
        flaws[i] = closing(data, at, stop) if flaw == FINE else flaw
        if flaws[i] == FINE:
            count(rows[row, :members], counts)


def read_triples(
    data: Octets,
    starts: Places,
    stops: Places,
    rows: NDArray[np.int32],
    counts: Counts,
    flaws: Flaws,
    symbols: int,
    size: int,
    fewest: int,
    ahead: NDArray[np.int64],
) -> None:
    """The loop of ``DenseMembers``, as ``read_gaps``."""
    for i in range(len(starts)):
        at, stop = 8 * starts[i], 8 * stops[i]
        row, first, members, flaw = i % len(rows), 0, 0, FINE
        while first < symbols and flaw == FINE:
            if at >= stop:
                flaw = ENDS
                break
            pattern, at = triple(data, at, stop, ahead)
            for place in range(3):
                if (pattern >> place) & 1:
                    if first + place >= symbols:
                        flaw = RANGE
                    elif members == size:
                        flaw = NUMBER
                    else:
                        rows[row, members] = first + place
                        members += 1
            first += 3
        if flaw == FINE and at <= stop and members < fewest:
            flaw = NUMBER
        flaws[i] = closing(data, at, stop) if flaw == FINE else flaw
        if flaws[i] == FINE:
            count(rows[row, :members], counts)


def read_labels(
    data: Octets,
    starts: Places,
    stops: Places,
    rows: NDArray[Any],
    flaws: Flaws,
    keys: int,
    shift: int,
    short: int,
    spare: int,
) -> None:
    """The loop of ``LabelledKeys``: one more than each label at its key, in row i if rows have room for keys."""
    kept = rows.shape[1] > 0
    for i in range(len(starts)):
        at, stop = 8 * starts[i], 8 * stops[i]
        key, flaw = 0, FINE
        while key < keys and flaw == FINE:
            silence, at = rice(data, at, stop, last_silence(keys - key, shift), shift)
            if silence == _STOP:
                break
            if silence == _CUT or at + short > stop:
                flaw = ENDS
                break
            key += silence
            label = bits_at(data, at, short)
            at += short
            if label >= spare:
                if at >= stop:
                    flaw = ENDS
                    break
                label = 2 * label + bits_at(data, at, 1) - spare
                at += 1
            if key >= keys:
                flaw = RANGE
            elif kept:
                rows[i, key] = label + 1
            key += 1
        flaws[i] = closing(data, at, stop) if flaw == FINE else flaw


def read_rare_bits(
    data: Octets,
    starts: Places,
    stops: Places,
    rows: NDArray[np.uint64],
    flaws: Flaws,
    length: int,
    shift: int,
    ahead: NDArray[np.int64],
    sizes: NDArray[np.int64],
) -> None:
    """The loop of ``RareBits``: the ones of payload i into row i modulo the number of rows."""
    one = np.uint64(1)
    for i in range(len(starts)):
        at, stop = 8 * starts[i], 8 * stops[i]
        row = i % len(rows)
        for word in range(rows.shape[1]):
            rows[row, word] = 0
        if at == stop:
            flaws[i] = ENDS
            continue
        plain = data[at >> 3] & 1
        at += 1
        begin, key, flaw = at, 0, FINE
        if plain:
            if stop - at != 8 * (length // 8 + 1) - 1:
                flaws[i] = LENGTH
                continue
            while key < length:
                if (data[at >> 3] >> (at & 7)) & 1:
                    rows[row, key >> 6] |= one << np.uint64(key & 63)
                at += 1
                key += 1
        while not plain and key < length and flaw == FINE:
            if shift < 0:
                if at >= stop:
                    flaw = ENDS
                    break
                pattern, at = triple(data, at, stop, ahead)
                width = 3
            else:
                silence, at = rice(data, at, stop, last_silence(length - key, shift), shift)
                if silence == _STOP:
                    break
                if silence == _CUT:
                    flaw = ENDS
                    break
                key += silence
                pattern, width = 1, 1
            for place in range(width):
                if (pattern >> place) & 1:
                    if key + place >= length:
                        flaw = RANGE
                    else:
                        rows[row, (key + place) >> 6] |= one << np.uint64((key + place) & 63)
            key += width
        if flaw == FINE:
            flaw = closing(data, at, stop)
        # The shorter form is the right one, and plain bits where both are equal.
        taken = at - begin
        if plain and flaw == FINE:
            taken, silent = 0, 0
            for key in range(0, length, 3 if shift < 0 else 1):
                if shift < 0:
                    three = np.int64(0)
                    for place in range(min(3, length - key)):
                        bit = (rows[row, (key + place) >> 6] >> np.uint64((key + place) & 63)) & one
                        three |= np.int64(bit) << place
                    taken += sizes[three]
                elif (rows[row, key >> 6] >> np.uint64(key & 63)) & one:
                    taken += (silent >> shift) + 1 + shift
                    silent = 0
                else:
                    silent += 1
            if shift >= 0 and silent:
                taken += last_silence(silent, shift)
        if flaw == FINE and (taken >= length) != (plain == 1):
            flaw = FORM
        flaws[i] = flaw


# -- their steps ----------------------------------------------------------------------------------------------------


def rice(data: Octets, at: int, stop: int, last: int, shift: int) -> tuple[int, int]:
    """A number in Rice code and the place behind it; ``_STOP`` after ``last`` ones, ``_CUT`` where the payload ends."""
    begin = at
    while at - begin < last and at < stop and (data[at >> 3] >> (at & 7)) & 1:
        at += 1
    ones = at - begin
    if ones == last:
        return _STOP, at
    at += 1
    if at + shift > stop:
        return _CUT, at
    return (ones << shift) + bits_at(data, at, shift), at + shift


def last_silence(keys: int, shift: int) -> int:
    """So many ones say that none of the ``keys`` that are left speaks: one more than a silence before any of them."""
    return ((keys - 1) >> shift) + 1


def bits_at(data: Octets, at: int, width: int) -> Any:
    """The number that ``width`` bits hold, the first one lowest; all of them must be there."""
    found = np.int64(0)
    for octet in range((width + (at & 7) + 7) >> 3):
        found |= np.int64(data[(at >> 3) + octet]) << (8 * octet)
    return (found >> (at & 7)) & ((1 << width) - 1)


def triple(data: Octets, at: int, stop: int, ahead: NDArray[np.int64]) -> tuple[int, int]:
    """A pattern of three bits and the place behind its code, which may lie beyond ``stop``."""
    window = np.int64(data[at >> 3])
    if at + 8 < stop:
        window |= np.int64(data[(at >> 3) + 1]) << 8
    found = ahead[(window >> (at & 7)) & 15]
    return found & 7, at + (found >> 3)


def closing(data: Octets, at: int, stop: int) -> int:
    """The flaw of an end: after the last symbol comes the padding of its byte, fewer than eight bits, all zero."""
    if at > stop:
        return ENDS
    if stop - at >= 8 or (at < stop and data[at >> 3] >> (at & 7)):
        return FOLLOWS
    return FINE


def count(members: NDArray[np.int32], counts: Counts) -> None:
    """One more for each member."""
    for member in members:
        counts[member] += 1


STEPS = (rice, last_silence, bits_at, triple, closing, count)
