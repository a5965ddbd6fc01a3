"""PCKV-GRR: one symbol out of all keys and dummies, with a sign (Gu et al. 2020).

Sampling amplifies privacy here, so the channel may be sharper than ε. ``wsr`` does the same without dummies and with
less variance. Derivation: docs/mechanisms/pckv-grr.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from keyveil.core.channels import Ratio
from keyveil.core.codecs.symbols import Symbol
from keyveil.core.coins import Coins
from keyveil.core.epsilon import RESOLUTION, exp_floor, tightest
from keyveil.core.estimates import Estimates
from keyveil.core.records import Records
from keyveil.core.report import Payload
from keyveil.kernels.public_cells import PublicCells
from keyveil.mechanisms.base import Pairs
from keyveil.mechanisms.capabilities import CountDraws, TallyLaw
from keyveil.mechanisms.dependence import Dependence, one_symbol
from keyveil.mechanisms.families.sampled import PCKV, Rates
from keyveil.mechanisms.totals import Constraint, told_sum


@dataclass(frozen=True)
class SignedSymbols:
    """Weights on the symbols (key, sign): ``true`` on the input, ``lie`` on its other sign, ``low`` on all others."""

    keys: int
    true: int
    lie: int
    low: int

    @property
    def runs(self) -> tuple[tuple[int, int], ...]:
        """How many symbols have each weight."""
        return (1, self.true), (1, self.lie), (2 * self.keys - 2, self.low)

    @property
    def total(self) -> int:
        return sum(count * weight for count, weight in self.runs)

    def ratio(self, places: int) -> Fraction:
        """The largest ratio of probabilities if no symbol is the input with probability above 1/places.

        In ``places - 1`` of ``places`` cases the input is another symbol, which adds at least ``low`` to every weight.
        """
        blanket = (places - 1) * self.low
        return Fraction(self.true + blanket, min(self.lie, self.low) + blanket)


@dataclass(frozen=True)
class PCKVGRR(PCKV):
    """Weight 1 + ℓ(e^ε - 1) on the sampled symbol, 1 on every other; the dummies' symbols travel as one.

    ``split="paper"`` gives ε/2 each to key and sign, as the comparisons in the literature do. ``value_epsilon`` is
    another budget of the sign; in the tight split the key then has the largest weight that ε allows.
    """

    name: ClassVar[str] = "pckv-grr"
    keys_at_once = 1

    @cached_property
    def channel(self) -> SignedSymbols:
        keys = self.schema.d + self.max_pairs
        if self.split == "tight" and self.value_epsilon is None:
            sharp = 1 + self.max_pairs * (exp_floor(self.epsilon) - 1)
            return SignedSymbols(keys, math.floor(sharp * RESOLUTION), RESOLUTION, RESOLUTION)
        sign = exp_floor(self.sign_epsilon)
        if self.split == "tight":
            true, lie = math.floor(sign * RESOLUTION), RESOLUTION

            def spent(low: int) -> Fraction:
                return SignedSymbols(keys, true, lie, low).ratio(self.max_pairs)

            return SignedSymbols(keys, true, lie, tightest(spent, self.epsilon, 1, true))
        key = exp_floor(self.epsilon - self.sign_epsilon)  # both signs share the weight of the key
        high, low = (2 * key * share / (sign + 1) for share in (sign, 1))
        return SignedSymbols(keys, math.floor(high * RESOLUTION), math.ceil(low * RESOLUTION), RESOLUTION)

    @property
    def lacks(self) -> frozenset[type]:
        """A sign that is denied less often than another key is named has no short way to draw a tally."""
        return super().lacks | ({TallyLaw} if self.channel.lie < self.channel.low else set())

    @property
    def ratio(self) -> Ratio:
        return self.channel.ratio(self.max_pairs)

    @property
    def rates(self) -> Rates:
        channel = self.channel
        own = channel.true + channel.lie
        seen, fake = Fraction(own, channel.total), Fraction(2 * channel.low, channel.total)
        return Rates(seen, fake, Fraction(channel.true, own))

    def dependence(self, population: bool = False) -> Dependence:
        return one_symbol(self.response).of_sets(population)

    def constraint(self, estimates: Estimates) -> Constraint:
        return told_sum(estimates, self.cap())

    @property
    def null(self) -> int:
        """The symbol that stands for all dummies."""
        return 2 * self.schema.d

    @property
    def codec(self) -> Symbol:
        return Symbol(self.null + 1)

    # -- device and bulk ----------------------------------------------------------------------------------------

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        sampled = self.encoder.draw(pairs, coins)
        # A sampled dummy is as good as the first: they are merged, and the channel treats all symbols alike.
        input = self.null if sampled is None else 2 * sampled[0] + self.labels.draw(sampled[1], coins)
        run, rank = coins.pick(*self.channel.runs)
        output = (input, input ^ 1, rank + 2 * (rank >= input & ~1))[run]
        return min(output, self.null)

    def respond_many(self, records: Records, words: NDArray[np.uint64], coins: Coins) -> NDArray[Any]:
        inputs = self._inputs(records, coins)
        runs = coins.choose_many([count * weight for count, weight in self.channel.runs], records.n)
        ranks = coins.below_many(2 * self.channel.keys - 2, records.n)
        others = ranks + 2 * (ranks >= inputs & ~1)
        outputs: NDArray[np.int64] = np.choose(runs, (inputs, inputs ^ 1, others))
        return np.minimum(outputs, self.null)

    def hot_counts(self, records: Records, coins: Coins) -> NDArray[np.int64]:
        """Draws everybody's sampled pair: how many people put each symbol, the last for a dummy, into the channel."""
        return np.bincount(self._inputs(records, coins), minlength=self.null + 1).astype(np.int64)

    def _inputs(self, records: Records, coins: Coins) -> NDArray[np.int64]:
        keys, values = self.encoder.draw_many(records, coins)
        return np.where(keys < 0, self.null, 2 * keys + self.labels.draw_many(values, coins))

    # -- counts -------------------------------------------------------------------------------------------------

    @property
    def tally_shape(self) -> tuple[int, ...]:
        return (self.null + 1,)

    @property
    def public_cells(self) -> PublicCells:
        return PublicCells(self.null + 1, 1, by_answer=1, by_index=0)

    def fold(self, payloads: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        return np.bincount(payloads, minlength=self.null + 1)

    def draw_tally(self, records: Records, coins: Coins, draws: CountDraws) -> NDArray[np.int64]:
        """A report is the input, its other sign, or a uniform symbol, of which all that belong to dummies are one."""
        channel, null = self.channel, self.null
        hot = self.hot_counts(records, coins)
        uniform = 2 * channel.keys * channel.low
        shares = np.array([channel.true - channel.low, channel.lie - channel.low, uniform], dtype=np.float64)
        own, other, blind = np.moveaxis(draws.multinomial(hot, shares / shares.sum()), -1, 0)
        everywhere = draws.multinomial(blind.sum(), np.full(2 * channel.keys, 1 / (2 * channel.keys)))
        counts: NDArray[np.int64] = everywhere[: null + 1].astype(np.int64)
        counts[null] = everywhere[null:].sum() + own[null] + other[null]
        counts[:null] += own[:null] + other[:null].reshape(-1, 2)[:, ::-1].reshape(-1)
        return counts

    def votes(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        return counts[: self.null].reshape(self.schema.d, 2).T
