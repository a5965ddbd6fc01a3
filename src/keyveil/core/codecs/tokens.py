"""Many payloads as steps of writing: so many ones, then a short code. Every codec of varying length is a row of them.

A codec says its tokens with arrays (``BulkWriter.tokens``); ``kernels.writing`` turns the tokens of all payloads into
bytes at once. ``encode`` writes one payload without arrays, and tests hold the two against each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Tokens:
    """Token i belongs to payload ``rows[i]`` (rising): ``ones[i]`` ones, then the low ``sizes[i]`` bits of a code."""

    rows: Integers
    ones: Integers
    codes: Integers
    sizes: Integers

    @property
    def lengths(self) -> Integers:
        """Bits of every token."""
        return self.ones + self.sizes

    def of(self, chosen: NDArray[np.bool_]) -> Tokens:
        """The tokens of some payloads, which are numbered anew; ``chosen`` is about payloads."""
        mine = chosen[self.rows]
        numbers = np.cumsum(chosen) - 1
        return Tokens(numbers[self.rows[mine]], self.ones[mine], self.codes[mine], self.sizes[mine])


@runtime_checkable
class BulkWriter(Protocol):
    """A codec that writes many payloads at once, in steps."""

    def tokens(self, rows: NDArray[Any]) -> Tokens:
        """The tokens of payloads in bulk form, payload by payload."""


def in_order(*parts: Tokens) -> Tokens:
    """Tokens of several kinds together: of one payload, those of an earlier part come first."""
    rows = np.concatenate([part.rows for part in parts])
    order = np.argsort(rows, kind="stable")
    columns = zip(*((part.ones, part.codes, part.sizes) for part in parts), strict=True)
    return Tokens(rows[order], *(np.concatenate(column)[order] for column in columns))


def side_by_side(one: Tokens, other: Tokens) -> Tokens:
    """After each token of one kind the token of the other kind at the same place."""

    def woven(left: Integers, right: Integers) -> Integers:
        return np.stack([left, right], axis=1).reshape(-1)

    return Tokens(
        *(woven(getattr(one, name), getattr(other, name)) for name in ("rows", "ones", "codes", "sizes")),
    )


def rice_codes(rows: Integers, numbers: Integers, shift: int) -> Tokens:
    """Numbers in Rice code."""
    low = numbers & ((1 << shift) - 1)
    return Tokens(rows, numbers >> shift, low << 1, np.full(len(rows), shift + 1))


def gaps_of(rows: Integers, places: Integers, first: int) -> Integers:
    """How many places lie free before each of those of a row, which rise; ``first`` is the lowest place."""
    before = np.full(len(places), first - 1)
    same = rows[1:] == rows[:-1]
    before[1:][same] = places[:-1][same]
    free: Integers = places - before - 1
    return free


def triples_of(bits: NDArray[np.bool_], codes: Integers, sizes: Integers) -> Tokens:
    """Rows of bits [n, length] three at a time, by the table of codes and sizes of the eight patterns."""
    n, length = bits.shape
    padded = np.zeros((n, -(-length // 3) * 3), dtype=np.uint8)
    padded[:, :length] = bits
    patterns = padded.reshape(-1, 3) @ np.array([1, 2, 4], dtype=np.uint8)
    rows = np.repeat(np.arange(n), padded.shape[1] // 3)
    return Tokens(rows, np.zeros(len(rows), dtype=np.int64), codes[patterns], sizes[patterns])
