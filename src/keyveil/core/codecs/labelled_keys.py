"""Codecs for reports in which some keys speak and each of those says one label: signs, or cells of a value's range.

On the wire every silence between two speaking keys is a Rice code and every label a truncated binary code; the
silence after the last one ends the message. Keys that speak independently with one probability, and
uniform labels, come within five per cent of their entropy that way, or within a byte of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.core.codecs.bits import BitStream
from keyveil.core.codecs.loops import Counts, last_silence, read_labels, rice_table
from keyveil.core.codecs.payloads import Decoded, Fast, Flaws, Octets, Payloads, Places, malformed, plainly
from keyveil.core.codecs.writers import write_labels, written
from keyveil.core.report import Payload


@dataclass(frozen=True)
class LabelledKeys:
    """The sorted symbols ``key · labels + label`` of the keys that speak; in bulk [n, keys], 0 for silence.

    ``share`` is how often a key speaks: it fits the code to the noise, and nothing else.
    """

    keys: int
    labels: int
    share: Fraction

    @cached_property
    def shift(self) -> int:
        """Low bits of a silence that are written plainly.

        One more pays as long as silences of 2^shift keys are likelier than the golden section. Squaring is exact
        enough and the same on every machine, which the wire format needs.
        """
        shift, silence = 0, 1 - float(self.share)
        while silence + silence * silence > 1 and 1 << shift < self.keys:
            shift, silence = shift + 1, silence * silence
        return shift

    @property
    def bits(self) -> float:
        """Average length when every key speaks with probability ``share`` and says any label."""
        silent = 1 - float(self.share)
        rooms = np.arange(self.keys, 0, -1)  # keys that are left where a silence begins
        step, steps = silent ** (1 << self.shift), ((rooms - 1) >> self.shift).astype(np.float64)
        unary, ends = step * (1 - step**steps) / (1 - step), silent ** rooms.astype(np.float64)
        begins = np.full(self.keys, float(self.share))
        begins[0] = 1
        silences = float(begins @ (unary + ends + (1 + self.shift) * (1 - ends)))
        return silences + self.keys * float(self.share) * self._label_bits

    @property
    def longest(self) -> int:
        """All keys speak, each after a silence of length zero and with a long label: skipping one is never longer."""
        label = self._short + (self._spare < self.labels)
        return (self.keys * (1 + self.shift + label) + 8) // 8

    varies = True

    def encode(self, payload: Payload) -> bytes:
        stream = BitStream()
        self.write(payload, stream)
        return stream.to_bytes()

    def write(self, payload: Payload, stream: BitStream) -> None:
        """Put the bits of a payload into a stream."""
        self._check(payload)
        assert isinstance(payload, tuple)
        next_key = 0
        for symbol in payload:
            key, label = divmod(symbol, self.labels)
            unary, low = divmod(key - next_key, 1 << self.shift)
            stream.put((low << (unary + 1)) | ((1 << unary) - 1), unary + 1 + self.shift)
            stream.put(*self._label_code(label))
            next_key = key + 1
        last = last_silence(self.keys - next_key, self.shift)
        stream.put((1 << last) - 1, last)

    def put(self, rows: NDArray[Any], fast: Fast) -> Payloads:
        return written(*self.put_bits(self.spoken(rows), 0, fast))

    def put_bits(self, rows: NDArray[Any], first: int, fast: Fast) -> tuple[Octets, Places]:
        """Labels [n, keys], 0 for silence, as rows of bytes after ``first`` zeros; and how many bits each takes."""
        table, bits = np.zeros((len(rows), self.longest + 1), dtype=np.uint8), np.zeros(len(rows), dtype=np.int64)
        fast(write_labels)(rows, table, bits, first, self.shift, self.labels)
        return table, bits

    def spoken(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Payloads in bulk form as labels [n, keys], 0 for silence; the way back is ``packed``."""
        return rows

    def decode(self, data: bytes) -> Payload:
        return self.unstack(self.read(Payloads.of([data])).without_flaw())[0]

    def read(self, payloads: Payloads, keep: bool = True, fast: Fast = plainly) -> Decoded:
        """Rows and flaws of encoded payloads; without rows unless they are to be kept."""
        rows = np.zeros((len(payloads), self.keys) if keep else (1, 0), dtype=self.dtype)
        flaws = self._read(payloads, rows, np.zeros(0, dtype=np.int64), fast)
        return Decoded(self.packed(rows) if keep else None, flaws)

    def count(self, payloads: Payloads, fast: Fast = plainly) -> tuple[Counts, Flaws]:
        """How many payloads without a flaw say each label about each key: int64[labels, keys]; and the flaws."""
        counts = np.zeros((self.keys, self.labels), dtype=np.int64)
        flaws = self._read(payloads, np.zeros((1, 0), dtype=self.dtype), counts.reshape(-1), fast)
        return counts.T, flaws

    def _read(self, payloads: Payloads, rows: NDArray[Any], counts: Counts, fast: Fast) -> Flaws:
        flaws = np.zeros(len(payloads), dtype=np.int8)
        table = rice_table(self.shift, self.labels)
        fast(read_labels)(*payloads.eights(), rows, counts, flaws, self.keys, self.shift, self.labels, table)
        return flaws

    def packed(self, rows: NDArray[Any]) -> NDArray[Any]:
        """The bulk form of labels in rows [n, keys], 0 for silence."""
        return rows

    def stack(self, payloads: Sequence[Payload]) -> NDArray[Any]:
        rows = np.zeros((len(payloads), self.keys), dtype=self.dtype)
        keys, labels = np.divmod(_symbols(payloads), self.labels)
        rows[_people(payloads), keys] = labels + 1
        return rows

    def unstack(self, rows: NDArray[Any]) -> list[Payload]:
        people, keys = np.nonzero(rows)
        symbols = (keys * self.labels + rows[people, keys].astype(np.int64) - 1).tolist()
        ends = np.cumsum(np.bincount(people, minlength=len(rows))).tolist()
        return [tuple(symbols[start:end]) for start, end in zip([0, *ends], ends, strict=False)]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The smallest unsigned integer that holds silence and every label."""
        return np.min_scalar_type(self.labels)

    @cached_property
    def _short(self) -> int:
        """Bits of the shorter label codes; the others take one more."""
        return self.labels.bit_length() - 1

    @cached_property
    def _spare(self) -> int:
        """How many labels have the shorter code."""
        return (2 << self._short) - self.labels

    @property
    def _label_bits(self) -> float:
        return self._short + (self.labels - self._spare) / self.labels

    def _label_code(self, label: int) -> tuple[int, int]:
        if label < self._spare:
            return label, self._short
        stretched = label + self._spare
        return stretched >> 1 | (stretched & 1) << self._short, self._short + 1

    def _check(self, payload: Payload) -> None:
        if not isinstance(payload, tuple) or not all(isinstance(symbol, int) for symbol in payload):
            raise malformed("it is not a set of keys with labels")
        rising = all(low // self.labels < high // self.labels for low, high in pairwise(payload))
        if not rising or (payload and not 0 <= payload[0] <= payload[-1] < self.keys * self.labels):
            raise malformed(f"its keys are not distinct, sorted and below {self.keys}")


@dataclass(frozen=True)
class SignedKeys(LabelledKeys):
    """Two labels, minus and plus; in bulk two planes of bits uint64[n, 2, words], one for each sign."""

    labels: int = 2
    share: Fraction = Fraction(1, 2)

    @property
    def words(self) -> int:
        return (self.keys + 63) // 64

    def stack(self, payloads: Sequence[Payload]) -> NDArray[Any]:
        planes = np.zeros((len(payloads), 2, self.words), dtype=np.uint64)
        keys, signs = np.divmod(_symbols(payloads), 2)
        lanes = np.uint64(1) << (keys & 63).astype(np.uint64)
        np.bitwise_or.at(planes, (_people(payloads), signs, keys >> 6), lanes)
        return planes

    def packed(self, rows: NDArray[Any]) -> NDArray[Any]:
        octets = np.zeros((len(rows), 2, 8 * self.words), dtype=np.uint8)
        for sign in (0, 1):
            bits = np.packbits(rows == sign + 1, axis=1, bitorder="little")
            octets[:, sign, : bits.shape[1]] = bits
        return octets.view("<u8").astype(np.uint64, copy=False)

    def spoken(self, rows: NDArray[Any]) -> NDArray[Any]:
        minus, plus = (_unpacked(rows[:, sign], self.keys) for sign in (0, 1))
        return minus + 2 * plus

    def unstack(self, rows: NDArray[Any]) -> list[Payload]:
        octets = np.ascontiguousarray(rows, dtype="<u8").view(np.uint8)
        bits = np.unpackbits(octets, axis=2, bitorder="little")[:, :, : self.keys]
        return [tuple(np.flatnonzero(person.T).tolist()) for person in bits]


def _unpacked(planes: NDArray[np.uint64], length: int) -> NDArray[np.uint8]:
    """Words of bits [n, words] as single bits [n, length]."""
    octets = np.ascontiguousarray(planes, dtype="<u8").view(np.uint8)
    return np.unpackbits(octets, axis=1, bitorder="little")[:, :length]


def _symbols(payloads: Sequence[Payload]) -> NDArray[np.int64]:
    return np.fromiter((symbol for payload in payloads for symbol in payload), dtype=np.int64)  # type: ignore[union-attr]


def _people(payloads: Sequence[Payload]) -> NDArray[np.int64]:
    """For each symbol of all payloads whose it is."""
    return np.repeat(np.arange(len(payloads)), [len(payload) for payload in payloads])  # type: ignore[arg-type]
