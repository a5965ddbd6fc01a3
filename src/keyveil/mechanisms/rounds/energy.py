"""How large are your values? One bit, asked of a part of a pilot group.

The bit is one with the probability r, the mean of v² over a person's own pairs (0 without pairs), and is told by binary
randomised response with the whole ε. From the reports comes the mean of r, which says how far from 0 values lie.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

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


@dataclass(frozen=True)
class EnergyQuestion(AboutSets):
    """One bit for the mean square of a person's values, through binary randomised response with the whole ε."""

    name: ClassVar[str] = "energy"
    tells: ClassVar[str] = "how large values are, not of which keys"

    @cached_property
    def channel(self) -> TwoLevel:
        return two_level(2, 1, self.epsilon)

    @property
    def codec(self) -> Symbol:
        return Symbol(2)

    @property
    def ratio(self) -> Ratio:
        return self.channel.ratio

    # -- device and bulk ----------------------------------------------------------------------------------------

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        large = coins.chance(sum(value**2 for _, value in pairs), max(len(pairs), 1) * GRID**2)
        told, _ = self.channel.draw(coins)
        return int(large == told)

    def respond_many(self, records: Records, words: NDArray[np.uint64], coins: Coins) -> NDArray[Any]:
        owners, squares = np.repeat(np.arange(records.n), records.sizes), np.zeros(records.n, dtype=np.int64)
        np.add.at(squares, owners, records.values.astype(np.int64) ** 2)  # whole numbers: a sum of floats may round
        large = below_each(np.maximum(records.sizes, 1) * GRID**2, coins) < squares
        told, _ = self.channel.draw_many(records.n, coins)
        return (large == told).astype(np.int64)

    # -- counts -------------------------------------------------------------------------------------------------

    @property
    def tally_shape(self) -> tuple[int, ...]:
        return (1,)

    def fold(self, payloads: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        return np.array([payloads.sum()], dtype=np.int64)

    def energy(self, tally: Tally) -> float:
        """The unbiased estimate of the mean over people of r; it may lie outside of 0 to 1."""
        if not tally.reports:
            raise ProtocolError("protocol/few", "Nobody has told how large their values are.")
        hit, miss = float(self.channel.hit), float(self.channel.miss)
        return (int(self._own(tally)[0]) / tally.reports - miss) / (hit - miss)
