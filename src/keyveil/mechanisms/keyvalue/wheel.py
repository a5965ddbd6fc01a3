"""Wheel-KV: a public seed puts every symbol somewhere on a circle of cells; the answer is one cell of it.

A cell within the arc of a held symbol is e^ε times as likely as one far from all of them. Twelve bits a report,
however many keys there are. Derivation: docs/mechanisms/wheel.md.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from keyveil.core.channels import Ratio
from keyveil.core.codecs.symbols import Symbol
from keyveil.core.coins import Coins
from keyveil.core.epsilon import exp_floor, levels
from keyveil.core.report import Payload
from keyveil.kernels.arcs import Arcs, below_each
from keyveil.kernels.hashing import count_arcs, hash_grid, hash_many, hash_one
from keyveil.mechanisms.announcements import accepted_forms
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.families.answer_size import arc_variance
from keyveil.mechanisms.families.key_value import refused
from keyveil.mechanisms.families.set_response import REDUCED_PAIRS, CappedSetResponse, Held, Keys, Odds

CELLS = 4096
MOST_CELLS = 1 << 16
REDUCED_CELLS = 8
_SEEDS = 16  # tried in enumeration: at reduced sizes they show arcs that overlap, touch, and lie apart


class Circle(CappedSetResponse):
    """One of some cells on a circle, where each held symbol covers an arc that starts at a hashed cell.

    The cells covered have probability high / M each, and what is left of M is spread evenly over the others. They
    get at least low / M, because M reserves room for ``max_pairs`` arcs that do not overlap.
    """

    exhaustive: ClassVar[bool] = False  # words seed hashes

    @property
    @abstractmethod
    def circle(self) -> int:
        """How many cells there are."""

    @property
    @abstractmethod
    def width(self) -> int:
        """How many cells an arc has."""

    @property
    def total(self) -> int:
        high, low = levels(self.epsilon)
        return self.reserve * high + (self.circle - self.reserve) * low

    @property
    def reserve(self) -> int:
        """The most cells that a person can cover."""
        return self.max_pairs * self.width

    @property
    def ratio(self) -> Ratio:
        return Fraction(*levels(self.epsilon))

    @property
    def variation(self) -> Fraction:
        """Of two persons whose whole reserve is in different places."""
        high, low = levels(self.epsilon)
        return Fraction((high - low) * self.reserve, self.total)

    @property
    def sizes(self) -> dict[str, int]:
        return {**super().sizes, "cells": self.circle, "arc": self.width}

    @property
    def codec(self) -> Symbol:
        return Symbol(self.circle)

    @cached_property
    def odds(self) -> Sequence[tuple[Keys, Odds]]:
        """A held arc is covered whatever overlaps it; where a foreign one lies is up to the seed."""
        own, other = Fraction(self.width * levels(self.epsilon)[0], self.total), Fraction(self.width, self.circle)
        return [(slice(None), Odds(own, other, own * other, other**2))]

    def every_word(self) -> Iterator[int]:
        """One seed for each placing of the symbols that the tried seeds lead to. The rest of a seed is not used."""
        seen = set()
        for word in range(_SEEDS):
            starts = tuple(hash_one(word, symbol, self.circle) for symbol in range(self.symbols))
            if starts not in seen:
                seen.add(starts)
                yield word

    # -- device and bulk ----------------------------------------------------------------------------------------

    def answer(self, held: list[int], word: int, coins: Coins) -> Payload:
        starts = sorted(hash_one(word, symbol, self.circle) for symbol in held)
        if not starts:
            return coins.below(self.circle)
        gaps = [after - start for start, after in zip(starts, [*starts[1:], starts[0] + self.circle], strict=True)]
        covered = [min(self.width, gap) for gap in gaps]  # an arc ends where the next one starts
        inside = coins.chance(sum(covered) * levels(self.epsilon)[0], self.total)
        free = [gap - length for gap, length in zip(gaps, covered, strict=True)]
        rank = coins.below(sum(covered if inside else free))
        for start, length, room in zip(starts, covered, covered if inside else free, strict=True):
            if rank < room:
                return (start + rank + (0 if inside else length)) % self.circle
            rank -= room
        raise AssertionError("unreachable: the rank lies below the sum of the rooms")

    def answer_many(self, held: Held, words: NDArray[np.uint64], coins: Coins) -> NDArray[Any]:
        """The same law in two layers: ``reserve`` places of weight high, which covered cells fill, and the rest."""
        starts = hash_many(np.repeat(words, held.sizes), held.symbols, self.circle).astype(np.int64)
        arcs = Arcs.of(starts, held.offsets, self.circle, self.width)
        hot = coins.chance_many(self.reserve * levels(self.epsilon)[0], self.total, held.n)
        ranks = coins.below_many(self.reserve, held.n)
        inside = hot & (ranks < arcs.taken)
        outside = np.flatnonzero(~inside)
        ranks[outside] = below_each(self.circle - arcs.taken[outside], coins)
        return arcs.cells(inside, ranks)

    def counts_of_each(self, payloads: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        starts = hash_grid(words, self.symbols, self.circle).astype(np.int64)
        covered = (payloads[:, None] - starts) % self.circle < self.width
        by_key = covered.reshape(len(words), self.schema.d, self.labels.count)
        return by_key.transpose(0, 2, 1).astype(np.int64)


@dataclass(frozen=True)
class Wheel(Circle):
    """Arcs of ``arc`` cells on a circle of ``cells``; the arc of least variance unless given."""

    cells: int = CELLS
    arc: int | None = None

    name: ClassVar[str] = "wheel"

    def validate(self) -> None:
        super().validate()
        if self.cells.bit_count() != 1 or not 4 <= self.cells <= MOST_CELLS:
            raise refused(f"wheel takes a power of two from 4 to {MOST_CELLS} as its cells, not {self.cells}.")
        longest = (self.cells - 1) // self.max_pairs
        if self.arc is None:
            arcs = np.arange(1, longest + 1)
            if len(arcs):
                score = arc_variance(arcs / self.cells, self.max_pairs, float(exp_floor(self.epsilon)))
                object.__setattr__(self, "arc", int(arcs[np.argmin(score)]))
        if not 1 <= (self.arc or 0) <= longest:
            raise refused(f"wheel needs {self.max_pairs} arcs to leave room on {self.cells} cells.")

    @property
    def circle(self) -> int:
        return self.cells

    @property
    def width(self) -> int:
        assert self.arc is not None
        return self.arc

    def fold(self, payloads: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        return self.by_label(count_arcs(words, payloads, self.width, self.cells, self.symbols))

    def announced(self) -> frozenset[str]:
        return super().announced() | {"arc"}  # which is chosen by the cap

    def announced_forms(self) -> Sequence[Mechanism]:
        """Every cap with the longest arcs that leave room for it, and the largest cap with arcs of one cell."""
        d = self.schema.d
        longest = {cap: (self.cells - 1) // cap for cap in range(1, d + 1)}
        pairs = [*longest.items(), (d, 1)]
        return [form for cap, arc in pairs for form in accepted_forms(self, max_pairs=[cap], arc=[arc])]

    def reduced(self) -> Self:
        cells, few = min(self.cells, REDUCED_CELLS), min(self.max_pairs, REDUCED_PAIRS)
        return replace(self, schema=self.few_keys, max_pairs=few, cells=cells, arc=None)
