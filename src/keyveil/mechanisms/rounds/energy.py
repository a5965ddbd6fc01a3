"""How large are your values? A question to a part of a pilot group.

The energy r of a person is the mean of v² over their own pairs (0 without pairs). The device draws twice with the
probability r and tells how often it happened (0, 1 or 2) by randomised response with the whole ε. From the reports come
the means over people of r and of r²: how far from 0 values lie, and how much people differ in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyveil.core.channels import Ratio, TwoLevel, two_level
from keyveil.core.codecs.symbols import Symbol
from keyveil.core.coins import Coins
from keyveil.core.errors import ProtocolError
from keyveil.core.records import Records
from keyveil.core.report import Payload
from keyveil.core.schema import GRID
from keyveil.core.tally import Tally
from keyveil.kernels.arcs import below_each
from keyveil.mechanisms.base import Pairs
from keyveil.mechanisms.rounds.about_sets import AboutSets

ANSWERS = 3


class Energy(NamedTuple):
    """Means over people of r and of r², unbiased: they may lie outside of 0 to 1."""

    mean: float
    square: float


@dataclass(frozen=True)
class EnergyQuestion(AboutSets):
    """How many of two draws with a person's mean square of values succeed, by randomised response with the whole ε."""

    name: ClassVar[str] = "energy"
    tells: ClassVar[str] = "how large values are, not of which keys"

    @cached_property
    def channel(self) -> TwoLevel:
        return two_level(ANSWERS, 1, self.epsilon)

    @property
    def codec(self) -> Symbol:
        return Symbol(ANSWERS)

    @property
    def ratio(self) -> Ratio:
        return self.channel.ratio

    # -- device and bulk ----------------------------------------------------------------------------------------

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        squares, most = sum(value**2 for _, value in pairs), max(len(pairs), 1) * GRID**2
        drawn = sum(coins.chance(squares, most) for _ in range(2))
        told, rank = self.channel.draw(coins)
        return drawn if told else (drawn + 1 + rank) % ANSWERS

    def respond_many(self, records: Records, words: NDArray[np.uint64], coins: Coins) -> NDArray[Any]:
        owners, squares = np.repeat(np.arange(records.n), records.sizes), np.zeros(records.n, dtype=np.int64)
        np.add.at(squares, owners, records.values.astype(np.int64) ** 2)  # whole numbers: a sum of floats may round
        most = np.maximum(records.sizes, 1) * GRID**2
        drawn = sum((below_each(most, coins) < squares).astype(np.int64) for _ in range(2))
        told, ranks = self.channel.draw_many(records.n, coins)
        return np.where(told, drawn, (drawn + 1 + ranks) % ANSWERS)

    # -- counts -------------------------------------------------------------------------------------------------

    @property
    def tally_shape(self) -> tuple[int, ...]:
        return (ANSWERS,)

    def fold(self, payloads: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        return np.bincount(payloads, minlength=ANSWERS)

    def energy(self, tally: Tally) -> Energy:
        """What the reports say about r."""
        if not tally.reports:
            raise ProtocolError("protocol/few", "Nobody has told how large their values are.")
        hit, miss = float(self.channel.hit), float(self.channel.miss)
        _, once, twice = (self._own(tally) / tally.reports - miss) / (hit - miss)
        return Energy(float(once / 2 + twice), float(twice))
