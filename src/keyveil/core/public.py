"""What follows from a report's public bytes: a keyed hash of them, and indices taken from its words.

The hash is SipHash-2-4 (Aumasson and Bernstein, 2012). The collector computes the same words in bulk with
``keyveil.kernels.siphash``.
"""

from __future__ import annotations

from functools import lru_cache
from struct import unpack

import numpy as np
from numpy.typing import NDArray

_MASK = (1 << 64) - 1
_TWICE = (1 << 64) + 1
_LENGTH = 16 << 56  # the word that closes a message holds its length in the top byte


def public_word(public: bytes, key: bytes) -> int:
    """The 64-bit SipHash-2-4 of a report's sixteen public bytes under a key of sixteen bytes."""
    a, b, c, d = _started(key)
    first, second = unpack("<2Q", public)
    a, b, c, d = _two_rounds(a, b, c, d ^ first)
    a, b, c, d = _two_rounds(a ^ first, b, c, d ^ second)
    a, b, c, d = _two_rounds(a ^ second, b, c, d ^ _LENGTH)
    a, b, c, d = _two_rounds(a ^ _LENGTH, b, c ^ 0xFF, d)
    a, b, c, d = _two_rounds(a, b, c, d)
    return (a ^ b ^ c ^ d) & _MASK


@lru_cache(maxsize=64)
def _started(key: bytes) -> tuple[int, int, int, int]:
    """The state before the first word."""
    low, high = unpack("<2Q", key)
    return (
        low ^ 0x736F6D6570736575,
        high ^ 0x646F72616E646F6D,
        low ^ 0x6C7967656E657261,
        high ^ 0x7465646279746573,
    )


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


def _two_rounds(a: int, b: int, c: int, d: int, mask: int = _MASK, twice: int = _TWICE) -> tuple[int, int, int, int]:
    """Two SipRounds. A word times 2**64 + 1 stands twice in a row, so that a shift to the right turns it.

    ``b`` and ``d`` are below 2**64 before and after; what ``a`` and ``c`` have beyond is cut where it is added to.
    Written out, with constants as local names: a loop and global names would take a sixth of the time.
    """
    a = a + b & mask
    c = c + d
    b = (b * twice >> 51 ^ a) & mask
    d = (d * twice >> 48 ^ c) & mask
    a = (a * twice >> 32) + d
    c = c + b & mask
    d = (d * twice >> 43 ^ a) & mask
    b = (b * twice >> 47 ^ c) & mask
    c = c * twice >> 32
    a = a + b & mask
    c = c + d
    b = (b * twice >> 51 ^ a) & mask
    d = (d * twice >> 48 ^ c) & mask
    a = (a * twice >> 32) + d
    c = c + b & mask
    d = (d * twice >> 43 ^ a) & mask
    b = (b * twice >> 47 ^ c) & mask
    return a, b, c * twice >> 32, d
