"""The loops that write many payloads, one for each code, and the steps that they share; the way back is ``loops``.

They are plain Python that Numba can compile as it stands, in one file for the reason given there. A loop fills a table
with one row of bytes for each payload and says how many bits each took. Bits that fill no byte yet wait in a number:
``held`` has ``filled`` of them, and ``place`` is where the next byte goes.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from keyveil.core.codecs.payloads import Fast, Octets, Payloads, Places

_PART = 32  # ones that are put at once


@runtime_checkable
class BulkWriter(Protocol):
    """A codec that writes many payloads at once."""

    def put(self, rows: NDArray[Any], fast: Fast) -> Payloads:
        """The encoded payloads of rows in bulk form; ``fast`` compiles a loop."""


def written(table: Octets, bits: Places) -> Payloads:
    """Rows of bytes, of which the first ``bits`` bits count, as payloads end to end."""
    lengths = (bits + 7) // 8
    stops = np.cumsum(lengths)
    return Payloads(table[np.arange(table.shape[1]) < lengths[:, None]], stops - lengths, stops)


# -- the loops ------------------------------------------------------------------------------------------------------


def write_gaps(rows: NDArray[Any], table: Octets, bits: Places, symbols: int, shift: int) -> None:
    """Members of each row, which rise; those from ``symbols`` on are dummies."""
    for i in range(len(rows)):
        row, out = rows[i], table[i]
        members = 0
        while members < len(row) and row[members] < symbols:
            members += 1
        place, held, filled = put_rice(out, 0, 0, 0, len(row) - members, 0)
        before = -1
        for j in range(members):
            symbol = int(row[j])
            place, held, filled = put_rice(out, place, held, filled, symbol - before - 1, shift)
            before = symbol
        bits[i] = closed(out, place, held, filled)


def write_labels(rows: NDArray[Any], table: Octets, bits: Places, first: int, shift: int, labels: int) -> None:
    """Labels of the keys that speak, rows [n, keys] with 0 for silence; ``first`` zeros come before them."""
    short = 0
    while 2 << short <= labels:
        short += 1
    spare, keys = (2 << short) - labels, rows.shape[1]
    for i in range(len(rows)):
        row, out = rows[i], table[i]
        place, held, filled = 0, 0, first
        next_key = 0
        for key in range(keys):
            if row[key]:
                place, held, filled = put_rice(out, place, held, filled, key - next_key, shift)
                label = int(row[key]) - 1
                if label < spare:
                    place, held, filled = put_code(out, place, held, filled, label, short)
                else:
                    stretched = label + spare
                    code = stretched >> 1 | (stretched & 1) << short
                    place, held, filled = put_code(out, place, held, filled, code, short + 1)
                next_key = key + 1
        last = ((keys - next_key - 1) >> shift) + 1  # says that none of the others speaks
        place, held, filled = put_ones(out, place, held, filled, last)
        bits[i] = closed(out, place, held, filled)


def write_triples(
    rows: NDArray[np.bool_], table: Octets, bits: Places, first: int, codes: Places, sizes: Places
) -> None:
    """Three bits at a time of rows [n, length]; ``first`` zeros come before them."""
    length = rows.shape[1]
    for i in range(len(rows)):
        row, out = rows[i], table[i]
        place, held, filled = 0, 0, first
        for at in range(0, length, 3):
            pattern = 0
            for step in range(min(3, length - at)):
                pattern |= int(row[at + step]) << step
            place, held, filled = put_code(out, place, held, filled, codes[pattern], sizes[pattern])
        bits[i] = closed(out, place, held, filled)


# -- their steps ----------------------------------------------------------------------------------------------------


def put_code(out: Octets, place: int, held: int, filled: int, code: int, size: int) -> tuple[int, int, int]:
    """Add the ``size`` bits of a code, at most 48; gives place, held and filled as they are then."""
    held |= code << filled
    filled += size
    while filled >= 8:
        out[place] = held & 255
        held >>= 8
        filled -= 8
        place += 1
    return place, held, filled


def put_ones(out: Octets, place: int, held: int, filled: int, ones: int) -> tuple[int, int, int]:
    """Add so many ones."""
    while ones > 0:
        part = min(ones, _PART)
        place, held, filled = put_code(out, place, held, filled, (1 << part) - 1, part)
        ones -= part
    return place, held, filled


def put_rice(out: Octets, place: int, held: int, filled: int, number: int, shift: int) -> tuple[int, int, int]:
    """Add a number in Rice code."""
    place, held, filled = put_ones(out, place, held, filled, number >> shift)
    return put_code(out, place, held, filled, (number & ((1 << shift) - 1)) << 1, shift + 1)


def closed(out: Octets, place: int, held: int, filled: int) -> int:
    """Put the last byte, if some of its bits are there; the number of bits in all."""
    if filled:
        out[place] = held
    return 8 * place + filled


STEPS = (put_code, put_ones, put_rice, closed)
