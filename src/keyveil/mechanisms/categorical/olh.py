"""Local hashing: the key is hashed into g buckets by a public seed, and its bucket goes through GRR (Wang et al. 2017).

A report supports all keys that its seed hashes to the reported bucket. For every seed this is GRR on g symbols, so
privacy never depends on the hash; accuracy takes the realised rate at which two keys share a bucket.
Derivation: docs/mechanisms/categorical.md.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from keyveil.core.channels import Ratio, TwoLevel, two_level
from keyveil.core.codecs.symbols import Symbol
from keyveil.core.coins import Coins
from keyveil.core.epsilon import exp_floor
from keyveil.core.records import Records
from keyveil.core.report import Payload
from keyveil.kernels.hashing import collision, count_support, hash_grid, hash_many, hash_one
from keyveil.mechanisms.base import Pairs
from keyveil.mechanisms.dependence import Dependence
from keyveil.mechanisms.families.categorical import FrequencyOracle, option_refused
from keyveil.mechanisms.responses import Response, support_counts

MOST_BUCKETS = 1 << 16
REDUCED_BUCKETS = 4
_SEEDS = 1024  # tried for patterns of collisions; with four keys and buckets they show all fifteen


class LocalHash(FrequencyOracle):
    """GRR on the bucket of the key under a seed that is the report's public word."""

    exhaustive: ClassVar[bool] = False  # words seed hashes

    @property
    @abstractmethod
    def g(self) -> int:
        """The number of buckets."""

    @cached_property
    def channel(self) -> TwoLevel:
        return two_level(outputs=self.g, marked=1, epsilon=self.epsilon)

    @property
    def ratio(self) -> Ratio:
        return self.channel.ratio

    @property
    def variation(self) -> Fraction:
        return self.channel.variation

    @property
    def sizes(self) -> dict[str, int]:
        return {**super().sizes, "buckets": self.g}

    @property
    def codec(self) -> Symbol:
        return Symbol(self.g)

    @cached_property
    def response(self) -> Response:
        hit, miss, shared = self.channel.hit, self.channel.miss, collision(self.g)
        return support_counts(own=hit, other=shared * hit + (1 - shared) * miss)

    def dependence(self, population: bool = False) -> Dependence:
        """Seeds hash keys independently of each other."""
        return Dependence().of_single_keys(population)

    def every_word(self) -> Iterator[int]:
        """One seed for each way of hashing the keys that the tried seeds lead to. The rest of a seed is not used."""
        seen = set()
        for word in range(_SEEDS):
            buckets = tuple(hash_one(word, key, self.g) for key in range(self.schema.d))
            if buckets not in seen:
                seen.add(buckets)
                yield word

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        bucket, (hit, rank) = hash_one(word, pairs[0][0], self.g), self.channel.draw(coins)
        return bucket if hit else rank + (rank >= bucket)

    def respond_many(self, records: Records, words: NDArray[np.uint64], coins: Coins) -> NDArray[Any]:
        buckets = hash_many(words, self.keys_of(records), self.g).astype(np.int64)
        hits, ranks = self.channel.draw_many(records.n, coins)
        return np.where(hits, buckets, ranks + (ranks >= buckets))

    def fold(self, payloads: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        return count_support(words, payloads, self.g, self.schema.d)

    def counts_of_each(self, payloads: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        supported: NDArray[np.bool_] = hash_grid(words, self.schema.d, self.g) == payloads[:, None]
        return supported.astype(np.int64)


@dataclass(frozen=True)
class OLH(LocalHash):
    """Local hashing with about e^ε + 1 buckets, the number of least variance, unless ``buckets`` says otherwise."""

    buckets: int | None = None

    name: ClassVar[str] = "olh"

    def validate(self) -> None:
        super().validate()
        if self.buckets is None:
            object.__setattr__(self, "buckets", min(round(exp_floor(self.epsilon)) + 1, MOST_BUCKETS))
        if not 2 <= self.g <= MOST_BUCKETS:
            raise option_refused(f"olh needs between 2 and {MOST_BUCKETS} buckets, not {self.buckets}.")

    @property
    def g(self) -> int:
        assert self.buckets is not None
        return self.buckets

    def reduced(self) -> Self:
        return replace(self, schema=self.few_keys, buckets=min(self.g, REDUCED_BUCKETS))
