"""Baselines: a key and a value told apart, with half of the budget each, as earlier work would have done it.

Everybody draws one key in secret. Its number, or a symbol for "I do not hold it", goes through a frequency oracle, and
independently of that a value goes through a mechanism for means. Published, people without the drawn key say nothing,
which no ε covers (errata A2); the absent symbol repairs that. Frequencies are unbiased; means are not, because the two
halves no longer belong together, and they come without intervals. Derivation: docs/mechanisms/krr-harmony.md.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from keyveil.core.channels import Ratio, TwoLevel, two_level
from keyveil.core.codecs.rare_bits import noisy_bits
from keyveil.core.codecs.symbols import BitVector, Symbol
from keyveil.core.coins import Coins
from keyveil.core.estimates import Column, Estimates
from keyveil.core.records import Records
from keyveil.core.report import Payload
from keyveil.core.schema import Schema
from keyveil.core.tally import Tally
from keyveil.core.work import spend
from keyveil.kernels.bits import count_bits
from keyveil.mechanisms.base import Pairs
from keyveil.mechanisms.capabilities import CountDraws, KeyCovariances
from keyveil.mechanisms.categorical.grr import GRR
from keyveil.mechanisms.categorical.rappor import RAPPOR
from keyveil.mechanisms.categorical.shist import SHist
from keyveil.mechanisms.dependence import ONE_PAIR, Dependence, PairTerms
from keyveil.mechanisms.encoders import are_positive, value_of, values_of
from keyveil.mechanisms.families.categorical import Categorical, FrequencyOracle
from keyveil.mechanisms.families.key_value import KeyValue
from keyveil.mechanisms.numeric.duchi import MINUS, PLUS, draw_sign, draw_signs
from keyveil.mechanisms.numeric.mean_est import MeanEst, filled
from keyveil.mechanisms.ratios import SHRUNK, biased_means
from keyveil.mechanisms.responses import Floats, Spread, normal_quantile
from keyveil.mechanisms.tally_laws import people_by

REDUCED_KEYS = 2


@dataclass(frozen=True)
class Baseline(KeyValue):
    """A secretly drawn key through a frequency oracle over d + 1 symbols, the last of which means absent."""

    exhaustive: ClassVar[bool] = False  # words seed hashes

    @property
    @abstractmethod
    def oracle(self) -> Categorical:
        """How the symbol is reported, with ε/2."""

    @property
    def symbols(self) -> Schema:
        return Schema(keys=self.schema.d + 1)

    def reduced(self) -> Self:
        return replace(self, schema=Schema(keys=min(self.schema.d, REDUCED_KEYS)))

    def every_word(self) -> Iterable[int]:
        return self.oracle.every_word()

    def draw(self, pairs: Pairs, coins: Coins) -> tuple[int, int]:
        """The symbol of one key and its value, 0 if it is absent."""
        key = coins.below(self.schema.d)
        value = value_of(pairs, key)
        return (self.schema.d, 0) if value is None else (key, value)

    def draw_many(self, records: Records, coins: Coins) -> tuple[Records, NDArray[np.int32]]:
        """``draw`` for many people; the symbols as records for the oracle."""
        keys = coins.below_many(self.schema.d, records.n)
        held, values = values_of(records, keys)
        symbols = np.where(held, keys, self.schema.d).astype(np.int32)
        places = np.arange(records.n + 1, dtype=np.int64)
        return Records(places, symbols, np.zeros_like(symbols), self.schema.d + 1), values

    def frequency(self, counts: NDArray[np.int64], n: int, z: float, population: bool) -> Column:
        """d times the estimated frequency of each symbol; its error includes that of drawing a key.

        The oracle takes symbols as fixed, but for the same people they are drawn anew in every report: a holder names
        the key with probability 1/d. In a sample of people the oracle's own term f(1 - f)/n already contains that.
        """
        oracle, d = self.oracle, self.schema.d
        symbol = oracle.estimate(Tally(oracle.fingerprint, n, counts), population=population).frequency
        values, se = d * symbol.values[:d], d * symbol.se[:d]
        if not population:
            se = np.sqrt(se**2 + self._drawing(np.clip(values, 0, 1), n))
        nothing = n == 0
        low, high = np.where(nothing, 0, values - z * se), np.where(nothing, 1, values + z * se)
        return Column(self.schema, values, se, low, high, symbol.flag[:d])

    def _drawing(self, frequency: Floats, n: int) -> Floats:
        """Variance of how many of n fixed people name their key, as an estimate of its frequency."""
        return frequency * (self.schema.d - 1) / max(n, 1)

    def _shares(self, frequency: Floats) -> Floats:
        """Of the people who draw each symbol."""
        shares: Floats = np.append(frequency, self.schema.d - frequency.sum()) / self.schema.d
        return shares

    def predicted_spread(
        self, frequency: Floats, mean: Floats, sizes: Floats, n: int, population: bool = False
    ) -> Spread:
        """d² times the variance of the oracle over symbols, and that of drawing a key; means are biased: NaN."""
        variance = self.schema.d**2 * self.oracle.variance(self._shares(frequency), n, population)[:-1]
        unknown = np.full_like(frequency, np.nan)
        return Spread(variance if population else variance + self._drawing(frequency, n), unknown, unknown)

    def estimates(
        self, tally: Tally, counts: NDArray[np.int64], means: Floats, confidence: float, population: bool
    ) -> Estimates:
        return Estimates(
            header=self.header(tally.reports, confidence, population),
            respondents=np.full(self.schema.d, tally.reports, dtype=np.int64),
            frequency=self.frequency(counts, tally.reports, normal_quantile(confidence), population),
            mean=biased_means(self.schema, means, np.array(SHRUNK)),
        )


@dataclass(frozen=True)
class Harmony(Baseline):
    """The value of the drawn key as one randomised sign (0 for an absent key: a fair one)."""

    @property
    @abstractmethod
    def oracle(self) -> FrequencyOracle: ...

    def validate(self) -> None:
        super().validate()
        _ = self.oracle, self.sign  # refuse an epsilon whose half is too small now, not at the first report

    @cached_property
    def sign(self) -> TwoLevel:
        return two_level(outputs=2, marked=1, epsilon=self.epsilon / 2)

    @property
    def ratio(self) -> Ratio:
        """The worst report: absent, with a fair sign, against the opposite sign of a holder. Less than ε."""
        return Fraction(self.oracle.ratio) * Fraction(self.sign.high + self.sign.low, 2 * self.sign.low)

    @property
    def codec(self) -> Symbol:
        """Symbol 2·(the oracle's report) + sign."""
        inner = self.oracle.codec
        assert isinstance(inner, Symbol)
        return Symbol(2 * inner.outputs)

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        symbol, value = self.draw(pairs, coins)
        report = self.oracle.respond([(symbol, 0)], word, coins)
        assert isinstance(report, int)
        return 2 * report + draw_sign(self.sign, value, coins)

    def respond_many(self, records: Records, words: NDArray[np.uint64], coins: Coins) -> NDArray[Any]:
        symbols, values = self.draw_many(records, coins)
        reports: NDArray[np.int64] = self.oracle.respond_many(symbols, words, coins)
        return 2 * reports + draw_signs(self.sign, values, coins)

    @property
    def tally_shape(self) -> tuple[int, ...]:
        """How many reports with each sign support each symbol."""
        return (2, self.schema.d + 1)

    def fold(self, payloads: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        of_sign = (payloads % 2 == sign for sign in (MINUS, PLUS))
        return np.stack([self.oracle.fold(payloads[told] // 2, words[told]) for told in of_sign])

    def estimate(self, tally: Tally, confidence: float = 0.95, population: bool = False) -> Estimates:
        counts = self._own(tally)
        supports, slope = counts.sum(axis=0), float(self.sign.hit - self.sign.miss)
        surplus, naming = (counts[PLUS] - counts[MINUS])[:-1], supports[:-1]
        means = np.where(naming > 0, surplus / (slope * np.maximum(naming, 1)), np.nan)
        return self.estimates(tally, supports, means, confidence, population)


@dataclass(frozen=True)
class KRRHarmony(Harmony):
    """The symbol through generalised randomised response (k-RR)."""

    name: ClassVar[str] = "krr-harmony"

    @cached_property
    def oracle(self) -> GRR:
        return GRR(self.symbols, self.epsilon / 2)

    def draw_tally(self, records: Records, coins: Coins, draws: CountDraws) -> NDArray[np.int64]:
        """The sign and the symbol are told independently of each other, so first the one, then the other."""
        symbols, values = self.draw_many(records, coins)
        positive = are_positive(values, coins).astype(np.int64)
        true = people_by(positive, symbols.keys.astype(np.int64), 2, symbols.d)
        lies = draws.binomial(true, float(self.sign.miss))
        return self.oracle.draw_supports(true - lies + lies[::-1], draws)

    def dependence(self, population: bool = False) -> Dependence:
        """One symbol excludes the others; a holder's key is drawn with probability 1/d."""
        own, other = self.oracle.response.rates
        odds = float(other) / (float(own - other) / self.schema.d)
        return Dependence(-(odds**2), -odds, -1.0).of_sets(population)


@dataclass(frozen=True)
class SHistHarmony(Harmony):
    """The symbol as its sign in a public random vector (SHist)."""

    name: ClassVar[str] = "shist-harmony"

    @cached_property
    def oracle(self) -> SHist:
        return SHist(self.symbols, self.epsilon / 2)

    def dependence(self, population: bool = False) -> Dependence:
        return ONE_PAIR.of_sets(population)


@dataclass(frozen=True)
class RAPPORMeanEst(Baseline):
    """The symbol through RAPPOR; beside it the signs of all keys through MeanEst, absent ones counting as 0."""

    bits: int = 64
    hashes: int = 2
    cohorts: int = 16

    name: ClassVar[str] = "rappor-meanest"

    def validate(self) -> None:
        for half in (self.oracle, self.signs):
            half.validate()

    @cached_property
    def oracle(self) -> RAPPOR:
        return RAPPOR(self.symbols, self.epsilon / 2, self.bits, self.hashes, self.cohorts)

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
        return noisy_bits(self.bits + self.schema.d, self.oracle.ones + Fraction(self.schema.d, 2))

    def reduced(self) -> Self:
        oracle = self.oracle.reduced()
        return replace(super().reduced(), bits=oracle.bits, hashes=oracle.hashes, cohorts=oracle.cohorts)

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        symbol, _ = self.draw(pairs, coins)
        report = self.oracle.respond([(symbol, 0)], word, coins)
        complete = [(key, value_of(pairs, key) or 0) for key in range(self.schema.d)]
        signs = self.signs.respond(complete, word, coins)
        assert isinstance(report, bytes) and isinstance(signs, bytes)
        both = int.from_bytes(report, "little") | int.from_bytes(signs, "little") << self.bits
        return both.to_bytes(self.codec.size, "little")

    def respond_many(self, records: Records, words: NDArray[np.uint64], coins: Coins) -> NDArray[Any]:
        symbols, _ = self.draw_many(records, coins)
        report = self.oracle.respond_many(symbols, words, coins)
        signs = self.signs.tell(filled(records, (0,) * self.schema.d), coins)
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
        """The counts of RAPPOR in one row, and the number of plus signs of every key."""
        return (self.cohorts * (self.bits + 1) + self.schema.d,)

    def fold(self, payloads: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        plus = count_bits(payloads)[self.bits : self.bits + self.schema.d]
        return np.concatenate((self.oracle.fold(payloads, words).reshape(-1), plus))

    def estimate(self, tally: Tally, confidence: float = 0.95, population: bool = False) -> Estimates:
        counts, d = self._own(tally), self.schema.d
        means = self.signs.answers(counts[-d:], tally.reports).mean
        filters = counts[:-d].reshape(self.oracle.tally_shape)
        return self.estimates(tally, filters, means, confidence, population)

    @property
    def lacks(self) -> frozenset[type]:
        return super().lacks | (self.oracle.lacks & {KeyCovariances})

    def key_covariances(
        self, rows: NDArray[np.int64], columns: NDArray[np.int64], frequency: Floats, population: bool = False
    ) -> PairTerms:
        """d² times those of the filters; who names one key does not name another."""
        shares = self._shares(frequency)
        known = self.schema.d**2 * self.oracle.bloom.covariance(rows, columns, shares, self.oracle.noise)
        return PairTerms(known, -1.0).of_sets(frequency[rows], frequency[columns], population)
