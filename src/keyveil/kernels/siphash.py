"""SipHash-2-4 of many sixteen-byte messages under one key: ``core.public.public_word`` in bulk."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from keyveil.kernels.backend import kernel

AT_ONCE = 256  # messages whose words are laid side by side, so that the compiler hashes several in one register
ROOM = 6 * AT_ONCE  # words: four of state and two of message for each
STEPS = 64  # a hash costs a twin as much as so many simple steps
_LENGTH = 16 << 56  # the word that closes a message holds its length in the top byte


def siphash_many(key: bytes, messages: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """The 64-bit hashes of ``messages[n, 16]``."""
    return siphash_pairs(sip_state(key), as_pairs(messages))


def sip_state(key: bytes) -> NDArray[np.uint64]:
    """The four words that hashing starts from, for a key of sixteen bytes."""
    low, high = np.frombuffer(key, dtype="<u8", count=2)
    return np.array(
        [
            low ^ np.uint64(0x736F6D6570736575),
            high ^ np.uint64(0x646F72616E646F6D),
            low ^ np.uint64(0x6C7967656E657261),
            high ^ np.uint64(0x7465646279746573),
        ],
        dtype=np.uint64,
    )


def as_pairs(messages: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Messages of sixteen bytes, [n, 16], as two words each, [n, 2]."""
    return np.ascontiguousarray(messages).view("<u8").reshape(-1, 2).astype(np.uint64, copy=False)


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


def sip_rounds(a: np.uint64, b: np.uint64, c: np.uint64, d: np.uint64) -> tuple[np.uint64, ...]:
    """Two rounds on scalars; loops call it, and their compiler makes vectors of it."""
    a, b, c, d = sip_round(a, b, c, d)
    return sip_round(a, b, c, d)


def sip_round(a: np.uint64, b: np.uint64, c: np.uint64, d: np.uint64) -> tuple[np.uint64, ...]:
    """One round."""
    a = a + b
    b = ((b << np.uint64(13)) | (b >> np.uint64(51))) ^ a
    a = (a << np.uint64(32)) | (a >> np.uint64(32))
    c = c + d
    d = ((d << np.uint64(16)) | (d >> np.uint64(48))) ^ c
    a = a + d
    d = ((d << np.uint64(21)) | (d >> np.uint64(43))) ^ a
    c = c + b
    b = ((b << np.uint64(17)) | (b >> np.uint64(47))) ^ c
    c = (c << np.uint64(32)) | (c >> np.uint64(32))
    return a, b, c, d


def sip_block(
    start: NDArray[np.uint64],
    words: NDArray[np.uint64],
    first: int,
    count: int,
    room: NDArray[np.uint64],
    hashes: NDArray[np.uint64],
) -> None:
    """The hashes of ``count`` messages from ``first`` on; ``room`` is for ROOM words.

    Two rounds at a time for all messages: rounds of one message wait for each other, and those of others fill the gaps.
    Words lie in one array at fixed distances, so that the compiler sees that they do not overlap.
    """
    b, c, d, x, y = AT_ONCE, 2 * AT_ONCE, 3 * AT_ONCE, 4 * AT_ONCE, 5 * AT_ONCE
    length = np.uint64(_LENGTH)
    mine = words[first : first + count]
    for i in range(count):
        room[x + i] = mine[i, 0]
        room[y + i] = mine[i, 1]
    s, t, u, v = start[0], start[1], start[2], start[3]
    for i in range(count):
        p, q, r, o = sip_rounds(s, t, u, v ^ room[x + i])
        room[i], room[b + i], room[c + i], room[d + i] = p ^ room[x + i], q, r, o
    for i in range(count):
        p, q, r, o = sip_rounds(room[i], room[b + i], room[c + i], room[d + i] ^ room[y + i])
        room[i], room[b + i], room[c + i], room[d + i] = p ^ room[y + i], q, r, o
    for i in range(count):
        p, q, r, o = sip_rounds(room[i], room[b + i], room[c + i], room[d + i] ^ length)
        room[i], room[b + i], room[c + i], room[d + i] = p ^ length, q, r ^ np.uint64(0xFF), o
    for i in range(count):
        p, q, r, o = sip_rounds(room[i], room[b + i], room[c + i], room[d + i])
        room[i], room[b + i], room[c + i], room[d + i] = p, q, r, o
    for i in range(count):
        p, q, r, o = sip_rounds(room[i], room[b + i], room[c + i], room[d + i])
        hashes[i] = p ^ q ^ r ^ o


SIP = (sip_round, sip_rounds, sip_block)


@kernel(twin=_hash_pairs_numpy, steps=SIP, work=lambda start, words: STEPS * len(words))
def siphash_pairs(start: NDArray[np.uint64], words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The hashes of messages as pairs of words, ``words[n, 2]``, from a state of ``sip_state`` on."""
    n = len(words)
    hashes = np.empty(n, dtype=np.uint64)
    room = np.empty(ROOM, dtype=np.uint64)
    for first in range(0, n, AT_ONCE):
        sip_block(start, words, first, min(AT_ONCE, n - first), room, hashes[first:])
    return hashes
