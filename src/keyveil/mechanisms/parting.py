"""Who belongs to which part of the people: it follows from a report's public bytes, and from nothing about its record.

Rounds of a protocol ask parts of the people, and so do mechanisms side by side in one round. Both divide the range of
one keyed hash of the public bytes, the *parting word*.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from keyveil.core.errors import ProtocolError
from keyveil.core.public import public_word
from keyveil.kernels.siphash import siphash_many

_HALF = 1 << 32


@dataclass(frozen=True)
class Part:
    """A share of the people: those whose parting word lies between two fractions of its range."""

    start: Fraction = Fraction(0)
    stop: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.stop <= 1:
            raise ProtocolError("protocol/part", f"People are parted within 0 to 1, not {self.start} to {self.stop}.")

    def holds(self, word: int) -> bool:
        """Whether the part has the person with this parting word."""
        return self.first <= word >> 32 < self.last

    def members(self, words: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """``holds`` for many people."""
        upper = (words >> np.uint64(32)).astype(np.int64)
        inside: NDArray[np.bool_] = (self.first <= upper) & (upper < self.last)
        return inside

    @property
    def first(self) -> int:
        """The least upper half of a parting word that belongs to the part."""
        return _bound(self.start)

    @property
    def last(self) -> int:
        """The least upper half of a parting word that lies behind the part."""
        return _bound(self.stop)

    @property
    def share(self) -> Fraction:
        """The probability that a parting word belongs to the part."""
        return Fraction(self.last - self.first, _HALF)


EVERYONE = Part()


def in_parts(*shares: Fraction) -> tuple[Part, ...]:
    """Disjoint parts that together are everyone, of the given relative shares."""
    total = sum(shares, Fraction(0))
    edges = [sum(shares[:count], Fraction(0)) / total for count in range(len(shares) + 1)]
    return tuple(Part(start, stop) for start, stop in pairwise(edges))


def parting_word(public: bytes, key: bytes) -> int:
    """The word that parts people, from public bytes and the hash of the document that they take part in.

    Never a mechanism's own word of the same bytes: both read the leading bits, so the people of one part would all be
    asked about the same few keys.
    """
    return public_word(public, _parting_key(key))


def parting_words(publics: NDArray[np.uint8], key: bytes) -> NDArray[np.uint64]:
    """``parting_word`` for many people, ``publics[n, 16]``."""
    return siphash_many(_parting_key(key), publics)


def _parting_key(key: bytes) -> bytes:
    return hashlib.sha256(key + b"part").digest()[:16]


def _bound(share: Fraction) -> int:
    return -(-share.numerator * _HALF // share.denominator)
