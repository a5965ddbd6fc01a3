"""MeanEst: one sign for every key in a single report (Duchi et al. 2018), with the repair for even d.

The published form puts vectors that agree with exactly half of the signs on both sides, and spends ln(1 + e^ε) where
d is even. Here they are always on the light side: exactly ε. ``duchi`` has less variance except for few keys, an even
number of them, at large ε. Derivation: docs/mechanisms/mean-est.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
from keyveil.core.work import priced_comb, spend
from keyveil.kernels.bits import count_bits
from keyveil.kernels.held import filled
from keyveil.kernels.lottery import smallest
from keyveil.mechanisms.base import Pairs
from keyveil.mechanisms.encoders import are_positive, each_positive
from keyveil.mechanisms.families.numeric import Floats, Numeric, ValueTotals, average

MOST_KEYS = 4096  # the weights of a report have as many bits: a device draws one in less than half a second
_SIGNS = 1 << 22  # drawn at once in bulk: bounded memory


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
        ties = 0 if d % 2 else priced_comb(d, d // 2)  # half of the others agree more often than not
        return two_level(outputs=2**d, marked=(2**d - ties) // 2, epsilon=self.epsilon)

    @cached_property
    def agreement(self) -> tuple[int, ...]:
        """Weight of all sign vectors that agree with exactly 0, 1, …, d of one's signs."""
        d, high, low = self.schema.d, self.channel.high, self.channel.low
        spend(d + d * d // 256, f"Weighing the vectors of {d} signs")
        vectors, weights = 1, []
        for agreed in range(d + 1):
            weights.append(vectors * (high if 2 * agreed > d else low))
            vectors = vectors * (d - agreed) // (agreed + 1)
        return tuple(weights)

    @cached_property
    def slope(self) -> Fraction:
        """E[reported sign] = slope · value: of the marked vectors, so many more agree with a given sign than not."""
        surplus = priced_comb(self.schema.d - 1, self.schema.d // 2)
        return (self.channel.hit - self.channel.miss) * surplus

    @property
    def ratio(self) -> Ratio:
        return self.channel.ratio

    @property
    def variation(self) -> Fraction:
        return self.channel.variation

    @property
    def codec(self) -> BitVector:
        return BitVector(self.schema.d)

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        return self.vote(np.array([value for _, value in pairs], dtype=np.int64), coins)

    def vote(self, values: NDArray[np.int64], coins: Coins) -> bytes:
        """The report about one person's values of all keys."""
        signs = each_positive(values, coins)
        agreed = coins.among(coins.choose(self.agreement), self.schema.d)
        return BitVector.pack(signs == agreed)

    def respond_many(self, records: Records, words: NDArray[np.uint64], coins: Coins) -> NDArray[Any]:
        table, people = self.table(records), _people(self.schema.d)
        return self.tell((table[start : start + people] for start in range(0, records.n, people)), coins)

    def tell(self, vectors: Iterable[NDArray[np.int32]], coins: Coins) -> NDArray[np.uint64]:
        """Reports about everybody's values, which come as blocks [people, d]; [n, words] in all."""
        told = [np.zeros((0, self.codec.words), dtype=np.uint64)]
        for values in vectors:
            n, d = values.shape
            signs = are_positive(values.reshape(-1), coins).reshape(n, d)
            lottery = coins.words(n * d).reshape(n, d)  # those of the j smallest numbers are a uniform set of j
            agreed = smallest(lottery, coins.choose_many(self.agreement, n))
            octets = np.zeros((n, 8 * self.codec.words), dtype=np.uint8)
            packed = np.packbits(signs == agreed, axis=1, bitorder="little")
            octets[:, : packed.shape[1]] = packed
            told.append(octets.view("<u8").astype(np.uint64, copy=False))
        return np.concatenate(told)

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

    def extreme_counts(self) -> list[NDArray[np.int64]]:
        return [np.full(self.schema.d, bit, dtype=np.int64) for bit in (0, 1)]

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


def filled_blocks(records: Records, gaps: Sequence[int]) -> Iterator[NDArray[np.int32]]:
    """Everybody's values with ``gaps`` where a key is absent, as blocks [people, d] for ``MeanEst.tell``."""
    people = _people(len(gaps))
    for start in range(0, records.n, people):
        yield filled(records.slice(start, min(start + people, records.n)), np.array(gaps, dtype=np.int32))


def _people(d: int) -> int:
    """How many vectors are handled at once."""
    return max(_SIGNS // d, 1)
