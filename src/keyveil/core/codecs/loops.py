"""The loops that read encoded payloads, one for each codec, and the steps that they share.

All of it is plain Python over arrays that Numba can compile as it stands; ``kernels.reading`` does so. A loop and the
steps that it calls are in one file because Numba keeps machine code until the file of its loop has changed.
Places are counted in bits; the first bit of a byte is its lowest. ``eights[k]`` holds the eight bytes from byte k on
(``Payloads.eights``), so that one look shows at least 57 bits.

Most codes are short. A loop looks the next ``LOOK`` bits up in a table of its codec (``rice_table``), which says the
number and the length of its code. What is longer than that, goes beyond the payload or ends it is read step by step.
"""

from __future__ import annotations

from functools import lru_cache
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
    Eights,
    Flaws,
    Places,
)

Counts = NDArray[np.int64]
Table = NDArray[np.int32]

LOOK = 12  # bits: a table of 16 kB stays in the nearest cache
_TOGETHER = 4  # codes that one look shows whole, if the table knows them
_LOW = (1 << LOOK) - 1
_WORD = 0xFFFF_FFFF
_STOP, _CUT = -1, -2  # in the place of a number: it says that none follows; the payload ends in the midst of it


@lru_cache(maxsize=64)
def rice_table(shift: int, labels: int = 1) -> Table:
    """For every ``LOOK`` bits: a number in Rice code, and the label in truncated binary code behind it.

    An entry is ``number << 16 | label << 4 | length`` of the code in bits, or 0 if it is longer than ``LOOK``.
    """
    short = labels.bit_length() - 1
    spare = (2 << short) - labels
    table = np.zeros(1 << LOOK, dtype=np.int32)
    ahead = np.arange(1 << LOOK)
    for ones in range(LOOK - shift - short):
        for long in range(1 if spare == labels else 2):
            size = ones + 1 + shift + short + long
            number = (ones << shift) + (ahead >> (ones + 1) & ((1 << shift) - 1))
            label = ahead >> (ones + 1 + shift) & ((1 << short) - 1)
            fits = (ahead & ((2 << ones) - 1)) == (1 << ones) - 1
            fits &= (label >= spare) == bool(long)
            if long:
                label = 2 * label + (ahead >> (size - 1) & 1) - spare
            if size <= LOOK:
                table[fits] = (number << 16 | label << 4 | size)[fits]
    return table


@lru_cache(maxsize=64)
def gaps_table(shift: int) -> Table:
    """For every ``LOOK`` bits one gap in Rice code, or two where both are there: how far they lead.

    An entry is ``both << 18 | first << 6 | gaps << 4 | length``: steps to the last symbol and to the first one, how
    many gaps there are, and bits of their codes; or 0 if the first is longer than ``LOOK``.
    """
    ahead, table = np.arange(1 << LOOK), rice_table(shift).astype(np.int64)
    first, behind = 1 + (table >> 16), table[ahead >> (table & 15)]
    length = (table & 15) + (behind & 15)
    two = (behind > 0) & (length <= LOOK)
    alone = first << 18 | first << 6 | 1 << 4 | table & 15
    both = first + 1 + (behind >> 16) << 18 | first << 6 | 2 << 4 | length
    return np.where(table == 0, 0, np.where(two, both, alone)).astype(np.int32)


# -- the loops ------------------------------------------------------------------------------------------------------


def read_gaps(
    eights: Eights,
    starts: Places,
    stops: Places,
    rows: NDArray[np.int32],
    counts: Counts,
    flaws: Flaws,
    symbols: int,
    size: int,
    fewest: int,
    shift: int,
    table: Table,
    pairs: Table,
) -> None:
    """The loop of ``RealMembers``: members into row i modulo the number of rows, and counted if nothing is wrong."""
    for i in range(len(starts)):
        at, stop = 8 * starts[i], 8 * stops[i]
        line, symbol, members, flaw = rows[i % len(rows)], -1, 0, FINE
        missing, at = rice(eights, at, stop, stop + 1, 0)  # how many members are missing; no number of ones ends here
        if missing == _CUT:
            flaw = ENDS
        elif missing > size - fewest:
            flaw = NUMBER
        while flaw == FINE and members < size - missing:
            easy = members + 2 * _TOGETHER <= size - missing and at + _TOGETHER * LOOK <= stop
            if easy:
                window = eights[at >> 3] >> (at & 7)
                for _ in range(_TOGETHER):
                    found = pairs[window & _LOW]
                    if found == 0:
                        easy = False
                        break
                    window >>= found & 15
                    at += found & 15
                    line[members] = symbol + ((found >> 6) & _LOW)
                    symbol += found >> 18
                    line[members + 1] = symbol  # written over if there was one gap only
                    members += (found >> 4) & 3
            if not easy:
                found = table[(eights[at >> 3] >> (at & 7)) & _LOW]
                gap, after = found >> 16, at + (found & 15)
                if found == 0 or after > stop:
                    gap, after = rice(eights, at, stop, stop + 1, shift)
                at = after
                symbol += 1 + gap
                if gap == _CUT:
                    flaw = ENDS
                elif symbol < symbols:
                    line[members] = symbol
                    members += 1
            if flaw == FINE and symbol >= symbols:
                flaw = RANGE
        flaws[i] = closing(eights, at, stop) if flaw == FINE else flaw
        if flaws[i] == FINE:
            count(line, members, counts)


