"""Randomness: uniform integers from an AES-256-CTR keystream keyed by the operating system.

Everything that a mechanism draws goes through four verbs on whole numbers: ``below``, ``choose``, ``chance`` and
``pick``. None of them rounds, so the law of a report is a ratio of integers that can be certified; and because
mechanisms know nothing but these verbs, ``privacy.enumerate`` can run the very same code over all outcomes.
The bulk verbs (``words``, ``below_many``, ``choose_many``, ``chance_many``) draw from the same law.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from numpy.typing import NDArray

from keyveil.core.errors import EntropyError, PrivacyError

_BUFFER = 1 << 12  # bytes kept ahead for single draws
_KEY = 32
_SLAB = 1 << 20  # the cipher is fastest in calls of about a mebibyte
_ZEROS = bytes(_SLAB)

_forks = 0


def _forked() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def os_bytes(count: int) -> bytes:
    """So many bytes from the operating system, or an error: never a weaker source."""
    try:
        drawn = os.urandom(count)
    except (OSError, NotImplementedError) as reason:
        raise EntropyError("coins/no-entropy", f"The operating system gave no randomness ({reason}).") from reason
    if len(drawn) != count:
        raise EntropyError(
            "coins/no-entropy", f"The operating system gave {len(drawn)} random bytes instead of {count}."
        )
    return drawn


def os_key() -> bytes:
    """Thirty-two bytes from the operating system."""
    return os_bytes(_KEY)


def refuse_negative(weights: Sequence[int]) -> None:
    """A weight below zero is a mistake in a mechanism: sampled it would pass for zero, so it must not pass at all."""
    if min(weights) < 0 or not any(weights):
        raise PrivacyError("privacy/weights", "Weights must not be negative, nor all be zero.")


def _keystream(key: bytes) -> CipherContext:
    # The nonce may be constant: every key is used for one stream only.
    return Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor()


class Coins(threading.local):
    """Cryptographic coins; every thread has a keystream of its own, and so has a child process made by ``fork``.

    For single draws the key is replaced with every refill and used bytes are wiped, so that whoever reads the memory
    of a device later cannot undo the noise of reports that left it.
    """

    def __init__(self) -> None:
        self._forks = -1  # forces a key at the first draw

    def _key(self) -> bytes:
        return os_key()

    def _stream(self) -> CipherContext:
        if self._forks != _forks:
            self._cipher = _keystream(self._key())
            self._ahead, self._used = bytearray(), 0
            self._forks = _forks
        return self._cipher

    # -- single draws, for devices ------------------------------------------------------------------------------

    def bytes(self, count: int) -> bytes:
        """``count`` uniform bytes."""
        stream = self._stream()
        if count > _BUFFER:
            return stream.update(bytes(count))
        if self._used + count > len(self._ahead):
            drawn = bytearray(stream.update(_ZEROS[: _KEY + _BUFFER]))
            self._cipher = _keystream(bytes(drawn[:_KEY]))
            self._ahead, self._used = drawn[_KEY:], 0
        start, self._used = self._used, self._used + count
        taken = bytes(self._ahead[start : self._used])
        self._ahead[start : self._used] = _ZEROS[:count]
        return taken

    def below(self, bound: int) -> int:
        """A uniform integer in [0, bound), by rejection; the number of rejections depends on the coins alone."""
        if bound < 1:
            raise PrivacyError("coins/bound", f"There is no number from 0 to below {bound}.")
        bits = (bound - 1).bit_length()
        if bits == 0:
            return 0
        size = (bits + 7) // 8
        excess = 8 * size - bits
        while True:
            drawn = int.from_bytes(self.bytes(size), "little") >> excess
            if drawn < bound:
                return drawn

    def choose(self, weights: Sequence[int]) -> int:
        """An index, with probability proportional to its integer weight."""
        refuse_negative(weights)
        drawn = self.below(sum(weights))
        for index, weight in enumerate(weights):
            if drawn < weight:
                return index
            drawn -= weight
        raise AssertionError("unreachable: the draw lies below the sum of the weights")

    def chance(self, numerator: int, denominator: int) -> bool:
        """True with probability numerator / denominator."""
        refuse_negative((numerator, denominator - numerator))
        return self.below(denominator) < numerator

    def pick(self, *runs: tuple[int, int]) -> tuple[int, int]:
        """One of many outputs that come in runs of equal weight: ``(count, weight)`` each; gives (run, rank in it)."""
        refuse_negative([count * weight for count, weight in runs])
        drawn = self.below(sum(count * weight for count, weight in runs))
        for run, (count, weight) in enumerate(runs):
            if drawn < count * weight:
                return run, drawn // weight
            drawn -= count * weight
        raise AssertionError("unreachable: the draw lies below the sum of the weights")

    def subset(self, size: int, bound: int) -> list[int]:
        """A uniform subset of [0, bound) with ``size`` members, sorted (Floyd's algorithm: ``size`` draws)."""
        members: set[int] = set()
        for top in range(bound - size, bound):
            drawn = self.below(top + 1)
            members.add(top if drawn in members else drawn)
        return sorted(members)

    # -- bulk draws, for simulation -----------------------------------------------------------------------------

    def words(self, count: int) -> NDArray[np.uint64]:
        """``count`` uniform 64-bit words."""
        words = np.empty(count, dtype=np.uint64)
        self.fill(words)
        return words

    def fill(self, words: NDArray[np.uint64]) -> None:
        """Overwrite an array with uniform words; a buffer used again spares the system the work of new pages."""
        stream = self._stream()
        room = words.reshape(-1).view(np.uint8).data
        for start in range(0, len(room), _SLAB):
            part = room[start : start + _SLAB]
            stream.update_into(_ZEROS[: len(part)], part)

    def below_many(self, bound: int, count: int) -> NDArray[np.int64]:
        """``count`` uniform integers in [0, bound), bound at most 2**63."""
        bits = (bound - 1).bit_length()
        if bits == 0:
            return np.zeros(count, dtype=np.int64)
        if bits <= 32:
            halves = self.words((count + 1) // 2).view(np.uint32)[:count]
            drawn = (halves >> np.uint32(32 - bits)).astype(np.int64)
        else:
            drawn = (self.words(count) >> np.uint64(64 - bits)).astype(np.int64)
        over = np.flatnonzero(drawn >= bound)
        if len(over):
            drawn[over] = self.below_many(bound, len(over))
        return drawn

    def choose_many(self, weights: Sequence[int], count: int) -> NDArray[np.int64]:
        """``count`` indices with exact integer weights of any size.

        A uniform real number is revealed 64 bits at a time and compared with the cumulative shares; in the rare case
        that the bits seen so far do not decide, more are drawn.
        """
        refuse_negative(weights)
        total = sum(weights)
        bounds, running = [], 0
        for weight in weights[:-1]:
            running += weight
            bounds.append(running)
        floors = np.array([(bound << 64) // total for bound in bounds], dtype=object)
        inner = np.array([min(floor, (1 << 64) - 1) for floor in floors], dtype=np.uint64)
        words = self.words(count)
        chosen: NDArray[np.int64] = np.searchsorted(inner, words, side="left").astype(np.int64)
        if len(inner):
            near = np.minimum(chosen, len(inner) - 1)
            for position in np.flatnonzero(inner[near] == words):
                chosen[position] = self._decide(int(words[position]), bounds, total)
        return chosen

    def _decide(self, revealed: int, bounds: Sequence[int], total: int) -> int:
        scale = 64
        while any((bound << scale) // total == revealed and (bound << scale) % total for bound in bounds):
            revealed = (revealed << 64) | int.from_bytes(self.bytes(8), "little")
            scale += 64
        return sum(1 for bound in bounds if (bound << scale) // total <= revealed)

    def chance_many(self, numerator: int, denominator: int, count: int) -> NDArray[np.bool_]:
        """``count`` independent events of probability numerator / denominator."""
        happened: NDArray[np.bool_] = self.choose_many((numerator, denominator - numerator), count) == 0
        return happened

    def __getstate__(self) -> Any:
        raise TypeError("Coins cannot be pickled: two processes must never share a keystream.")


class FreshCoins(Coins):
    """Coins of a device: every draw asks the operating system, and nothing is kept ahead.

    A machine that is resumed twice from one snapshot would draw the same noise twice from a buffered keystream.
    """

    def bytes(self, count: int) -> bytes:
        return os_bytes(count)

    def _stream(self) -> CipherContext:
        return _keystream(self._key())
