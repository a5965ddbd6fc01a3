"""Statistics of several keys at once, and what is needed to give them with an error.

A statistic is computed for rows of keys that all take the same places in it: place 0 of every row, place 1, … . It
is the share of people who hold or lack the keys at some places, or the sum of one key's values over those people, or
of the products of two keys' values, per person of the collection. Every conditional frequency and mean is a ratio of
two such numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from keyveil.mechanisms.joint.ranks import Ints
from keyveil.mechanisms.responses import Solution, Spread

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Statistic:
    """Who holds (or lacks) the keys at these places; with ``values``, the sum of products of these places' values."""

    held: tuple[tuple[int, bool], ...]
    values: tuple[int, ...] = ()

    @property
    def condition(self) -> dict[int, bool]:
        """What the people in question hold and lack, the valued keys included."""
        return {**dict(self.held), **dict.fromkeys(self.values, True)}

    @property
    def places(self) -> tuple[int, ...]:
        return tuple(sorted(self.condition))

    @property
    def people(self) -> Statistic:
        """The share of people that this statistic is about."""
        return share(self.condition)

    @property
    def least(self) -> float:
        """The least value that it can have."""
        return -1.0 if self.values else 0.0


def share(condition: Mapping[int, bool]) -> Statistic:
    """How many people fulfil a condition."""
    return Statistic(tuple(sorted(condition.items())))


def total(place: int, condition: Mapping[int, bool]) -> Statistic:
    """The sum of a key's values over its holders who fulfil a condition, per person."""
    return _of_values((place,), condition)


def both(one: Statistic, other: Statistic) -> Statistic | None:
    """The product of two statistics of one person; None if nobody fulfils both conditions. Signs square to one."""
    condition = one.condition
    for place, held in other.condition.items():
        if condition.setdefault(place, held) != held:
            return None
    return _of_values(tuple(sorted({*one.values} ^ {*other.values})), condition)


def _of_values(values: tuple[int, ...], condition: Mapping[int, bool]) -> Statistic:
    return Statistic(tuple(sorted((at, held) for at, held in condition.items() if at not in values)), values)


@dataclass(frozen=True, eq=False)
class JointAnswers:
    """Unbiased values of some statistics for many rows of keys, and their errors."""

    values: Floats  # [rows, statistics]
    covariance: Floats  # [rows, statistics, statistics]
    respondents: Ints  # [rows], reports about the statistic that the fewest reports speak about


Product = Callable[[Statistic, Statistic], Statistic | None]


@dataclass(frozen=True, eq=False)
class WithProducts:
    """Statistics, and the products of two of them, which their covariances are made of."""

    statistics: Sequence[Statistic]
    product: Product = both

    @cached_property
    def every(self) -> list[Statistic]:
        """The statistics first, then the products that are not among them."""
        products = {self.product(one, other): None for one in self.statistics for other in self.statistics}
        return [*self.statistics, *(one for one in products if one is not None and one not in self.statistics)]

    def likely(self, values: Floats) -> Floats:
        """Values [rows, every] as they may be."""
        return np.clip(np.nan_to_num(values), [one.least for one in self.every], 1.0)

    def products(self, values: Floats) -> Floats:
        """E[t_i · t_j] over people [rows, i, j], t a person's own statistic with values rounded to signs."""
        known, nobody = dict(zip(self.every, self.likely(values).T, strict=True)), np.zeros(len(values))
        rows = [
            [nobody if (joint := self.product(one, other)) is None else known[joint] for other in self.statistics]
            for one in self.statistics
        ]
        return np.moveaxis(np.array(rows), -1, 0)

    def of_these_people(self, values: Floats, covariance: Floats, n: int) -> Floats:
        """The covariance of statistics of the n people who reported, from that of the population they come from.

        Sampling people adds the covariance of their own statistics, over n; for people held fixed it is taken off
        again. A key's values are taken as constant among the people of a statistic: their spread could only take more
        off.
        """
        second, likely = self.products(values), self.likely(values)[:, : len(self.statistics)]
        for at, statistic in enumerate(self.statistics):
            if statistic.values:
                people = second[:, at, at]
                squares = np.divide(likely[:, at] ** 2, people, out=np.zeros_like(people), where=people > 0)
                second[:, at, at] = np.minimum(squares, people)
        between = second - likely[:, :, None] * likely[:, None, :]
        fixed: Floats = covariance - between / max(n, 1)
        places = np.arange(len(self.statistics))
        fixed[:, places, places] = np.maximum(fixed[:, places, places], 0.0)
        return fixed


def solution(answers: JointAnswers) -> Solution:
    """Frequencies and products f·m of every row from these two statistics; unknown if either is."""
    known = np.where(answers.respondents[:, None] > 0, answers.values, np.nan)
    if known.shape[1] == 1:
        nothing = np.full(len(known), np.nan)
        return Solution(known[:, 0], nothing, Spread(answers.covariance[:, 0, 0], nothing, nothing))
    cov = answers.covariance
    return Solution(known[:, 0], known[:, 1], Spread(cov[:, 0, 0], cov[:, 1, 1], cov[:, 0, 1]))
