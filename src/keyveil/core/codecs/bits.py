"""Bits one after the other, for codecs whose symbols take different numbers of them."""

from __future__ import annotations

_FULL = 1024  # bits that wait before whole bytes are taken off; a number that grew on would cost quadratic time


class BitStream:
    """Bits in the order in which they were put, the first one lowest; the time is linear in their number."""

    def __init__(self) -> None:
        self._octets = bytearray()
        self._waiting = self._held = 0  # bits that fill no whole byte yet, as a number, and how many they are

    def __len__(self) -> int:
        """How many bits there are."""
        return 8 * len(self._octets) + self._held

    def put(self, code: int, size: int) -> None:
        """Add the lowest ``size`` bits of a number that has no others."""
        self._waiting |= code << self._held
        self._held += size
        if self._held >= _FULL:
            whole = self._held // 8
            self._octets += (self._waiting & ((1 << 8 * whole) - 1)).to_bytes(whole, "little")
            self._waiting >>= 8 * whole
            self._held -= 8 * whole

    def to_bytes(self) -> bytes:
        """All of them, with zeros up to a whole byte."""
        return bytes(self._octets) + self._waiting.to_bytes((self._held + 7) // 8, "little")
