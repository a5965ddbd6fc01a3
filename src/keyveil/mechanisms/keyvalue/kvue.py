"""KVUE: three-symbol randomised response on one key (Sun et al. 2019).

The key comes from the report's public bytes; the answer is absent, minus or plus. Hard to beat for frequencies near
one half at small ε; for sparse sets the set responses are better.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from keyveil.core.bits import Symbol
from keyveil.core.channels import Ratio, TwoLevel, two_level
from keyveil.core.coins import Coins
from keyveil.core.estimates import Estimates
from keyveil.core.records import Records
from keyveil.core.report import Payload
from keyveil.core.tally import Tally
from keyveil.mechanisms.base import Pairs
from keyveil.mechanisms.encoders import UniformKey, are_positive, is_positive, value_of, values_of
from keyveil.mechanisms.keyvalue.base import KeyValue
from keyveil.mechanisms.responses import Response, three_state

ABSENT, MINUS, PLUS = 0, 1, 2


@dataclass(frozen=True)
class KVUE(KeyValue):
    """The true state of one key with weight e^ε, each of the other two with weight 1."""

    name: ClassVar[str] = "kvue"

    @cached_property
    def encoder(self) -> UniformKey:
        return UniformKey(self.schema.d)

    @cached_property
    def channel(self) -> TwoLevel:
        return two_level(outputs=3, marked=1, epsilon=self.epsilon)

    @property
    def ratio(self) -> Ratio:
        return self.channel.ratio

    @property
    def codec(self) -> Symbol:
        return Symbol(3)

    @property
    def response(self) -> Response:
        hit, miss = self.channel.hit, self.channel.miss
        return three_state(seen=hit + miss, fake=2 * miss, truth=hit / (hit + miss))

    def every_word(self) -> list[int]:
        return self.encoder.every_word()

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        value = value_of(pairs, self.encoder.key(word))
        state = ABSENT if value is None else PLUS if is_positive(value, coins) else MINUS
        hit, rank = self.channel.draw(coins)
        return state if hit else rank + (rank >= state)

    def respond_many(self, records: Records, words: NDArray[np.uint64], coins: Coins) -> NDArray[Any]:
        held, values = values_of(records, self.encoder.keys(words))
        states = np.where(held, np.where(are_positive(values, coins), PLUS, MINUS), ABSENT)
        hits, ranks = self.channel.draw_many(records.n, coins)
        return np.where(hits, states, ranks + (ranks >= states))

    @property
    def tally_shape(self) -> tuple[int, ...]:
        return (3, self.schema.d)

    def fold(self, payloads: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        cells = payloads * self.schema.d + self.encoder.keys(words)
        return np.bincount(cells, minlength=3 * self.schema.d).reshape(self.tally_shape)

    def estimate(self, tally: Tally, confidence: float = 0.95, population: bool = False) -> Estimates:
        counts = self._own(tally)
        return self.response.estimates(
            schema=self.schema,
            mechanism=self.name,
            epsilon=self.epsilon,
            n=tally.reports,
            asked=counts.sum(axis=0),
            supports=counts[MINUS] + counts[PLUS],
            signed=counts[PLUS] - counts[MINUS],
            confidence=confidence,
            population=population,
        )
