"""Exact laws by running a program over all outcomes of its coins.

A program that draws only through ``Coins`` has finitely many paths when its sizes are small. ``law`` walks them all
and adds up their probabilities as fractions: the distribution of what the real sampler really returns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from fractions import Fraction
from itertools import combinations, islice
from typing import NoReturn, TypeVar

from keyveil.core.coins import Coins, refuse_negative
from keyveil.core.errors import PrivacyError

LIMIT = 10_000_000  # paths, or entries of a table of laws

Output = TypeVar("Output", bound=Hashable)


class PathCoins(Coins):
    """Coins that follow a given path through the choices of a program and note what else was possible."""

    def __init__(self, path: list[int]) -> None:
        self.path = path
        self.depth = 0
        self.open: list[int] = []  # how many branches there were at each choice
        self.weight = 1
        self.total = 1

    def _branch(self, weights: Sequence[int]) -> int:
        """Index among the branches of positive weight that the path takes here."""
        refuse_negative(weights)
        possible = [index for index, weight in enumerate(weights) if weight]
        taken = possible[self._step(len(possible))]
        self.weight *= weights[taken]
        self.total *= sum(weights)
        return taken

    def _step(self, branches: int) -> int:
        if branches > LIMIT:
            raise PrivacyError("privacy/too-large", f"A choice among {branches} outcomes is too large to enumerate.")
        if self.depth == len(self.path):
            self.path.append(0)
        self.open.append(branches)
        self.depth += 1
        return self.path[self.depth - 1]

    def below(self, bound: int) -> int:
        self.total *= bound
        return self._step(bound)

    def choose(self, weights: Sequence[int]) -> int:
        return self._branch(weights)

    def chance(self, numerator: int, denominator: int) -> bool:
        return self._branch((numerator, denominator - numerator)) == 0

    def pick(self, *runs: tuple[int, int]) -> tuple[int, int]:
        run = self._branch([count * weight for count, weight in runs])
        return run, self.below(runs[run][0])

    def subset(self, size: int, bound: int) -> list[int]:
        rank = self.below(math.comb(bound, size))
        return list(next(islice(combinations(range(bound), size), rank, None)))

    def bytes(self, count: int) -> NoReturn:
        raise PrivacyError(
            "privacy/raw-bytes", "A mechanism may draw whole numbers only; raw bytes cannot be enumerated."
        )

    words = fill = below_many = choose_many = chance_many = bytes  # type: ignore[assignment]


def law(program: Callable[[Coins], Output], limit: int = LIMIT) -> dict[Output, Fraction]:
    """The exact distribution of what a program returns."""
    masses: dict[tuple[Output, int], int] = {}
    path: list[int] = []
    for _ in range(limit):
        coins = PathCoins(path)
        output = program(coins)
        key = (output, coins.total)
        masses[key] = masses.get(key, 0) + coins.weight
        del path[coins.depth :]
        while path and path[-1] + 1 == coins.open[len(path) - 1]:
            path.pop()
        if not path:
            break
        path[-1] += 1
    else:
        raise PrivacyError("privacy/too-large", f"The mechanism has more than {limit} outcomes at this size.")
    distribution: dict[Output, Fraction] = {}
    for (output, total), weight in masses.items():
        distribution[output] = distribution.get(output, Fraction(0)) + Fraction(weight, total)
    return distribution
