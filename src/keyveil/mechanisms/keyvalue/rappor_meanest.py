"""RAPPOR&MeanEst: a secretly drawn key through RAPPOR, and the signs of all keys through MeanEst, with ε/2 each.

A baseline of the PrivKV paper; see ``baselines``. Derivation: docs/mechanisms/rappor-meanest.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from keyveil.core.channels import Ratio
from keyveil.core.codecs.rare_bits import noisy_bits
from keyveil.core.codecs.symbols import BitVector
from keyveil.core.coins import Coins
from keyveil.core.estimates import Estimates
from keyveil.core.records import Records
from keyveil.core.report import Payload
from keyveil.core.tally import Tally
from keyveil.core.work import spend
from keyveil.kernels.bits import count_bits
from keyveil.mechanisms.base import Pairs
from keyveil.mechanisms.capabilities import KeyCovariances, ReportEffects
from keyveil.mechanisms.categorical.rappor import RAPPOR
from keyveil.mechanisms.dependence import PairTerms
from keyveil.mechanisms.effects import Effects
from keyveil.mechanisms.keyvalue.baselines import Baseline
from keyveil.mechanisms.numeric.mean_est import MeanEst, filled_blocks
from keyveil.mechanisms.report_laws import bits_of
from keyveil.mechanisms.responses import Floats


@dataclass(frozen=True)
class RAPPORMeanEst(Baseline):
    """The symbol through RAPPOR; beside it the signs of all keys through MeanEst, absent ones counting as 0."""

    bits: int = 64
    hashes: int = 2
    cohorts: int = 16

    name: ClassVar[str] = "rappor-meanest"

    def validate(self) -> None:
        for half in (self.oracle,) if self.alone else (self.oracle, self.signs):
            half.validate()

    @cached_property
    def oracle(self) -> RAPPOR:
        return RAPPOR(self.symbols, self.key_epsilon, self.bits, self.hashes, self.cohorts)

    @cached_property
    def signs(self) -> MeanEst:
        return MeanEst(self.schema, self.epsilon / 2)

    @cached_property
    def ratio(self) -> Ratio:
        """The largest loss over how many keys two people hold; attained where the filter of ⊥ meets none of a key's.

        Who differs most in one half cannot differ most in the other: the halves are looked at together. It is worst
        that two people hold all keys between them and none in common, or that one of them holds every key
        (docs/mechanisms/rappor-meanest.md).
        """
        if self.alone:
            return self.oracle.ratio
        d = self.schema.d
        spend(8 * d + d * d // 4, f"The exact loss of {self.name} with {d} keys")
        told, denied = self._agreeing
        worst, least = 1, 1  # compared as whole numbers: reducing fractions of so many digits would take minutes
        for held, other in {pair for one in range(d + 1) for pair in ((one, d - one), (d, one), (one, d))}:
            for named, unnamed in self._named(held, other):
                high, low = told[held] * named, denied[other] * unnamed
                if high * least > worst * low:
                    worst, least = high, low
        return Fraction(worst, least)

    @cached_property
    def _agreeing(self) -> tuple[list[int], list[int]]:
        """For 0, …, d held keys: the weight of a sign vector for whoever has all of its signs at held keys, or none.

        Other signs are fair. Of the ways in which they can fall, ``more`` and ``fewer`` agree with the vector in more
        than half of the keys; both are counted from all keys held down to none. Weights are multiplied by 2^d.
        """
        d, channel = self.schema.d, self.signs.channel
        half, rise = d // 2, channel.high - channel.low
        more, fewer, weights = 1, 0, []
        lost = gained = 0  # ways in which one more fair sign decides: C(free, lucky) and C(free, half)
        for free in range(d + 1):
            weights.append([(channel.low << d) + (rise * ways << d - free) for ways in (more, fewer)])
            lucky = half - (d - free - 1)
            lost = lost * free // lucky if lucky > 0 else int(lucky == 0)
            gained = gained * free // (free - half) if free > half else int(free == half)
            more, fewer = 2 * more - lost, 2 * fewer + gained
        told, denied = zip(*reversed(weights), strict=True)
        return list(told), list(denied)

    @cached_property
    def _favour(self) -> tuple[int, int]:
        return Fraction(self.oracle.ratio).as_integer_ratio()

    def _named(self, held: int, other: int) -> Iterator[tuple[int, int]]:
        """How much likelier a filter can be for one of two people, who share as few keys as they must: fractions.

        For one report, the symbols differ by at most the factor of the oracle. It favours the keys that only the first
        person holds, and ⊥ if that helps, over all others.
        """
        d, (most, one) = self.schema.d, self._favour
        shared = max(0, held + other - d)
        own = (held - shared) * most + shared * one
        for absent in (one, most):
            yield own + (d - held) * absent, other * one + (d - other) * absent

    @property
    def sizes(self) -> dict[str, int]:
        return {**self.oracle.sizes, "keys": self.schema.d}

    @cached_property
    def codec(self) -> BitVector:
        """The filter's bits, then a sign for every key."""
        if self.alone:
            return self.oracle.codec
        return noisy_bits(self.bits + self.schema.d, self.oracle.ones + Fraction(self.schema.d, 2))

    def reduced(self) -> Self:
        oracle = self.oracle.reduced()
        return replace(super().reduced(), bits=oracle.bits, hashes=oracle.hashes, cohorts=oracle.cohorts)

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        symbol, _ = self.draw(pairs, coins)
        report = self.oracle.respond([(symbol, 0)], word, coins)
        if self.alone:
            return report
        values = np.zeros(self.schema.d, dtype=np.int64)  # an absent key has the value 0
        for key, value in pairs:
            values[key] = value
        signs = self.signs.vote(values, coins)
        assert isinstance(report, bytes)
        both = int.from_bytes(report, "little") | int.from_bytes(signs, "little") << self.bits
        return both.to_bytes(self.codec.size, "little")

    def respond_many(self, records: Records, words: NDArray[np.uint64], coins: Coins) -> NDArray[Any]:
        symbols, _ = self.draw_many(records, coins)
        report: NDArray[np.uint64] = self.oracle.respond_many(symbols, words, coins)
        if self.alone:
            return report
        signs = self.signs.tell(filled_blocks(records, (0,) * self.schema.d), coins)
        both = np.zeros((records.n, self.codec.words + 1), dtype=np.uint64)  # one more, where the last signs end
        both[:, : report.shape[1]] = report
        first, shift = divmod(self.bits, 64)
        stop = first + signs.shape[1]
        both[:, first:stop] |= signs << np.uint64(shift)
        if shift:
            both[:, first + 1 : stop + 1] |= signs >> np.uint64(64 - shift)
        return both[:, :-1]

    @property
    def tally_shape(self) -> tuple[int, ...]:
        """The counts of RAPPOR in one row, and the plus signs of every key; RAPPOR's own where it is alone."""
        if self.alone:
            return self.oracle.tally_shape
        return (self.cohorts * (self.bits + 1) + self.schema.d,)

    def fold(self, payloads: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        if self.alone:
            return self.oracle.fold(payloads, words)
        plus = count_bits(payloads)[self.bits : self.bits + self.schema.d]
        return np.concatenate((self.oracle.fold(payloads, words).reshape(-1), plus))

    def counts_of_each(self, payloads: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        filters = self.oracle.counts_of_each(payloads, words).reshape(len(payloads), -1)
        return filters if self.alone else np.hstack((filters, bits_of(payloads, self.codec.length)[:, self.bits :]))

    def estimate(self, tally: Tally, confidence: float = 0.95, population: bool = False) -> Estimates:
        if self.alone:
            return self.supports_alone(tally, confidence, population)
        counts, d = self._own(tally), self.schema.d
        means = self.signs.answers(counts[-d:], tally.reports).mean
        filters = counts[:-d].reshape(self.oracle.tally_shape)
        return self.estimates(tally, filters, means, confidence, population)

    def report_effects(self, tally: Tally) -> list[Effects]:
        """Both halves are averages over all reports: d times the filters' frequencies, and the signs' means."""
        n, d = tally.reports, self.schema.d
        filters = self._own(tally) if self.alone else self._own(tally)[:-d].reshape(self.oracle.tally_shape)
        (named,) = self.oracle.report_effects(Tally(self.oracle.fingerprint, n, filters))
        told = Effects(named.people[:d], d * named.points[:, :d])
        if self.alone:
            return [told]
        means = np.stack([self.signs.answers(counts, 1).mean for counts in self.signs.extreme_counts()])
        signs = Effects(told.people, np.stack((np.zeros_like(means), means), axis=-1), direct=True)
        return [told, signs]

    @property
    def lacks(self) -> frozenset[type]:
        return super().lacks | (self.oracle.lacks & {KeyCovariances, ReportEffects})

    def key_covariances(
        self, rows: NDArray[np.int64], columns: NDArray[np.int64], frequency: Floats, population: bool = False
    ) -> PairTerms:
        """d² times those of the filters; who names one key does not name another."""
        shares = self._shares(frequency)
        known = self.schema.d**2 * self.oracle.bloom.covariance(rows, columns, shares, self.oracle.noise)
        return PairTerms(known, -1.0).of_sets(frequency[rows], frequency[columns], population)
