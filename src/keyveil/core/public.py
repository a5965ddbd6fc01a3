"""What follows from a report's public bytes: a keyed hash of them, and indices taken from its words.

The hash is SipHash-2-4 (Aumasson and Bernstein, 2012). The collector computes the same words in bulk with
``keyveil.kernels.siphash``.
"""

from __future__ import annotations

from struct import unpack_from

import numpy as np
from numpy.typing import NDArray

_MASK = (1 << 64) - 1
_TWICE = (1 << 64) + 1


def public_word(public: bytes, key: bytes) -> int:
    """The 64-bit SipHash-2-4 of a report's public bytes under a key of sixteen bytes."""
    low, high = unpack_from("<2Q", key)
    a, b, c, d = (
        low ^ 0x736F6D6570736575,
        high ^ 0x646F72616E646F6D,
        low ^ 0x6C7967656E657261,
        high ^ 0x7465646279746573,
    )
    whole = len(public) // 8
    last = len(public) % 256 << 56 | int.from_bytes(public[8 * whole :], "little")
    for word in (*unpack_from(f"<{whole}Q", public), last):
        a, b, c, d = _two_rounds(a, b, c, d ^ word)
        a ^= word
    a, b, c, d = _two_rounds(*_two_rounds(a, b, c ^ 0xFF, d))
    return (a ^ b ^ c ^ d) & _MASK


def public_index(word: int, bound: int) -> int:
    """The index below ``bound`` (at most 2**32) that a public word stands for."""
    return (word >> 32) * bound >> 32


def public_indices(words: NDArray[np.uint64], bound: int) -> NDArray[np.int64]:
    """The same for an array of words."""
    high = np.asarray(words, dtype=np.uint64) >> np.uint64(32)
    return (high * np.uint64(bound) >> np.uint64(32)).astype(np.int64)


def public_words_covering(bound: int) -> list[int]:
    """For every index below ``bound`` one word that maps to it: enumeration visits each index once."""
    return [-(-(index << 32) // bound) << 32 for index in range(bound)]


def _two_rounds(a: int, b: int, c: int, d: int) -> tuple[int, int, int, int]:
    """Two SipRounds. A word times 2**64 + 1 stands twice in a row, so that a shift to the right turns it.

    ``a``, ``b`` and ``d`` are below 2**64 before and after; what ``c`` has beyond is cut where it is added to.
    Written out: a loop and its names would take a seventh of the time.
    """
    a = a + b & _MASK
    c = c + d
    b = (b * _TWICE >> 51 ^ a) & _MASK
    d = (d * _TWICE >> 48 ^ c) & _MASK
    a = (a * _TWICE >> 32) + d & _MASK
    c = c + b & _MASK
    d = (d * _TWICE >> 43 ^ a) & _MASK
    b = (b * _TWICE >> 47 ^ c) & _MASK
    c = c * _TWICE >> 32
    a = a + b & _MASK
    c = c + d
    b = (b * _TWICE >> 51 ^ a) & _MASK
    d = (d * _TWICE >> 48 ^ c) & _MASK
    a = (a * _TWICE >> 32) + d & _MASK
    c = c + b & _MASK
    d = (d * _TWICE >> 43 ^ a) & _MASK
    b = (b * _TWICE >> 47 ^ c) & _MASK
    return a, b, c * _TWICE >> 32, d
