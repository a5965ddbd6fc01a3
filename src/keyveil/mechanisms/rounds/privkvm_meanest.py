"""The two rounds of PrivKVM-MeanEst: who holds one key, and a whole vector of values in which gaps are filled.

Baselines of the PrivKV paper, for few keys only (docs/protocols.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from keyveil.core.channels import Ratio, Table, randomised_response
from keyveil.core.codecs.symbols import Codec
from keyveil.core.coins import Coins
from keyveil.core.estimates import Column, Estimates
from keyveil.core.records import Records
from keyveil.core.report import Payload
from keyveil.core.schema import GRID
from keyveil.core.tally import Tally
from keyveil.mechanisms.announcements import NothingAnnounced
from keyveil.mechanisms.base import Mechanism, Pairs
from keyveil.mechanisms.encoders import Labels
from keyveil.mechanisms.families.key_value import KeyValue
from keyveil.mechanisms.families.one_key import OneKey
from keyveil.mechanisms.numeric.mean_est import MeanEst, filled_blocks
from keyveil.mechanisms.ratios import SHRUNK, biased_means
from keyveil.mechanisms.responses import Floats
from keyveil.mechanisms.rounds.privkvm import checked_broadcast


@dataclass(frozen=True)
class Presence(NothingAnnounced, OneKey):
    """Randomised response on whether one key is held; values are not reported."""

    name: ClassVar[str] = "presence"

    @property
    def labels(self) -> Labels:
        return Labels(1)

    @cached_property
    def channel(self) -> Table:
        return randomised_response(self.epsilon)

    @property
    def supports(self) -> Sequence[int]:
        return (0, 1)

    @property
    def signs(self) -> None:
        return None


@dataclass(frozen=True)
class FilledVector(KeyValue):
    """MeanEst on everybody's values; a person without a key takes its announced mean ``fake``, or 0."""

    fake: tuple[int, ...] = ()

    name: ClassVar[str] = "filled-vector"

    @property
    def estimated(self) -> frozenset[str]:
        return frozenset({"mean"})

    def validate(self) -> None:
        object.__setattr__(self, "fake", checked_broadcast(self.schema, self.fake))
        _ = self.inner  # refuses too many keys

    @cached_property
    def inner(self) -> MeanEst:
        return MeanEst(self.schema, self.epsilon)

    @property
    def codec(self) -> Codec:
        return self.inner.codec

    @property
    def ratio(self) -> Ratio:
        """The same whatever is announced: somebody may hold every key, and then nothing is filled."""
        return self.inner.ratio

    def announced(self) -> frozenset[str]:
        return frozenset({"fake"})

    def announced_forms(self) -> Sequence[Mechanism]:
        """The same announced mean for all keys: -1, 0 or 1."""
        return [replace(self, fake=(mean,) * self.schema.d) for mean in (-GRID, 0, GRID)]

    def announced_ratio(self) -> Ratio:
        return self.ratio

    def worst_announced(self) -> Mechanism:
        return replace(self, fake=(-GRID,) * self.schema.d)

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        values = dict(pairs)
        return self.inner.respond([(key, values.get(key, fake)) for key, fake in enumerate(self._fakes)], word, coins)

    def respond_many(self, records: Records, words: NDArray[np.uint64], coins: Coins) -> NDArray[Any]:
        return self.inner.tell(filled_blocks(records, self._fakes), coins)

    @property
    def tally_shape(self) -> tuple[int, ...]:
        return self.inner.tally_shape

    def fold(self, payloads: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        return self.inner.fold(payloads, words)

    def mixed_means(self, tally: Tally) -> Floats:
        """The mean of everybody's vector, what was filled in included."""
        return self.inner.answers(self._own(tally), tally.reports).mean

    def estimate(self, tally: Tally, confidence: float = 0.95, population: bool = False) -> Estimates:
        why = "A vector of values with its gaps filled does not tell who has a key; the first round, kvue and ssr do."
        mean = self.mixed_means(tally)
        return Estimates(
            header=self.header(tally.reports, confidence, population),
            respondents=np.full(self.schema.d, tally.reports),
            frequency=Column.unknown(self.schema, why),
            mean=biased_means(self.schema, mean, np.full(self.schema.d, SHRUNK)),
        )

    def reduced(self) -> Self:
        few = self.inner.few_keys
        return replace(self, schema=few, fake=self.fake[: few.d])

    @property
    def _fakes(self) -> tuple[int, ...]:
        return self.fake or (0,) * self.schema.d
