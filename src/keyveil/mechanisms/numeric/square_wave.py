"""The square wave on whole numbers: a histogram from which the whole distribution of values follows (Li et al. 2020).

Best for distributions, by EM; its closed-form mean is unbiased and has an interval, but ``piecewise`` has less
variance there. Derivation: docs/mechanisms/square-wave.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from keyveil.core.epsilon import exp_floor
from keyveil.core.errors import MechanismError
from keyveil.core.schema import GRID
from keyveil.core.tally import Tally
from keyveil.kernels.em import window_em
from keyveil.kernels.public_cells import PublicCells
from keyveil.mechanisms.families.numeric import REDUCED_KEYS, Floats, ValueTotals, WindowValue, average
from keyveil.mechanisms.families.window import Window, WindowCounts, window
from keyveil.mechanisms.families.window_levels import WindowLevels, points_for_levels, window_levels

USUAL_CELLS = 1024
REDUCED_CELLS, REDUCED_LEVELS = 6, 3


@dataclass(frozen=True)
class SquareWave(WindowValue):
    """Weight e^ε on the cells within a window around the value, 1 on the others; ``cells`` from low to high end.

    Unless given, there are as many cells as the levels of the schema need to be among them, or 1024.
    """

    cells: int | None = None

    name: ClassVar[str] = "square-wave"

    def validate(self) -> None:
        if self.cells is None:
            object.__setattr__(self, "cells", self._lattice or USUAL_CELLS)
        if not 2 <= self.points <= GRID:
            raise MechanismError("mechanism/cells", f"square-wave takes between 2 and {GRID} cells, not {self.cells}.")

    @property
    def points(self) -> int:
        """How many cells there are."""
        assert self.cells is not None
        return self.cells

    @cached_property
    def _lattice(self) -> int | None:
        """Cells that every level is one of; None if keys have levels of their own, as values are written down alike."""
        alike = self.schema.levels is not None and all(isinstance(one, Fraction) for one in self.schema.levels)
        return points_for_levels(self.schema, USUAL_CELLS, USUAL_CELLS) if alike else None

    @cached_property
    def levels(self) -> WindowLevels | None:
        return window_levels(self.schema, self.points) if self.cells == self._lattice else None

    @cached_property
    def window(self) -> Window:
        return window(self.points, max(1, int(bandwidth(self.epsilon) * self.points)), self.epsilon)

    @property
    def tally_shape(self) -> tuple[int, ...]:
        return (self.schema.d, self.window.outputs)

    @property
    def public_cells(self) -> PublicCells:
        return PublicCells(self.window.outputs, self.schema.d, by_answer=1, by_index=self.window.outputs)

    def fold(self, payloads: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        cells = self.encoder.keys(words) * self.window.outputs + payloads
        return np.bincount(cells, minlength=self.schema.d * self.window.outputs).reshape(self.tally_shape)

    def answers(self, counts: NDArray[np.int64], n: int) -> ValueTotals:
        respondents = counts.sum(axis=1)
        outputs = np.arange(self.window.outputs) - float(self.window.middle)
        mean = average(self.window.unit(counts @ outputs), respondents)
        return ValueTotals(respondents, mean, *self.window.squares(average(counts @ outputs**2, respondents), mean))

    def extreme_counts(self) -> list[NDArray[np.int64]]:
        ends = np.zeros((2, *self.tally_shape), dtype=np.int64)
        ends[0, :, 0] = ends[1, :, -1] = 1
        return list(ends)

    def window_counts(self, tally: Tally) -> WindowCounts:
        counts = self._own(tally)
        inputs = None if self.levels is None else self.levels.inputs
        return WindowCounts(self.window, counts, 1.0, 0.0, 1.0, respondents=counts.sum(axis=1), inputs=inputs)

    def distribution(self, tally: Tally, key: str | int | None = None, method: Literal["em", "ems"] = "em") -> Floats:
        """How the values of a key are distributed over ``cells`` equidistant points, both ends included.

        ``em`` is maximum likelihood; ``ems`` smooths in every step and is for distributions known to be smooth.
        """
        counts = self._own(tally)[self._place(key)]
        if method not in ("em", "ems"):
            raise MechanismError("estimate/method", f"Distributions come by em or ems, not {method!r}.")
        if not counts.any():
            raise MechanismError("estimate/no-reports", "No report speaks about this key, so its values are unknown.")
        # Smoothing never converges to the likeliest distribution: it has to be stopped while it still gains.
        tolerance = 1e-3 * (float(exp_floor(self.epsilon)) if method == "em" else 1)
        channel = self.window.channel
        inner, outer = float(channel.hit), float(channel.miss)
        return window_em(counts, inner, outer, channel.marked, tolerance=tolerance, smooth=method == "ems")

    def _place(self, key: str | int | None) -> int:
        if key is None:
            if self.schema.d > 1:
                raise MechanismError("estimate/which-key", f"There are {self.schema.d} keys; say whose distribution.")
            return 0
        return self.schema.place(key)

    def reduced(self) -> Self:
        if self.levels is None:
            return replace(super().reduced(), cells=min(self.points, REDUCED_CELLS))
        return replace(self, schema=self.schema.first(REDUCED_KEYS, REDUCED_LEVELS), cells=None)

    @property
    def sizes(self) -> dict[str, int]:
        return {"keys": self.schema.d, "cells": self.points}


def bandwidth(epsilon: Fraction) -> Fraction:
    """Half the width of the square wave on inputs from 0 to 1: what makes a report tell most about its input.

    Numerator and denominator both vanish like ε²; with 256 bits of e^ε enough of them is left at every ε.
    """
    power = exp_floor(epsilon, 256)
    return (epsilon * power - power + 1) / (2 * power * (power - 1 - epsilon))
