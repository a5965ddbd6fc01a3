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
from keyveil.core.codecs.members import AHEAD, TRIPLES, DenseMembers
from keyveil.core.codecs.payloads import (
    ENDS,
    FINE,
    FOLLOWS,
    FORM,
    LENGTH,
    RANGE,
    Decoded,
    Fast,
    Flaws,
    Octets,
    Payloads,
    Places,
    plainly,
)
from keyveil.core.codecs.symbols import BitVector
from keyveil.core.report import Payload

RARE = Fraction(1, 3)  # below this share of ones their gaps are shorter than patterns of three bits
PLACES, PLAIN = 0, 1

_BY_THREES = -1  # in the place of a shift
_SIZES = np.array([bits for bits, _ in TRIPLES], dtype=np.int64)


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

    def decode(self, data: bytes) -> Payload:
        decoded = self.read(Payloads.of([data]))
        decoded.refuse_flaws()
        return self.unstack(decoded.rows)[0]

    def read(self, payloads: Payloads, keep: bool = True, fast: Fast = plainly) -> Decoded:
        rows = np.zeros((len(payloads) if keep else 1, self.words), dtype=np.uint64)
        flaws = np.zeros(len(payloads), dtype=np.int8)
        shift = self.places.shift if isinstance(self.places, LabelledKeys) else _BY_THREES
        fast(read_rare_bits)(
            *(payloads.data, payloads.starts, payloads.stops),
            *(rows, flaws, self.length, shift, AHEAD, _SIZES),
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
        at, stop = 8 * starts[i], 8 * stops[i]  # in bits
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
        elif shift < 0:
            while key < length and flaw == FINE:
                if at >= stop:
                    flaw = ENDS
                    break
                window = np.int64(data[at >> 3])
                if at + 8 < stop:
                    window |= np.int64(data[(at >> 3) + 1]) << 8
                found = ahead[(window >> (at & 7)) & 15]
                at += found >> 3
                for place in range(3):
                    if (found >> place) & 1:
                        if key + place >= length:
                            flaw = RANGE
                        else:
                            rows[row, (key + place) >> 6] |= one << np.uint64((key + place) & 63)
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
                    flaw = ENDS
                    break
                low = np.int64(0)
                for octet in range((shift + (at & 7) + 7) >> 3):
                    low |= np.int64(data[(at >> 3) + octet]) << (8 * octet)
                key += (unary << shift) + ((low >> (at & 7)) & ((1 << shift) - 1))
                at += shift
                if key >= length:
                    flaw = RANGE
                    break
                rows[row, key >> 6] |= one << np.uint64(key & 63)
                key += 1
        # What is left is the padding of the last byte: fewer than eight bits, all zero.
        if flaw == FINE and at > stop:
            flaw = ENDS
        if flaw == FINE and (stop - at >= 8 or (at < stop and data[at >> 3] >> (at & 7))):
            flaw = FOLLOWS
        # The shorter form is the right one, and plain bits where both are equal.
        taken = at - begin
        if plain and flaw == FINE:
            taken, silent = 0, 0
            for key in range(0, length, 3 if shift < 0 else 1):
                if shift < 0:
                    pattern = np.int64(0)
                    for place in range(min(3, length - key)):
                        bit = (rows[row, (key + place) >> 6] >> np.uint64((key + place) & 63)) & one
                        pattern |= np.int64(bit) << place
                    taken += sizes[pattern]
                elif (rows[row, key >> 6] >> np.uint64(key & 63)) & one:
                    taken += (silent >> shift) + 1 + shift
                    silent = 0
                else:
                    silent += 1
            if shift >= 0 and silent:
                taken += ((silent - 1) >> shift) + 1
        if flaw == FINE and (taken >= length) != (plain == 1):
            flaw = FORM
        flaws[i] = flaw
