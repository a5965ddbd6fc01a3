"""The piecewise mechanism on whole numbers: an answer near the value, or one from anywhere (Wang et al. 2019).

From ε ≈ 1.3 on its variance at the worst value is below that of one sign; ``hybrid`` has less than both at their worst.
Derivation: docs/mechanisms/piecewise.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from keyveil.core.epsilon import exp_floor
from keyveil.core.errors import MechanismError
from keyveil.core.schema import GRID
from keyveil.mechanisms.families.numeric import ValueTotals, WindowValue, average
from keyveil.mechanisms.families.window import Window, window

REDUCED_STEPS = 4


@dataclass(frozen=True)
class Piecewise(WindowValue):
    """Weight e^ε on the answers within a window around the value, 1 on the others; ``steps`` between 0 and 1."""

    steps: int = 1024

    name: ClassVar[str] = "piecewise"

    def validate(self) -> None:
        check_steps(self.name, self.steps)

    @cached_property
    def window(self) -> Window:
        return piecewise_window(self.steps, self.epsilon)

    @property
    def tally_shape(self) -> tuple[int, ...]:
        return (3, self.schema.d)

    def fold(self, payloads: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Reports, sum and sum of squares of the answers, counted from the middle."""
        return fold_moments(payloads - int(self.window.middle), self.encoder.keys(words), self.schema.d)

    def counts_of_each(self, payloads: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        return moments_of_each(payloads - int(self.window.middle), self.encoder.keys(words), self.schema.d)

    def answers(self, counts: NDArray[np.int64], n: int) -> ValueTotals:
        respondents, totals, squares = counts
        mean = average(self.window.unit(totals), respondents)
        return ValueTotals(respondents, mean, *self.window.squares(average(squares, respondents), mean))

    def extreme_counts(self) -> list[NDArray[np.int64]]:
        return [extreme_moments(sign * int(self.window.middle), self.schema.d) for sign in (-1, 1)]

    def reduced(self) -> Self:
        return replace(super().reduced(), steps=min(self.steps, REDUCED_STEPS))

    @property
    def sizes(self) -> dict[str, int]:
        return {"keys": self.schema.d, "steps": self.steps}


def piecewise_window(steps: int, epsilon: Fraction) -> Window:
    """The published window, e^(-ε/2) of the range, rounded to steps."""
    half = max(1, round(steps / exp_floor(epsilon / 2)))
    return window(2 * steps + 1, half, epsilon)


def check_steps(name: str, steps: int) -> None:
    if not 1 <= steps <= GRID:
        raise MechanismError("mechanism/steps", f"{name} takes between 1 and {GRID} steps, not {steps}.")


def extreme_moments(answer: int, d: int) -> NDArray[np.int64]:
    """``fold_moments`` of the same answer about every key."""
    return np.array([[1], [answer], [answer**2]], dtype=np.int64).repeat(d, axis=1)


def fold_moments(answers: NDArray[np.int64], keys: NDArray[np.int64], d: int) -> NDArray[np.int64]:
    """Per key the number, the sum and the sum of squares of whole numbers."""
    moments = np.zeros((3, d), dtype=np.int64)
    for power, row in enumerate(moments):
        np.add.at(row, keys, answers**power)
    return moments


def moments_of_each(answers: NDArray[np.int64], keys: NDArray[np.int64], d: int) -> NDArray[np.int64]:
    """``fold_moments`` of each whole number alone, [number, power, key]."""
    moments = np.zeros((len(answers), 3, d), dtype=np.int64)
    moments[np.arange(len(answers)), :, keys] = answers[:, None] ** np.arange(3)
    return moments
