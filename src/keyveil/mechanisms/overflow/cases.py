"""What an overflow group may say of a cap before anybody reports, in equally likely cases."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.core.undercount import Undercount
from keyveil.mechanisms.overflow.undercount import Surplus, Whole, scales, undercount_of

TOGETHER = 0.5
"""The correlation of the errors of the two numbers that the group tells, at small ε: √((1 - 2q)/(2 - 2q)) at q = 1/3,
the share of false answers of each kind. At large ε it goes to 0.7."""


def _chances(count: int = 31, steps: tuple[int, ...] = (1, 12, 20)) -> Iterator[tuple[float, float, float]]:
    """Points of a lattice in three dimensions, as standard errors of normal laws; 12² is 20 modulo 31."""
    for place in range(count):
        one, other, size = (NormalDist().inv_cdf((place * step % count + 0.5) / count) for step in steps)
        yield one, TOGETHER * one + math.sqrt(1 - TOGETHER**2) * other, size


CHANCES = np.array(list(_chances()))
"""Standard errors by which what the group tells (the surplus, and how many people have one) and the sum of all
frequencies may be off, equally likely, for predictions."""


@dataclass(frozen=True, eq=False)
class Cases:
    """The capability ``ForeseenCases``, around what the group and all keys together say on average."""

    cap: int
    told: Surplus
    whole: Whole

    @cached_property
    def scales(self) -> NDArray[np.float64]:
        return scales(self.cap, *self._of(*CHANCES.T))

    def each(self) -> list[Undercount]:
        return [undercount_of(self.cap, *self._of(*chances)) for chances in CHANCES.tolist()]

    def _of(self, surplus: Any, over: Any, size: Any) -> tuple[Surplus, Whole]:
        """Both where they are off by so many standard errors: a number for one case, an array for several."""
        told, whole = self.told, self.whole
        return (
            told._replace(mean=told.mean + surplus * told.se, over=told.over + over * told.over_se),
            whole._replace(size=whole.size + size * whole.size_se),
        )
