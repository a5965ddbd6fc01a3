"""Randomness: uniform integers from an AES-256-CTR keystream keyed by the operating system.

Everything that a mechanism draws for one report goes through a few verbs on whole numbers: ``below``, ``choose``,
``chance``, ``pick``, ``subset`` (as a vector: ``among``), and for many draws of one kind ``chances`` and
``below_each``. None of them rounds, so the law of a report is a ratio of integers that can be certified; and because
mechanisms know nothing but these verbs, ``privacy.enumerate`` can run the very same code over all outcomes. Which bytes
each verb reads is told in docs/wire.md.
The bulk verbs (``words``, ``below_many``, ``choose_many``, ``chance_many``, ``chance_each``) draw from the same law.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from struct import unpack
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from numpy.typing import NDArray

from keyveil.core.errors import EntropyError, PrivacyError

_BUFFER = 1 << 12  # bytes kept ahead for single draws
_KEY = 32
_SLAB = 1 << 20  # the cipher is fastest in calls of about a mebibyte
_ZEROS = bytes(_SLAB)
_FEW = 32  # numbers that are quicker one by one than in an array
_FORMATS = {1: "B", 2: "H", 4: "I", 8: "Q"}  # of ``struct``, by bytes

_FROM_ZERO = modes.CTR(bytes(16))

_kept: dict[int, tuple[tuple[int, ...], list[int]]] = {}  # weights and their running sums, by identity

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
        raise _negative()


def _negative() -> PrivacyError:
    return PrivacyError("privacy/weights", "Weights must not be negative, nor all be zero.")


def _bounds(weights: Sequence[int]) -> list[int]:
    """Running sums of weights; those of long tuples, which mechanisms keep, are kept too."""
    kept = _kept.get(id(weights)) if len(weights) > _FEW else None
    if kept is not None and kept[0] is weights:
        return kept[1]
    refuse_negative(weights)
    bounds = list(accumulate(weights))
    if len(weights) > _FEW and type(weights) is tuple:  # which cannot change
        if len(_kept) >= _FEW:
            _kept.clear()
        _kept[id(weights)] = weights, bounds
    return bounds


def _width(bound: int) -> tuple[int, int]:
    """Bytes that are read for a number below ``bound``, and their low bits that are not used."""
    bits = (bound - 1).bit_length()
    size = (bits + 7) // 8
    return size, 8 * size - bits


def _keystream(key: bytes) -> CipherContext:
    # The nonce may be constant: every key is used for one stream only.
    return Cipher(algorithms.AES256(key), _FROM_ZERO).encryptor()


class _Ahead:
    """A keystream, and bytes of it that were drawn ahead; those that were used are zero.

    An object of its own: attributes of a ``threading.local`` take several times as long, and devices draw byte by byte.
    """

    __slots__ = ("cipher", "forks", "octets", "used")
    cipher: CipherContext  # from the first draw on

    def __init__(self) -> None:
        self.forks = -1  # forces a key at the first draw
        self.octets, self.used = memoryview(b""), 0


class Coins(threading.local):
    """Cryptographic coins; every thread has a keystream of its own, and so has a child process made by ``fork``.

    For single draws the key is replaced with every refill and used bytes are wiped, so that whoever reads the memory
    of a device later cannot undo the noise of reports that left it.
    """

    def __init__(self) -> None:
        self._own = _Ahead()

    def _key(self) -> bytes:
        return os_key()

    def _stream(self) -> CipherContext:
        own = self._own
        if own.forks != _forks:
            self._begin(own)
        return own.cipher

    def _begin(self, own: _Ahead) -> None:
        own.cipher = _keystream(self._key())
        own.octets, own.used = memoryview(b""), 0
        own.forks = _forks

    # -- single draws, for devices ------------------------------------------------------------------------------

    def bytes(self, count: int) -> bytes:
        """``count`` uniform bytes."""
        own = self._own
        if own.forks != _forks:
            self._begin(own)
        octets, start = own.octets, own.used
        end = start + count
        if end > len(octets):
            if count > _BUFFER:
                drawn = own.cipher.update(bytes(_KEY + count))
                own.cipher = _keystream(drawn[:_KEY])
                return drawn[_KEY:]
            refill = bytearray(own.cipher.update(_ZEROS[: _KEY + _BUFFER]))
            own.cipher = _keystream(bytes(refill[:_KEY]))
            own.octets = octets = memoryview(refill[_KEY:])
            start, end = 0, count
        own.used = end
        part = octets[start:end]
        taken = part.tobytes()
        part[:] = bytes(count)
        return taken

    def below(self, bound: int) -> int:
        """A uniform integer in [0, bound), by rejection; the number of rejections depends on the coins alone."""
        if bound < 1:
            raise PrivacyError("coins/bound", f"There is no number from 0 to below {bound}.")
        bits = (bound - 1).bit_length()  # as ``_width`` does; a call would take as long as all of this
        if not bits:
            return 0
        size = bits + 7 >> 3
        excess = 8 * size - bits
        while True:
            drawn = int.from_bytes(self.bytes(size), "little") >> excess
            if drawn < bound:
                return drawn

    def choose(self, weights: Sequence[int]) -> int:
        """An index, with probability proportional to its integer weight."""
        bounds = _bounds(weights)
        return bisect_right(bounds, self.below(bounds[-1]))

    def chance(self, numerator: int, denominator: int) -> bool:
        """True with probability numerator / denominator."""
        if not 0 <= numerator <= denominator or not denominator:
            raise _negative()
        return self.below(denominator) < numerator

    def pick(self, *runs: tuple[int, int]) -> tuple[int, int]:
        """One of many outputs that come in runs of equal weight: ``(count, weight)`` each; gives (run, rank in it)."""
        total = 0
        for count, weight in runs:
            together = count * weight
            if together < 0:
                raise _negative()
            total += together
        if not total:
            raise _negative()
        drawn = self.below(total)
        for run, (count, weight) in enumerate(runs):
            together = count * weight
            if drawn < together:
                return run, drawn // weight
            drawn -= together
        raise AssertionError("unreachable: the draw lies below the sum of the weights")

    def chances(self, numerator: int, denominator: int, count: int) -> NDArray[np.bool_]:
        """``count`` independent events of probability numerator / denominator.

        Each compares a uniform number with that share, byte by byte, until they differ: one byte nearly always.
        """
        refuse_negative((numerator, denominator - numerator))
        digit, rest = divmod(numerator << 8, denominator)
        drawn = np.frombuffer(self.bytes(count), dtype=np.uint8)
        happened: NDArray[np.bool_] = drawn < digit
        open_places: list[int] = (drawn == digit).nonzero()[0].tolist() if rest else []
        while open_places:
            digit, rest = divmod(rest << 8, denominator)
            still_open = []
            for place, octet in zip(open_places, self.bytes(len(open_places)), strict=True):
                happened[place] = octet < digit
                if octet == digit and rest:
                    still_open.append(place)
            open_places = still_open
        return happened

    def below_each(self, bound: int, count: int) -> NDArray[np.int64]:
        """``count`` uniform integers in [0, bound), bound at most 2**63: all are read, then those rejected again."""
        size, excess = _width(bound)
        if count <= _FEW or not size:
            return np.array(self._few_below(bound, count), dtype=np.int64)
        numbers = self._numbers(size, excess, count)
        if bound & (bound - 1):
            rejected = (numbers >= bound).nonzero()[0]
            if len(rejected):
                numbers[rejected] = self.below_each(bound, len(rejected))
        return numbers

    def _numbers(self, size: int, excess: int, count: int) -> NDArray[np.int64]:
        """``count`` numbers of ``size`` bytes each, without their ``excess`` low bits."""
        octets = np.frombuffer(self.bytes(size * count), dtype=np.uint8)
        if size not in (1, 2, 4, 8):
            whole = np.zeros((count, 8), dtype=np.uint8)
            whole[:, :size] = octets.reshape(-1, size)
            octets, size = whole.reshape(-1), 8
        return (octets.view(f"<u{size}") >> excess).astype(np.int64)

    def _few_below(self, bound: int, count: int) -> list[int]:
        """``below_each`` without arrays."""
        size, excess = _width(bound)
        if not size:
            return [0] * count
        numbers = self._few_numbers(size, excess, count)
        rejected = [place for place, drawn in enumerate(numbers) if drawn >= bound] if bound & (bound - 1) else []
        while rejected:
            again = self._few_numbers(size, excess, len(rejected))
            for place, drawn in zip(rejected, again, strict=True):
                numbers[place] = drawn
            rejected = [place for place in rejected if numbers[place] >= bound]
        return numbers

    def _few_numbers(self, size: int, excess: int, count: int) -> list[int]:
        """``_numbers`` without arrays."""
        octets = self.bytes(size * count)
        if size in _FORMATS:
            return [drawn >> excess for drawn in unpack(f"<{count}{_FORMATS[size]}", octets)]
        return [int.from_bytes(octets[at : at + size], "little") >> excess for at in range(0, len(octets), size)]

    def subset(self, size: int, bound: int) -> list[int]:
        """A uniform subset of [0, bound) with ``size`` members, sorted.

        Numbers are drawn until so many different ones are found, as many at a time as are missing; of more than half
        of all numbers those are drawn that stay out.
        """
        few = min(size, bound - size)
        if few > _FEW:
            chosen: list[int] = self.among(size, bound).nonzero()[0].tolist()
            return chosen
        members: set[int] = set()
        while len(members) < few:
            members.update(self._few_below(bound, few - len(members)))
        return sorted(members) if few == size else [number for number in range(bound) if number not in members]

    def among(self, size: int, bound: int) -> NDArray[np.bool_]:
        """``subset`` as a vector: which of the numbers below ``bound`` are members."""
        few = min(size, bound - size)
        octets, found = bytearray(bound), 0  # one where a number is there; bytes are quicker to ask one by one
        there = np.frombuffer(octets, dtype=np.bool_)
        while few - found > _FEW:
            there[self.below_each(bound, few - found)] = True
            found = int(np.count_nonzero(there))
        while found < few:
            for number in self._few_below(bound, few - found):
                found += 1 - octets[number]
                octets[number] = 1
        return there if few == size else ~there

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
        over = np.flatnonzero(drawn >= bound) if bound & (bound - 1) else ()
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
        """``count`` independent events of probability numerator / denominator, by the draws of ``choose_many``."""
        refuse_negative((numerator, denominator - numerator))
        floor, words = min((numerator << 64) // denominator, (1 << 64) - 1), self.words(count)
        happened: NDArray[np.bool_] = words < np.uint64(floor)
        for position in np.flatnonzero(words == np.uint64(floor)):
            happened[position] = self._decide(floor, [numerator], denominator) == 0
        return happened

    def chance_each(self, numerators: NDArray[np.uint32], bits: int) -> NDArray[np.bool_]:
        """Independent events, the i-th with probability numerators[i] / 2**bits, with up to 32 bits."""
        halves = self.words((len(numerators) + 1) // 2).view(np.uint32)[: len(numerators)]
        happened: NDArray[np.bool_] = (halves >> np.uint32(32 - bits)) < numerators
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
