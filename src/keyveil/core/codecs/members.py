"""The wire forms of a set whose size varies a little: its real members, without the dummies that completed it.

A subset of ``size`` symbols was drawn, but at most ``dummies`` of them carry no news and are not sent. ``RealMembers``
writes the gaps between members; ``DenseMembers`` says of every symbol whether it is there, which is shorter for sets of
more than a third of all symbols. Every set has exactly one encoding.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.core.codecs.bits import BitStream
from keyveil.core.codecs.loops import Counts, gaps_table, read_gaps, read_triples, rice_table
from keyveil.core.codecs.payloads import Decoded, Fast, Flaws, Payloads, malformed, plainly
from keyveil.core.codecs.writers import write_gaps, write_triples, written
from keyveil.core.report import Payload


@dataclass(frozen=True)
class Members(ABC):
    """Up to ``size`` distinct symbols below ``symbols``, sorted; in bulk int32[n, size], dummies are ≥ ``symbols``."""

    symbols: int
    size: int
    dummies: int

    varies = True

    @property
    def fewest(self) -> int:
        """The least number of members: there are only so many dummies."""
        return max(0, self.size - self.dummies)

    def _check(self, payload: Payload) -> None:
        if not isinstance(payload, tuple) or not self.fewest <= len(payload) <= self.size:
            raise malformed(f"it is not a set of {self.fewest} to {self.size} symbols")
        rising = all(low < high for low, high in pairwise(payload))
        if not rising or (payload and not 0 <= payload[0] <= payload[-1] < self.symbols):
            raise malformed(f"its symbols are not distinct, sorted and below {self.symbols}")

    def decode(self, data: bytes) -> Payload:
        return self.unstack(self.read(Payloads.of([data])).without_flaw())[0]

    def read(self, payloads: Payloads, keep: bool = True, fast: Fast = plainly) -> Decoded:
        """Rows and flaws of encoded payloads; without rows unless they are to be kept."""
        return self.count(payloads, keep, fast)[0]

    @abstractmethod
    def count(self, payloads: Payloads, keep: bool, fast: Fast) -> tuple[Decoded, Counts]:
        """What ``read`` gives, and how many of the payloads without a flaw hold each symbol: int64[symbols]."""

    def _room(self, payloads: Payloads, keep: bool) -> tuple[NDArray[np.int32], Counts, Flaws]:
        """Rows, counts and flaws for a loop to fill; one row for all payloads if none is to be kept."""
        rows = np.full((len(payloads) if keep else 1, self.size), self.symbols, dtype=np.int32)
        return rows, np.zeros(self.symbols, dtype=np.int64), np.zeros(len(payloads), dtype=np.int8)

    def _sorted(self, rows: NDArray[Any]) -> NDArray[Any]:
        """The rows with their members in order, as most are already."""
        return np.sort(rows, axis=1) if (rows[:, 1:] < rows[:, :-1]).any() else rows

    def stack(self, payloads: Sequence[Payload]) -> NDArray[Any]:
        rows = np.full((len(payloads), self.size), self.symbols, dtype=np.int32)
        for row, payload in zip(rows, payloads, strict=True):
            assert isinstance(payload, tuple)
            row[: len(payload)] = payload
        return rows

    def unstack(self, rows: NDArray[Any]) -> list[Payload]:
        return [tuple(symbol for symbol in row if symbol < self.symbols) for row in rows.tolist()]


@dataclass(frozen=True)
class RealMembers(Members):
    """How many are missing in unary, then the gaps in Rice code."""

    @cached_property
    def shift(self) -> int:
        """Low bits of a gap that are written plainly: the number that makes gaps of this mean shortest."""
        stay = 1 - self.size / (self.symbols + self.dummies)  # chance that a symbol is not in the set

        def length(shift: int) -> float:
            step = stay ** (1 << shift)
            return shift + step / (1 - step)

        return min(range(32), key=length)

    @cached_property
    def bits(self) -> float:
        """Average length for a uniform subset: exact, because every gap of it has the same law."""
        everything = self.symbols + self.dummies
        absent = self.size * self.dummies / everything
        # P[a gap exceeds low] = C(everything - low - 1, size) / C(everything, size), one low after the other
        tails = np.cumprod(np.maximum(0.0, 1 - self.size / (everything - np.arange(self.symbols))))
        steps = tails[(1 << self.shift) - 1 :: 1 << self.shift]
        unary = float(np.cumsum(steps)[-1]) if len(steps) else 0.0  # in order: everybody finds the same number
        return 1 + absent + (self.size - absent) * (1 + self.shift + unary)

    @cached_property
    def longest(self) -> int:
        def bits(members: int) -> int:
            return 1 + self.size - members + members * (1 + self.shift) + (self.symbols - members >> self.shift)

        return max(bits(members) + 7 for members in range(self.fewest, min(self.size, self.symbols) + 1)) // 8

    def encode(self, payload: Payload) -> bytes:
        self._check(payload)
        assert isinstance(payload, tuple)
        missing = self.size - len(payload)
        stream, previous = BitStream(), -1
        stream.put((1 << missing) - 1, missing + 1)
        for symbol in payload:
            gap, previous = symbol - previous - 1, symbol
            unary, low = gap >> self.shift, gap & ((1 << self.shift) - 1)
            stream.put((low << (unary + 1)) | ((1 << unary) - 1), unary + 1 + self.shift)
        return stream.to_bytes()

    def put(self, rows: NDArray[Any], fast: Fast) -> Payloads:
        table, bits = np.zeros((len(rows), self.longest + 1), dtype=np.uint8), np.zeros(len(rows), dtype=np.int64)
        fast(write_gaps)(self._sorted(rows), table, bits, self.symbols, self.shift)
        return written(table, bits)

    def count(self, payloads: Payloads, keep: bool, fast: Fast) -> tuple[Decoded, Counts]:
        rows, counts, flaws = self._room(payloads, keep)
        fast(read_gaps)(
            *payloads.eights(),
            *(rows, counts, flaws, self.symbols, self.size, self.fewest, self.shift),
            *(rice_table(self.shift), gaps_table(self.shift)),
        )
        return Decoded(rows if keep else None, flaws), counts


@dataclass(frozen=True)
class DenseMembers(Members):
    """Three symbols at a time, in a prefix code in which fewer members are shorter."""

    @cached_property
    def bits(self) -> float:
        """Average length for a uniform subset."""
        everything = self.symbols + self.dummies

        def average(width: int) -> float:
            total = 0.0
            for pattern in range(1 << width):
                chance, there, absent = 1.0, self.size, everything - self.size
                for place in range(width):
                    chance *= (there if pattern >> place & 1 else absent) / (everything - place)
                    there, absent = there - (pattern >> place & 1), absent - (~pattern >> place & 1)
                total += chance * TRIPLES[pattern][0]
            return total

        whole, rest = divmod(self.symbols, 3)
        return (whole * average(3) if whole else 0.0) + (average(rest) if rest else 0.0)

    @property
    def longest(self) -> int:
        triples = -(-self.symbols // 3)
        return (2 * triples + min(self.size, 2 * triples) + 7) // 8  # a member adds at most a bit to its triple

    def encode(self, payload: Payload) -> bytes:
        stream = BitStream()
        self.write(payload, stream)
        return stream.to_bytes()

    def write(self, payload: Payload, stream: BitStream) -> None:
        """Put the bits of a payload into a stream."""
        self._check(payload)
        assert isinstance(payload, tuple)
        there = bytearray(self.symbols + 2)
        for symbol in payload:
            there[symbol] = 1
        for first in range(0, self.symbols, 3):
            bits, code = TRIPLES[there[first] | there[first + 1] << 1 | there[first + 2] << 2]
            stream.put(code, bits)

    def put(self, rows: NDArray[Any], fast: Fast) -> Payloads:
        there = np.zeros((len(rows), self.symbols), dtype=np.bool_)
        people, places = np.nonzero(rows < self.symbols)
        there[people, rows[people, places]] = True
        table, bits = np.zeros((len(rows), self.longest + 1), dtype=np.uint8), np.zeros(len(rows), dtype=np.int64)
        fast(write_triples)(there, table, bits, 0, TRIPLE_CODES, TRIPLE_SIZES)
        return written(table, bits)

    def count(self, payloads: Payloads, keep: bool, fast: Fast) -> tuple[Decoded, Counts]:
        rows, counts, flaws = self._room(payloads, keep)
        fast(read_triples)(
            *payloads.eights(),
            *(rows, counts, flaws, self.symbols, self.size, self.fewest, AHEAD),
        )
        return Decoded(rows if keep else None, flaws), counts


# Length and bits (the first one lowest) of the code of each pattern of three symbols, the first one lowest.
TRIPLES = ((2, 0b00), (3, 0b010), (3, 0b110), (3, 0b101), (3, 0b001), (3, 0b011), (4, 0b0111), (4, 0b1111))
TRIPLE_SIZES, TRIPLE_CODES = (np.array(column, dtype=np.int64) for column in zip(*TRIPLES, strict=True))
PATTERNS = tuple(
    next(pattern for pattern, (bits, code) in enumerate(TRIPLES) if ahead & ((1 << bits) - 1) == code)
    for ahead in range(16)
)

# For every four bits ahead: the pattern of three symbols, and eight times the length of its code.
AHEAD = np.array([pattern | TRIPLES[pattern][0] << 3 for pattern in PATTERNS], dtype=np.int64)


def shortest_members(symbols: int, size: int, dummies: int) -> RealMembers | DenseMembers:
    """The form that is shorter on average."""
    gaps, dense = RealMembers(symbols, size, dummies), DenseMembers(symbols, size, dummies)
    return gaps if gaps.bits <= dense.bits else dense
