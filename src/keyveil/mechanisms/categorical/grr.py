"""Generalised randomised response: the true key, or any other one.

Best for few keys: its variance grows with their number (d < 3·e^ε + 2 is the rule; Wang et al. 2017).
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
from keyveil.core.estimates import Estimates
from keyveil.core.records import Records
from keyveil.core.report import Payload
from keyveil.kernels.public_cells import PublicCells
from keyveil.mechanisms.base import Pairs
from keyveil.mechanisms.capabilities import CountDraws
from keyveil.mechanisms.dependence import Dependence, one_symbol
from keyveil.mechanisms.families.categorical import FrequencyOracle
from keyveil.mechanisms.responses import Response, support_counts
from keyveil.mechanisms.totals import Constraint


@dataclass(frozen=True)
class GRR(FrequencyOracle):
    """Weight e^ε on the true key, 1 on every other."""

    name: ClassVar[str] = "grr"

    @cached_property
    def channel(self) -> TwoLevel:
        return two_level(outputs=self.schema.d, marked=1, epsilon=self.epsilon)

    @property
    def ratio(self) -> Ratio:
        return self.channel.ratio

    @property
    def variation(self) -> Fraction:
        return self.channel.variation

    @property
    def codec(self) -> Symbol:
        return Symbol(self.schema.d)

    @property
    def response(self) -> Response:
        return support_counts(self.channel.hit, self.channel.miss)

    def dependence(self, population: bool = False) -> Dependence:
        return one_symbol(self.response).of_single_keys(population)

    def constraint(self, estimates: Estimates) -> Constraint:
        """Every report supports exactly one key, so the estimates themselves sum to one."""
        return Constraint(total=1.0, most=1.0, always=True)

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        true, (hit, rank) = pairs[0][0], self.channel.draw(coins)
        return true if hit else rank + (rank >= true)

    def respond_many(self, records: Records, words: NDArray[np.uint64], coins: Coins) -> NDArray[Any]:
        true, (hits, ranks) = self.keys_of(records), self.channel.draw_many(records.n, coins)
        return np.where(hits, true, ranks + (ranks >= true))

    @property
    def public_cells(self) -> PublicCells:
        return PublicCells(self.schema.d, 1, by_answer=1, by_index=0)

    def fold(self, payloads: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        return np.bincount(payloads, minlength=self.schema.d)

    def draw_tally(self, records: Records, coins: Coins, draws: CountDraws) -> NDArray[np.int64]:
        return self.draw_supports(self.people_by_key(records), draws)

    def draw_crowd(self, types: Records, people: NDArray[np.int64], draws: CountDraws) -> NDArray[np.int64]:
        holders = np.zeros(self.schema.d, dtype=np.int64)
        np.add.at(holders, self.keys_of(types), people)
        return self.draw_supports(holders, draws)

    def draw_supports(self, true: NDArray[np.int64], draws: CountDraws) -> NDArray[np.int64]:
        """Weight ``low`` on every key is a uniform draw: a report is the truth, or a key that ignores it."""
        d, channel = self.schema.d, self.channel
        kept = draws.binomial(true, (channel.high - channel.low) / channel.total)
        supports: NDArray[np.int64] = kept + draws.multinomial(true.sum(axis=-1) - kept.sum(axis=-1), np.full(d, 1 / d))
        return supports
