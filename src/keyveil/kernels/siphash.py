"""SipHash-2-4 of many sixteen-byte messages under one key: ``core.public.public_word`` in bulk."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from keyveil.kernels.backend import kernel

_LENGTH = 16 << 56  # the word that closes a message holds its length in the top byte


def siphash_many(key: bytes, messages: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """The 64-bit hashes of ``messages[n, 16]``."""
    low, high = np.frombuffer(key, dtype="<u8", count=2)
    words = np.ascontiguousarray(messages).view("<u8").reshape(-1, 2).astype(np.uint64, copy=False)
    start = np.array(
        [
            low ^ np.uint64(0x736F6D6570736575),
            high ^ np.uint64(0x646F72616E646F6D),
            low ^ np.uint64(0x6C7967656E657261),
            high ^ np.uint64(0x7465646279746573),
        ],
        dtype=np.uint64,
    )
    return _hash_pairs(start, words)


def _hash_pairs_numpy(start: NDArray[np.uint64], words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    a, b, c, d = (np.full(len(words), part) for part in start)
    for word in (words[:, 0], words[:, 1], np.full(len(words), _LENGTH, dtype=np.uint64)):
        a, b, c, d = _round(*_round(a, b, c, d ^ word))
        a = a ^ word
    a, b, c, d = _round(*_round(*_round(*_round(a, b, c ^ np.uint64(0xFF), d))))
    return a ^ b ^ c ^ d


_Words = NDArray[np.uint64]


def _round(a: _Words, b: _Words, c: _Words, d: _Words) -> tuple[_Words, _Words, _Words, _Words]:
    a, c = a + b, c + d
    b, d = _turn(b, 13) ^ a, _turn(d, 16) ^ c
    a = _turn(a, 32)
    a, c = a + d, c + b
    d, b = _turn(d, 21) ^ a, _turn(b, 17) ^ c
    return a, b, _turn(c, 32), d


def _turn(words: _Words, places: int) -> _Words:
    return words << np.uint64(places) | words >> np.uint64(64 - places)


@kernel(twin=_hash_pairs_numpy)
def _hash_pairs(start: NDArray[np.uint64], words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    hashes = np.empty(len(words), dtype=np.uint64)
    for i in range(len(words)):
        a, b, c, d = start[0], start[1], start[2], start[3]
        for step in range(10):  # two rounds for each of the three words, then four to close
            if step == 0:
                d ^= words[i, 0]
            elif step == 2:
                a ^= words[i, 0]
                d ^= words[i, 1]
            elif step == 4:
                a ^= words[i, 1]
                d ^= np.uint64(_LENGTH)
            elif step == 6:
                a ^= np.uint64(_LENGTH)
                c ^= np.uint64(0xFF)
            a += b
            b = ((b << np.uint64(13)) | (b >> np.uint64(51))) ^ a
            a = (a << np.uint64(32)) | (a >> np.uint64(32))
            c += d
            d = ((d << np.uint64(16)) | (d >> np.uint64(48))) ^ c
            a += d
            d = ((d << np.uint64(21)) | (d >> np.uint64(43))) ^ a
            c += b
            b = ((b << np.uint64(17)) | (b >> np.uint64(47))) ^ c
            c = (c << np.uint64(32)) | (c >> np.uint64(32))
        hashes[i] = a ^ b ^ c ^ d
    return hashes