def read_triples(
    eights: Eights,
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
            pattern, at = triple(eights, at, ahead)
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
        flaws[i] = closing(eights, at, stop) if flaw == FINE else flaw
        if flaws[i] == FINE:
            count(rows[row], members, counts)


def read_labels(
    eights: Eights,
    starts: Places,
    stops: Places,
    rows: NDArray[Any],
    counts: Counts,
    flaws: Flaws,
    keys: int,
    shift: int,
    labels: int,
    table: Table,
) -> None:
    """The loop of ``LabelledKeys``: one more than each label at its key, in row i if rows have room for keys.

    ``counts[keys · labels]``, if there is room for any, count the symbols ``key · labels + label`` of payloads without
    a flaw.
    """
    kept, counted = rows.shape[1] > 0, len(counts) > 0
    short = 0
    while 2 << short <= labels:
        short += 1
    spare = (2 << short) - labels
    spoken = np.empty(keys, dtype=np.int32)
    for i in range(len(starts)):
        at, stop = 8 * starts[i], 8 * stops[i]
        key, said, flaw = 0, 0, FINE
        while key < keys and flaw == FINE:
            easy = at + _TOGETHER * LOOK <= stop
            if easy:
                window = eights[at >> 3] >> (at & 7)
                for _ in range(_TOGETHER):
                    found = table[window & _LOW]
                    if found == 0 or key + (found >> 16) >= keys:
                        easy = False
                        break
                    window >>= found & 15
                    at += found & 15
                    key += found >> 16
                    spoken[said] = key * labels + ((found >> 4) & _LOW)
                    said += 1
                    key += 1
            if not easy:
                silence, at = rice(eights, at, stop, last_silence(keys - key, shift), shift)
                if silence == _STOP:
                    break
                label, at = bits_at(eights, at, short), at + short
                if label >= spare:
                    label, at = 2 * label + bits_at(eights, at, 1) - spare, at + 1
                if silence == _CUT or at > stop:
                    flaw = ENDS
                elif key + silence >= keys:
                    flaw = RANGE
                else:
                    key += silence
                    spoken[said] = key * labels + label
                    said += 1
                    key += 1
        flaws[i] = closing(eights, at, stop) if flaw == FINE else flaw
        if flaws[i] == FINE and counted:
            count(spoken, said, counts)
        if flaws[i] == FINE and kept:
            for j in range(said):
                rows[i, spoken[j] // labels] = 1 + spoken[j] % labels


def read_rare_bits(
    eights: Eights,
    starts: Places,
    stops: Places,
    rows: NDArray[np.uint64],
    flaws: Flaws,
    length: int,
    shift: int,
    table: Table,
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
        plain = eights[at >> 3] & 1
        at += 1
        begin, key, flaw = at, 0, FINE
        if plain:
            if stop - at != 8 * (length // 8 + 1) - 1:
                flaws[i] = LENGTH
                continue
            while key < length:
                width = min(32, length - key)
                rows[row, key >> 6] |= np.uint64(bits_at(eights, at, width)) << np.uint64(key & 63)
                at += width
                key += width
        while not plain and key < length and flaw == FINE:
            if shift < 0:
                if at >= stop:
                    flaw = ENDS
                    break
                pattern, at = triple(eights, at, ahead)
                width = 3
            else:
                found = table[(eights[at >> 3] >> (at & 7)) & _LOW]
                silence, after = found >> 16, at + (found & 15)
                if after == at or after > stop or key + silence >= length:
                    silence, after = rice(eights, at, stop, last_silence(length - key, shift), shift)
                at = after
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
            flaw = closing(eights, at, stop)
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


def rice(eights: Eights, at: int, stop: int, last: int, shift: int) -> tuple[int, int]:
    """A number in Rice code and the place behind it; ``_STOP`` after ``last`` ones, ``_CUT`` where the payload ends."""
    begin = at
    end = min(begin + last, stop)
    while at + 32 <= end and bits_at(eights, at, 32) == _WORD:
        at += 32
    while at < end and bits_at(eights, at, 1):
        at += 1
    ones = at - begin
    if ones == last:
        return _STOP, at
    at += 1
    if at + shift > stop:
        return _CUT, at
    return (ones << shift) + bits_at(eights, at, shift), at + shift


def last_silence(keys: int, shift: int) -> int:
    """So many ones say that none of the ``keys`` that are left speaks: one more than a silence before any of them."""
    return ((keys - 1) >> shift) + 1


def bits_at(eights: Eights, at: int, width: int) -> Any:
    """The number that ``width`` bits hold, at most 57, the first one lowest."""
    return (eights[at >> 3] >> (at & 7)) & ((1 << width) - 1)


def triple(eights: Eights, at: int, ahead: NDArray[np.int64]) -> tuple[int, int]:
    """A pattern of three bits and the place behind its code."""
    found = ahead[bits_at(eights, at, 4)]
    return found & 7, at + (found >> 3)


def closing(eights: Eights, at: int, stop: int) -> int:
    """The flaw of an end: after the last symbol comes the padding of its byte, fewer than eight bits, all zero."""
    if at > stop:
        return ENDS
    if stop - at >= 8 or bits_at(eights, at, stop - at):
        return FOLLOWS
    return FINE


def count(places: NDArray[np.int32], many: int, counts: Counts) -> None:
    """One more at each of the first ``many`` places."""
    for i in range(many):
        counts[places[i]] += 1


STEPS = (rice, last_silence, bits_at, triple, closing, count)
