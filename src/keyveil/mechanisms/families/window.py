"""A window that slides with the input: the channel of ``piecewise`` and of ``square-wave``.

Inputs 0 … inputs-1 stand for equidistant values from -1 to 1, outputs reach ``half`` steps further on both sides.
The outputs within ``half`` steps of the input are marked. Counted from the middle of its range, an output has

    E[y | x] = gain · x        and        E[y² | x] = noise + gain · x²

exactly, so that y / gain is unbiased, and the mean square of the outputs shows the mean square of the inputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyveil.core.channels import TwoLevel, two_level
from keyveil.core.coins import Coins
from keyveil.core.schema import GRID

Floats = NDArray[np.float64]


class Squares(NamedTuple):
    """What the mean square of the outputs says, on the scale [-1, 1]."""

    answers: Floats  # mean square of the unbiased estimates
    spread: Floats  # variance of the values between people


@dataclass(frozen=True)
class Window:
    """``channel`` marks the outputs x … x + 2·half of an input x."""

    inputs: int
    half: int
    channel: TwoLevel

    @property
    def outputs(self) -> int:
        return self.channel.outputs

    def every_value(self) -> list[int]:
        """A value for every input: those between are mixtures of two."""
        return [round(Fraction(2 * GRID * x, self.inputs - 1)) - GRID for x in range(self.inputs)]

    @property
    def radius(self) -> Fraction:
        """Steps from the middle of the inputs to either end."""
        return Fraction(self.inputs - 1, 2)

    @property
    def middle(self) -> Fraction:
        """The output in the middle."""
        return Fraction(self.outputs - 1, 2)

    @cached_property
    def gain(self) -> Fraction:
        return (self.channel.hit - self.channel.miss) * self.channel.marked

    @cached_property
    def noise(self) -> Fraction:
        marked, outputs = (Fraction(count * (count**2 - 1), 12) for count in (self.channel.marked, self.outputs))
        return (self.channel.hit - self.channel.miss) * marked + self.channel.miss * outputs

    def variance(self, value: Fraction) -> Fraction:
        """Variance of one unbiased estimate of a value on the grid of the inputs."""
        square = self.noise + self.gain * (value * self.radius) ** 2
        return square / (self.gain * self.radius) ** 2 - value**2

    def draw(self, input: int, coins: Coins) -> int:
        hit, rank = self.channel.draw(coins)
        return input + rank if hit else rank + self.channel.marked * (rank >= input)

    def draw_many(self, inputs: NDArray[np.int64], coins: Coins) -> NDArray[np.int64]:
        hits, ranks = self.channel.draw_many(len(inputs), coins)
        return np.where(hits, inputs + ranks, ranks + self.channel.marked * (ranks >= inputs))

    def matrix(self) -> Floats:
        """P[output | input], outputs down and inputs across, for EM."""
        steps = np.arange(self.outputs)[:, None] - np.arange(self.inputs)
        inside = (steps >= 0) & (steps < self.channel.marked)
        return np.where(inside, float(self.channel.hit), float(self.channel.miss))

    def unit(self, totals: NDArray[np.int64] | Floats) -> Floats:
        """From sums of outputs, counted from the middle, to sums of unbiased estimates on [-1, 1]."""
        return totals / float(self.gain * self.radius)

    def squares(self, outputs: Floats, mean: Floats) -> Squares:
        """What a mean square of ``outputs`` and a mean on [-1, 1] say, within what is possible."""
        noise, gain, radius = float(self.noise), float(self.gain), float(self.radius)
        least = np.clip(mean, -1, 1) ** 2
        values = np.clip((outputs - noise) / (gain * radius**2), least, 1)
        rounding = 1 / (4 * radius**2)  # the most that rounding to a step can add to the variance of a value
        return Squares(self.answer_squares(values), np.maximum(values - least - rounding, 0))

    def answer_squares(self, squares: Floats) -> Floats:
        """Mean square of unbiased estimates on [-1, 1], from that of the inputs."""
        noise, gain, radius = float(self.noise), float(self.gain), float(self.radius)
        return squares / gain + noise / (gain * radius) ** 2

    def rounded_squares(self, values: Floats) -> Floats:
        """Expected square of values on [-1, 1] after they are rounded to an input without bias."""
        radius = float(self.radius)
        rest = np.modf((1 + values) * radius)[0]
        squares: Floats = values**2 + rest * (1 - rest) / radius**2
        return squares


@dataclass(frozen=True, eq=False)
class WindowCounts:
    """What reports through a window say about every key: true outputs, and fakes whose outputs are uniform.

    With s the share of people whose pair was sampled, a report speaks about the key with probability
    s·``seen`` + (1 - s)·``fake``.
    """

    window: Window
    counts: NDArray[np.int64]  # of each output, [d, outputs]
    seen: float  # how often a pair that was sampled speaks
    fake: float  # how often a key that was not sampled speaks; 0 if there is no such thing
    scale: float  # how many times as many people hold the key as those whose pair of it was sampled
    respondents: NDArray[np.int64]  # per key, the reports that could speak about it
    inputs: tuple[tuple[int, ...], ...] | None = None  # per key those of its levels, where values have levels


def window(inputs: int, half: int, epsilon: Fraction) -> Window:
    """The window channel that spends at most epsilon."""
    return Window(inputs, half, two_level(outputs=inputs + 2 * half, marked=2 * half + 1, epsilon=epsilon))
