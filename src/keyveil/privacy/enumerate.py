"""Exact laws by running a program over all outcomes of its coins.

A program that draws only through ``Coins`` has finitely many paths when its sizes are small. ``law`` walks them all
and adds up their probabilities as fractions: the distribution of what the real sampler really returns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations, repeat
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from keyveil.core.coins import Coins, refuse_negative
from keyveil.core.errors import PrivacyError

LIMIT = 10_000_000  # paths, or entries of a table of laws

Output = TypeVar("Output", bound=Hashable)
Branches = Iterator[tuple[Any, int]]  # what a choice can answer, and with which weight
_NEW: Any = object()  # instead of an answer, at a choice that no path has made before


class PathCoins(Coins):
    """Coins that walk through the choices of a program, one path after the other.

    A program makes the same choices again on the part of a path that it shares with the path before. There the answers
    are remembered; only the choices that follow are weighed.
    """

    def __init__(self) -> None:
        self._answers: list[Any] = []  # of the choices on this path
        self._others: list[tuple[Branches, int]] = []  # what each choice leaves for later paths, and its total weight
        self._odds = [(1, 1)]  # weight and total of the path, before the first choice and after each
        self._known: Iterator[Any] = iter(())

    @property
    def odds(self) -> tuple[int, int]:
        """The probability of the path that was walked, as a weight and its total."""
        return self._odds[-1]

    def next_path(self) -> bool:
        """Turn to the next path; false after the last one."""
        while self._others:
            branches, total = self._others[-1]
            self._odds.pop()
            self._answers.pop()
            for answer, weight in branches:
                self._take(answer, weight, total)
                self._known = iter(self._answers)
                return True
            self._others.pop()
        return False

    def _take(self, answer: Any, weight: int, total: int) -> None:
        before, of = self._odds[-1]
        self._odds.append((before * weight, of * total))
        self._answers.append(answer)

    def _choice(self, branches: Branches, total: int) -> Any:
        """The first branch of a new choice."""
        answer, weight = next(branches)
        self._others.append((branches, total))
        self._take(answer, weight, total)
        return answer

    def below(self, bound: int) -> int:
        answer: int = next(self._known, _NEW)
        if answer is _NEW:
            answer = self._choice(_alike(range(bound), bound), bound)
        return answer

    def choose(self, weights: Sequence[int]) -> int:
        answer: int = next(self._known, _NEW)
        if answer is _NEW:
            answer = self._choice(_weighted(range(len(weights)), weights), sum(weights))
        return answer

    def chance(self, numerator: int, denominator: int) -> bool:
        answer: bool = next(self._known, _NEW)
        if answer is _NEW:
            answer = self._choice(_weighted((True, False), (numerator, denominator - numerator)), denominator)
        return answer

    def pick(self, *runs: tuple[int, int]) -> tuple[int, int]:
        run = self.choose([count * weight for count, weight in runs])
        return run, self.below(runs[run][0])

    def subset(self, size: int, bound: int) -> list[int]:
        answer: tuple[int, ...] = next(self._known, _NEW)
        if answer is _NEW:
            count = math.comb(bound, size)
            answer = self._choice(_alike(combinations(range(bound), size), count), count)
        return list(answer)

    def among(self, size: int, bound: int) -> NDArray[np.bool_]:
        there = np.zeros(bound, dtype=np.bool_)
        there[self.subset(size, bound)] = True
        return there

    def chances(self, numerator: int, denominator: int, count: int) -> NDArray[np.bool_]:
        return np.array([self.chance(numerator, denominator) for _ in range(count)], dtype=np.bool_)

    def below_each(self, bound: int, count: int) -> NDArray[np.int64]:
        return np.array([self.below(bound) for _ in range(count)], dtype=np.int64)

    def bytes(self, count: int) -> NoReturn:
        raise PrivacyError(
            "privacy/raw-bytes", "A mechanism may draw whole numbers only; raw bytes cannot be enumerated."
        )

    words = fill = below_many = choose_many = chance_many = bytes  # type: ignore[assignment]


def law(program: Callable[[Coins], Output], limit: int = LIMIT) -> dict[Output, Fraction]:
    """The exact distribution of what a program returns."""
    masses: dict[tuple[Output, int], int] = {}
    coins = PathCoins()
    for _ in range(limit):
        output = program(coins)
        weight, total = coins.odds
        masses[output, total] = masses.get((output, total), 0) + weight
        if not coins.next_path():
            break
    else:
        raise PrivacyError("privacy/too-large", f"The mechanism has more than {limit} outcomes at this size.")
    distribution: dict[Output, Fraction] = {}
    for (output, total), weight in masses.items():
        distribution[output] = distribution.get(output, Fraction(0)) + Fraction(weight, total)
    return distribution


def over_one_total(laws: Sequence[Mapping[Output, Fraction]]) -> tuple[list[dict[Output, int]], int]:
    """Laws as whole weights over one total, which are compared a good deal faster than fractions."""
    total = math.lcm(*(share.denominator for one in laws for share in one.values()))
    weights = [
        {output: share.numerator * (total // share.denominator) for output, share in one.items()} for one in laws
    ]
    return weights, total


def _alike(answers: Iterable[Any], count: int) -> Branches:
    """Branches of weight one."""
    if count > LIMIT:
        raise PrivacyError("privacy/too-large", f"A choice among {count} outcomes is too large to enumerate.")
    return zip(answers, repeat(1), strict=False)


def _weighted(answers: Iterable[Any], weights: Sequence[int]) -> Branches:
    """Branches of positive weight."""
    refuse_negative(weights)
    return iter([(answer, weight) for answer, weight in zip(answers, weights, strict=True) if weight])
