"""What follows from a report's public bytes: a keyed hash of them, and indices taken from its words.

The hash is SipHash-2-4 (Aumasson and Bernstein, 2012). The collector computes the same words in bulk with
``keyveil.kernels.siphash``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_MASK = (1 << 64) - 1
_TWICE = (1 << 64) + 1


def public_word(public: bytes, key: bytes) -> int:
    """The 64-bit SipHash-2-4 of a report's public bytes under a key of sixteen bytes."""
    low, high = int.from_bytes(key[:8], "little"), int.from_bytes(key[8:16], "little")
    state = (
        low ^ 0x736F6D6570736575,
        high ^ 0x646F72616E646F6D,
        low ^ 0x6C7967656E657261,
        high ^ 0x7465646279746573,
    )
    whole = len(public) // 8 * 8
    last = len(public) % 256 << 56 | int.from_bytes(public[whole:], "little")
    for word in [int.from_bytes(public[at : at + 8], "little") for at in range(0, whole, 8)] + [last]:
        a, b, c, d = state
        a, b, c, d = _rounds(a, b, c, d ^ word, 2)
        state = a ^ word, b, c, d
    a, b, c, d = state
    a, b, c, d = _rounds(a, b, c ^ 0xFF, d, 4)
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


def _rounds(a: int, b: int, c: int, d: int, count: int) -> tuple[int, int, int, int]:
    """SipRounds. A word times 2**64 + 1 stands twice in a row, so that a shift to the right turns it.

    ``a``, ``b`` and ``d`` are below 2**64 before and after; what ``c`` has beyond is cut where it is added to.
    """
    for _ in range(count):
        a = a + b & _MASK
        c = c + d
        b = (b * _TWICE >> 51 ^ a) & _MASK
        d = (d * _TWICE >> 48 ^ c) & _MASK
        a = (a * _TWICE >> 32) + d & _MASK
        c = c + b & _MASK
        d = (d * _TWICE >> 43 ^ a) & _MASK
        b = (b * _TWICE >> 47 ^ c) & _MASK
        c = c * _TWICE >> 32
    return a, b, c, d
