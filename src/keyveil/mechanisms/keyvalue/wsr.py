"""WSR: one symbol of all pairs of key and label, or nothing; what a person holds weighs e^ε times as much.

For few keys, and the one member of the family with fairness weights: a key of larger public weight is measured more
precisely, at the expense of the others. Derivation: docs/mechanisms/wsr.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from keyveil.core.channels import Ratio
from keyveil.core.codecs.symbols import Symbol
from keyveil.core.coins import Coins
from keyveil.core.epsilon import levels
from keyveil.core.estimates import Estimates
from keyveil.core.records import Records
from keyveil.core.report import Payload
from keyveil.core.tally import Tally
from keyveil.kernels.public_cells import PublicCells
from keyveil.mechanisms.announcements import accepted_forms
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import CountDraws
from keyveil.mechanisms.families.key_value import REDUCED_KEYS, refused
from keyveil.mechanisms.families.set_response import (
    REDUCED_PAIRS,
    BinnedSetResponse,
    Held,
    Integers,
    Keys,
    Odds,
)
from keyveil.mechanisms.totals import Constraint, told_sum

MOST_UNFAIR = 1000  # largest ratio of two weights
MOST_WEIGHT = 1 << 20  # sums over all keys and all people of a block stay far below 2^63, where they would wrap


@dataclass(frozen=True)
class WSR(BinnedSetResponse):
    """Weight e^ε β on the symbols that are held, β on the others, the rest of a constant total on the null symbol.

    ``weights`` are the β of the keys, whole numbers without a common factor; ``None`` if all are alike.
    """

    weights: tuple[int, ...] | None = None

    name: ClassVar[str] = "wsr"
    examples: ClassVar[tuple[dict[str, Any], ...]] = (
        *BinnedSetResponse.examples,
        {"max_pairs": 2, "weights": "1,2,4"},
    )

    def validate(self) -> None:
        super().validate()
        if self.weights is None:
            return
        given: Any = self.weights  # the command line gives text
        try:
            weights = tuple(int(weight) for weight in (given.split(",") if isinstance(given, str) else given))
        except (TypeError, ValueError):
            raise refused("wsr takes weights that are whole numbers, such as 1,2,5.") from None
        if len(weights) != self.schema.d or min(weights) < 1:
            raise refused(f"wsr takes one positive weight for each of the {self.schema.d} keys.")
        if max(weights) > min(MOST_WEIGHT, MOST_UNFAIR * min(weights)):
            raise refused(f"wsr takes weights up to {MOST_WEIGHT} that differ by a factor of at most {MOST_UNFAIR}.")
        factor = math.gcd(*weights)
        reduced = tuple(weight // factor for weight in weights)
        object.__setattr__(self, "weights", reduced if max(reduced) > 1 else None)

    # -- channel ------------------------------------------------------------------------------------------------

    @cached_property
    def beta(self) -> Integers:
        return np.array(self.weights or [1] * self.schema.d, dtype=np.int64)

    @cached_property
    def reserve(self) -> int:
        """The most weight that a person can hold."""
        return heaviest(self.beta.tolist(), self.max_pairs)

    @cached_property
    def weight(self) -> int:
        """The weight of all keys."""
        return heaviest(self.beta.tolist(), self.schema.d)

    @cached_property
    def total(self) -> int:
        high, low = levels(self.epsilon)
        return low * self.labels.count * self.weight + high * self.reserve

    @property
    def ratio(self) -> Ratio:
        return Fraction(*levels(self.epsilon))

    @property
    def variation(self) -> Fraction:
        """Of two persons whose whole reserve is in different places."""
        high, low = levels(self.epsilon)
        return Fraction((high - low) * self.reserve, self.total)

    @property
    def null(self) -> int:
        return self.symbols

    @property
    def codec(self) -> Symbol:
        return Symbol(self.symbols + 1)

    def answer(self, held: list[int], word: int, coins: Coins) -> Payload:
        """Weight low·β on every symbol, (high - low)·β more on each held one, and the rest of the total on null."""
        (high, low), labels, beta = levels(self.epsilon), self.labels.count, self._betas
        weights = [low * labels * self.weight, *((high - low) * beta[symbol // labels] for symbol in held)]
        layer = coins.choose([*weights, self.total - sum(weights)])
        if layer == 0:
            return labels * coins.choose(beta) + coins.below(labels)
        return held[layer - 1] if layer <= len(held) else self.null

    @cached_property
    def _betas(self) -> tuple[int, ...]:
        """``beta`` as whole numbers of Python, which single draws take."""
        weights: tuple[int, ...] = tuple(self.beta.tolist())
        return weights

    def answer_many(self, held: Held, words: NDArray[np.uint64], coins: Coins) -> NDArray[Any]:
        """The same weights in two layers: β on every symbol for everybody, and a layer that only holders fill."""
        (high, low), labels, n = levels(self.epsilon), self.labels.count, held.n
        common = coins.choose_many(self.beta.tolist(), n) * labels + coins.below_many(labels, n)
        sampled = self.sampled(held, coins)
        own = np.where(coins.chance_many(high - low, high, n), sampled, self.null)
        return np.where(coins.chance_many(high * self.reserve, self.total, n), own, common)

    def sampled(self, held: Held, coins: Coins) -> Integers:
        """A place out of ``reserve`` for everybody: the held symbol that fills it with its weight, or null."""
        bounds = np.concatenate(([0], np.cumsum(self.beta[held.symbols // self.labels.count])))
        starts, stops = bounds[held.offsets[:-1]], bounds[held.offsets[1:]]
        marks = starts + coins.below_many(self.reserve, held.n)
        filled = marks < stops
        symbols = np.full(held.n, self.null, dtype=np.int64)
        symbols[filled] = held.symbols[np.searchsorted(bounds, marks[filled], side="right") - 1]
        return symbols

    # -- counts -------------------------------------------------------------------------------------------------

    @property
    def tally_shape(self) -> tuple[int, ...]:
        return (self.symbols + 1,)

    @property
    def public_cells(self) -> PublicCells:
        return PublicCells(self.symbols + 1, 1, by_answer=1, by_index=0)

    def fold(self, payloads: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        return np.bincount(payloads, minlength=self.symbols + 1)

    def draw_tally(self, records: Records, coins: Coins, draws: CountDraws) -> Integers:
        """A place that a held symbol may fill says it, or nothing, or any symbol by its public weight."""
        (high, low), labels = levels(self.epsilon), self.labels.count
        hot = np.bincount(self.sampled(self.held(records, coins), coins), minlength=self.null + 1)
        own, silent, public = (high - low) * self.reserve, low * self.reserve, low * labels * self.weight
        shares = np.array([own, silent, public], dtype=np.float64) / self.total
        told, nothing, blind = np.moveaxis(draws.multinomial(hot, shares), -1, 0)
        weights = np.repeat(self.beta, labels) / (labels * self.weight)
        counts: Integers = told.astype(np.int64)
        counts[self.null] += nothing.sum()
        counts[: self.null] += draws.multinomial(blind.sum(), weights)
        return counts

    def supports(self, tally: Tally) -> Integers:
        return self.by_label(self._own(tally))

    @cached_property
    def odds(self) -> Sequence[tuple[Keys, Odds]]:
        high, low = levels(self.epsilon)

        def of(beta: int) -> Odds:
            return Odds(Fraction(high * beta, self.total), Fraction(low * beta, self.total), Fraction(0), Fraction(0))

        return [(np.flatnonzero(self.beta == beta), of(int(beta))) for beta in np.unique(self.beta)]

    @property
    def exclusive(self) -> bool:
        return True

    def one_label(self, label: int) -> Integers:
        counts = np.zeros(self.tally_shape, dtype=np.int64)
        if label >= 0:
            counts[label : self.symbols : self.labels.count] = 1
        return counts

    @property
    def title(self) -> str:
        if len(np.unique(self.beta)) == 1:
            return super().title
        return f"{super().title} {'with' if self.bins is None else 'and'} unequal weights"

    def constraint(self, estimates: Estimates) -> Constraint:
        return told_sum(estimates, self.cap())

    def weight_held(self, tally: Tally) -> float:
        """The mean weight of what people hold: with all weights 1, their mean number of pairs; from the null count."""
        (high, low), silent = levels(self.epsilon), int(self._own(tally)[self.null])
        return float((high * self.reserve - Fraction(silent * self.total, max(tally.reports, 1))) / (high - low))

    # -- announcements ------------------------------------------------------------------------------------------

    def announced(self) -> frozenset[str]:
        return super().announced() | {"weights"}

    def announced_forms(self) -> Sequence[Mechanism]:
        return accepted_forms(self, max_pairs=range(1, self.schema.d + 1), weights=extreme_weights(self.schema.d))

    def reduced(self) -> Self:
        return replace(
            self,
            schema=self.few_keys,
            max_pairs=min(self.max_pairs, REDUCED_PAIRS),
            bins=self.few_bins,
            weights=self.weights and self.weights[:REDUCED_KEYS],
        )


def extreme_weights(keys: int) -> list[tuple[int, ...]]:
    """Weights as different, and as large, as a device accepts; which key has which does not matter."""
    uneven = [(1,) * (keys - heavy) + (MOST_UNFAIR,) * heavy for heavy in range(keys)]
    return [*uneven, (MOST_WEIGHT,) * keys]


def heaviest(weights: Sequence[int], count: int) -> int:
    """The sum of the ``count`` largest weights, exactly, however large they are."""
    return sum(sorted(weights)[-count:])
