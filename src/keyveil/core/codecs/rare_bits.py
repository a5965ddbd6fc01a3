"""The wire form of bits among which ones are rarer than zeros: unary encodings and filters, after their noise.

Reports of a round are padded to the longest one, so a code that is short for few ones must not be long for many. A
first bit says how the others are written: 0 for the places of the ones, where that is shorter than the bits; 1 for the
bits as they are. Every vector has exactly one encoding.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from keyveil.core.codecs.bits import BitStream
from keyveil.core.codecs.labelled_keys import LabelledKeys
from keyveil.core.codecs.loops import read_rare_bits, rice_table
from keyveil.core.codecs.members import AHEAD, TRIPLE_CODES, TRIPLE_SIZES, TRIPLES, DenseMembers
from keyveil.core.codecs.payloads import Decoded, Fast, Payloads, plainly
from keyveil.core.codecs.symbols import BitVector
from keyveil.core.codecs.writers import write_triples, written
from keyveil.core.report import Payload

RARE = Fraction(1, 3)  # below this share of ones their gaps are shorter than patterns of three bits
PLACES, PLAIN = 0, 1

_BY_THREES = -1  # in the place of a shift


def noisy_bits(length: int, ones: Fraction) -> BitVector:
    """The form of so many bits, of which ``ones`` are ones on average."""
    share = ones / length
    if length <= 8:
        return BitVector(length)
    if share < RARE or 5 + _by_threes(length, share) < 8 * BitVector(length).size:  # a first bit, and half of a byte
        return RareBits(length, share)
    return BitVector(length)


@dataclass(frozen=True)
class RareBits(BitVector):
    """Bits of which a ``share`` are ones: it fits the code to the noise, and nothing else."""

    share: Fraction

    varies = True

    @cached_property
    def places(self) -> LabelledKeys | DenseMembers:
        """How the ones are told: by the gaps between them, or three bits at a time."""
        if self.share < RARE:
            return LabelledKeys(self.length, 1, self.share)
        return DenseMembers(self.length, self.length, self.length)

    @cached_property
    def bits(self) -> float:
        """Average length of the places, if every bit is a one as often as another; with plain bits it is below."""
        gaps = isinstance(self.places, LabelledKeys)
        return 1 + (self.places.bits if gaps else float(_by_threes(self.length, self.share)))

    @property
    def longest(self) -> int:
        return self.length // 8 + 1

    def encode(self, payload: Payload) -> bytes:
        plain = BitVector(self.length).encode(payload)
        stream = BitStream()
        stream.put(PLACES, 1)
        self.places.write(_ones(plain), stream)
        if len(stream) > self.length:
            return (int.from_bytes(plain, "little") << 1 | PLAIN).to_bytes(self.longest, "little")
        return stream.to_bytes()

    def put(self, rows: NDArray[np.uint64], fast: Fast) -> Payloads:
        """The places of the ones, or the bits as they are where those take no more room."""
        ones = self.bits_of(rows)
        if isinstance(self.places, LabelledKeys):
            table, bits = self.places.put_bits(ones.view(np.uint8), 1, fast)
        else:
            room = self.places.longest + 1
            table, bits = np.zeros((len(rows), room), dtype=np.uint8), np.zeros(len(rows), dtype=np.int64)
            fast(write_triples)(ones, table, bits, 1, TRIPLE_CODES, TRIPLE_SIZES)
        plain = bits > self.length
        shifted = np.ones((int(plain.sum()), self.length + 1), dtype=np.bool_)
        shifted[:, 1:] = ones[plain]
        table[plain, : self.longest] = np.packbits(shifted, axis=1, bitorder="little")
        return written(table, np.where(plain, 8 * self.longest, bits))

    def bits_of(self, rows: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Payloads in bulk form as single bits [n, length]."""
        octets = np.ascontiguousarray(rows, dtype="<u8").view(np.uint8)
        return np.unpackbits(octets, axis=1, bitorder="little")[:, : self.length].astype(np.bool_)

    def decode(self, data: bytes) -> Payload:
        return self.unstack(self.read(Payloads.of([data])).without_flaw())[0]

    def read(self, payloads: Payloads, keep: bool = True, fast: Fast = plainly) -> Decoded:
        rows = np.zeros((len(payloads) if keep else 1, self.words), dtype=np.uint64)
        flaws = np.zeros(len(payloads), dtype=np.int8)
        shift = self.places.shift if isinstance(self.places, LabelledKeys) else _BY_THREES
        fast(read_rare_bits)(
            *payloads.eights(),
            *(rows, flaws, self.length, shift, rice_table(max(shift, 0)), AHEAD, TRIPLE_SIZES),
        )
        return Decoded(rows if keep else None, flaws)


def _ones(payload: bytes) -> tuple[int, ...]:
    bits = np.unpackbits(np.frombuffer(payload, np.uint8), bitorder="little")
    return tuple(np.flatnonzero(bits).tolist())


def _by_threes(length: int, share: Fraction) -> Fraction:
    """Bits that patterns of three take on average; exact, because a choice of form rests on it."""

    def average(width: int) -> Fraction:
        ones = ((pattern.bit_count(), bits) for pattern, (bits, _) in enumerate(TRIPLES[: 1 << width]))
        return sum((bits * share**one * (1 - share) ** (width - one) for one, bits in ones), Fraction(0))

    whole, rest = divmod(length, 3)
    return whole * average(3) + (average(rest) if rest else 0)
