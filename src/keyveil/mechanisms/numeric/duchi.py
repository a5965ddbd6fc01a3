"""Duchi's mechanism: the value rounded to a sign, the sign through randomised response (Duchi et al. 2018).

One bit, and the least variance of all at small ε. With several keys each report speaks about one of them, which is
Harmony (Nguyên et al. 2016). Derivation: docs/mechanisms/duchi.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from keyveil.core.channels import Ratio, TwoLevel, two_level
from keyveil.core.codecs.symbols import Symbol
from keyveil.core.coins import Coins
from keyveil.core.records import Records
from keyveil.core.report import Payload
from keyveil.kernels.public_cells import PublicCells
from keyveil.mechanisms.base import Pairs
from keyveil.mechanisms.encoders import are_positive, is_positive
from keyveil.mechanisms.families.numeric import Floats, OneValue, ValueTotals, average

MINUS, PLUS = 0, 1


@dataclass(frozen=True)
class Duchi(OneValue):
    """The sign with weight e^ε, the other one with weight 1."""

    name: ClassVar[str] = "duchi"

    @cached_property
    def channel(self) -> TwoLevel:
        return two_level(outputs=2, marked=1, epsilon=self.epsilon)

    @property
    def ratio(self) -> Ratio:
        return self.channel.ratio

    @property
    def variation(self) -> Fraction:
        return self.channel.variation

    @property
    def codec(self) -> Symbol:
        return Symbol(2)

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        return draw_sign(self.channel, self.value(pairs, word), coins)

    def respond_many(self, records: Records, words: NDArray[np.uint64], coins: Coins) -> NDArray[Any]:
        return draw_signs(self.channel, self.values(records, words), coins)

    @property
    def tally_shape(self) -> tuple[int, ...]:
        return (2, self.schema.d)

    @property
    def public_cells(self) -> PublicCells:
        return PublicCells(2, self.schema.d, by_answer=self.schema.d, by_index=1)

    def fold(self, payloads: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        cells = payloads * self.schema.d + self.encoder.keys(words)
        return np.bincount(cells, minlength=2 * self.schema.d).reshape(self.tally_shape)

    def answers(self, counts: NDArray[np.int64], n: int) -> ValueTotals:
        respondents = counts.sum(axis=0)
        # A sign has the same square whatever the value: nothing shows how much people differ, so nothing is subtracted.
        mean = average(counts[PLUS] - counts[MINUS], respondents) / self._slope
        return ValueTotals(respondents, mean, self.squares_at(mean), np.zeros(self.schema.d))

    def extreme_counts(self) -> list[NDArray[np.int64]]:
        return [np.eye(2, dtype=np.int64)[:, [sign] * self.schema.d] for sign in (MINUS, PLUS)]

    def squares_at(self, mean: Floats) -> Floats:
        return np.full_like(mean, self._slope**-2)

    @property
    def _slope(self) -> float:
        return float(self.channel.hit - self.channel.miss)


def draw_sign(channel: TwoLevel, value: int, coins: Coins) -> int:
    """A value on the grid as a randomised sign."""
    positive, (hit, _) = is_positive(value, coins), channel.draw(coins)
    return PLUS if positive == hit else MINUS


def draw_signs(channel: TwoLevel, values: NDArray[np.int32], coins: Coins) -> NDArray[np.int64]:
    """``draw_sign`` for many values."""
    positive, (hits, _) = are_positive(values, coins), channel.draw_many(len(values), coins)
    return np.where(positive == hits, PLUS, MINUS)
