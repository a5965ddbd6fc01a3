"""MeanEst: one sign for every key in a single report (Duchi et al. 2018), with the repair for even d.

The published form puts vectors that agree with exactly half of the signs on both sides, and spends ln(1 + e^ε) where
d is even. Here they are always on the light side: exactly ε. ``duchi`` has less variance except for few keys, an even
number of them, at large ε. Derivation: docs/mechanisms/mean-est.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from keyveil.core.channels import Ratio, TwoLevel, two_level
from keyveil.core.codecs.symbols import BitVector
from keyveil.core.coins import Coins
from keyveil.core.errors import MechanismError
from keyveil.core.records import Records
from keyveil.core.report import Payload
from keyveil.core.schema import GRID, Schema
from keyveil.kernels.bits import count_bits
from keyveil.mechanisms.base import Pairs
from keyveil.mechanisms.encoders import are_positive, is_positive
from keyveil.mechanisms.families.numeric import Floats, Numeric, ValueTotals, average

MOST_KEYS = 64


@dataclass(frozen=True)
class MeanEst(Numeric):
    """Weight e^ε on the sign vectors that agree with more than half of one's own signs, 1 on the others."""

    name: ClassVar[str] = "mean-est"

    def validate(self) -> None:
        if self.schema.d > MOST_KEYS:
            raise MechanismError(
                "mechanism/too-many-keys",
                f"mean-est takes at most {MOST_KEYS} keys, not {self.schema.d}; duchi takes any number.",
            )

    @cached_property
    def channel(self) -> TwoLevel:
        d = self.schema.d
        agreeing = sum(math.comb(d, agreed) for agreed in range(d // 2 + 1, d + 1))
        return two_level(outputs=2**d, marked=agreeing, epsilon=self.epsilon)

    @cached_property
    def agreement(self) -> tuple[int, ...]:
        """Weight of all sign vectors that agree with exactly 0, 1, …, d of one's signs."""
        d, high, low = self.schema.d, self.channel.high, self.channel.low
        return tuple(math.comb(d, agreed) * (high if 2 * agreed > d else low) for agreed in range(d + 1))

    @cached_property
    def slope(self) -> Fraction:
        """E[reported sign] = slope · value: of the marked vectors, so many more agree with a given sign than not."""
        surplus = math.comb(self.schema.d - 1, self.schema.d // 2)
        return (self.channel.hit - self.channel.miss) * surplus

    @property
    def ratio(self) -> Ratio:
        return self.channel.ratio

    @property
    def codec(self) -> BitVector:
        return BitVector(self.schema.d)

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        signs = [is_positive(value, coins) for _, value in pairs]
        agreed = set(coins.subset(coins.choose(self.agreement), self.schema.d))
        return BitVector.pack([int(sign == (key in agreed)) for key, sign in enumerate(signs)])

    def respond_many(self, records: Records, words: NDArray[np.uint64], coins: Coins) -> NDArray[Any]:
        n, d = records.n, self.schema.d
        signs = are_positive(self.table(records).reshape(-1), coins).reshape(n, d)
        lottery = coins.words(n * d).reshape(n, d)
        ranks = np.argsort(np.argsort(lottery, axis=1), axis=1)  # a uniform order: its first places are a uniform set
        agreed = ranks < coins.choose_many(self.agreement, n)[:, None]
        places = np.uint64(1) << np.arange(d, dtype=np.uint64)
        bits: NDArray[np.uint64] = np.where(signs == agreed, places, np.uint64(0))
        return np.bitwise_or.reduce(bits, axis=1, keepdims=True)

    @property
    def tally_shape(self) -> tuple[int, ...]:
        return (self.schema.d,)

    def fold(self, payloads: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        return count_bits(payloads)[: self.schema.d]

    def answers(self, counts: NDArray[np.int64], n: int) -> ValueTotals:
        slope, respondents = float(self.slope), np.full(self.schema.d, n, dtype=np.int64)
        # As with duchi, signs do not show how much people differ, so nothing is subtracted.
        mean = average(2 * counts - n, respondents) / slope
        return ValueTotals(respondents, mean, self.squares_at(mean), np.zeros(self.schema.d))

    def squares_at(self, mean: Floats) -> Floats:
        return np.full_like(mean, float(self.slope) ** -2)

    def every_record(self) -> Iterable[Pairs]:
        """Every choice of ends, and a record that is a mixture of all of them."""
        for values in product((-GRID, GRID), repeat=self.schema.d):
            yield list(enumerate(values))
        yield [(key, GRID // 3) for key in range(self.schema.d)]

    @property
    def few_keys(self) -> Schema:
        """Three or four keys: whether d is even matters."""
        return self.schema if self.schema.d <= 4 else Schema(keys=4 - self.schema.d % 2)

    def reduced(self) -> Self:
        return replace(self, schema=self.few_keys)
