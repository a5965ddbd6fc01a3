"""Baselines: a key and a value told apart, with half of the budget each, as earlier work would have done it.

Everybody draws one key in secret. Its number, or a symbol for "I do not hold it", goes through a frequency oracle, and
independently of that a value goes through a mechanism for means. Published, people without the drawn key say nothing,
which no ε covers (errata A2); the absent symbol repairs that. Frequencies are unbiased; means are not, because the two
halves no longer belong together, and they come without intervals. Derivation: docs/mechanisms/krr-harmony.md.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from keyveil.core.channels import Ratio, TwoLevel, two_level
from keyveil.core.codecs.symbols import Symbol
from keyveil.core.coins import Coins
from keyveil.core.estimates import Column, Estimates
from keyveil.core.records import Records
from keyveil.core.report import Payload
from keyveil.core.schema import Schema
from keyveil.core.tally import Tally
from keyveil.kernels.held import values_of
from keyveil.mechanisms.base import Pairs
from keyveil.mechanisms.capabilities import CountDraws
from keyveil.mechanisms.categorical.grr import GRR
from keyveil.mechanisms.categorical.shist import SHist
from keyveil.mechanisms.counting import counts_of_each
from keyveil.mechanisms.dependence import ONE_PAIR, Dependence
from keyveil.mechanisms.effects import Effects
from keyveil.mechanisms.encoders import are_positive, value_of
from keyveil.mechanisms.families.categorical import Categorical, FrequencyOracle
from keyveil.mechanisms.families.key_value import FREQUENCIES, KeyValue
from keyveil.mechanisms.numeric.duchi import MINUS, PLUS, draw_sign, draw_signs
from keyveil.mechanisms.ratios import SHRUNK, biased_means
from keyveil.mechanisms.responses import Floats, Spread, normal_quantile
from keyveil.mechanisms.tally_laws import people_by

REDUCED_KEYS = 2


@dataclass(frozen=True)
class Baseline(KeyValue):
    """A secretly drawn key through a frequency oracle over d + 1 symbols, the last of which means absent.

    With ``values=False`` it is the oracle alone, with all of ε: frequencies without means (Ye et al. 2019, Fig. 4).
    """

    values: bool | None = None

    exhaustive: ClassVar[bool] = False  # words seed hashes
    unsaid: ClassVar[frozenset[str]] = frozenset({"values"})

    @property
    def alone(self) -> bool:
        """Whether the key is told without a value."""
        return self.values is False

    @property
    def key_epsilon(self) -> Fraction:
        return self.epsilon if self.alone else self.epsilon / 2

    @property
    def estimated(self) -> frozenset[str]:
        return FREQUENCIES if self.alone else super().estimated

    @property
    @abstractmethod
    def oracle(self) -> Categorical:
        """How the symbol is reported, with ε/2, or ε where no value is told."""

    def supports_alone(self, tally: Tally, confidence: float, population: bool) -> Estimates:
        """Estimates where no value is told: the counts are those of the oracle."""
        counts = self._own(tally)
        told = self.estimates(tally, counts, np.full(self.schema.d, np.nan), confidence, population)
        why = f"{self.name} with values=false tells keys alone; without that option it tells means too."
        return replace(told, mean=Column.unknown(self.schema, why, scaled=True))

    @property
    def symbols(self) -> Schema:
        return Schema(keys=self.schema.d + 1)

    def reduced(self) -> Self:
        return replace(self, schema=Schema(keys=min(self.schema.d, REDUCED_KEYS)))

    @property
    def reads_words(self) -> bool:
        return self.oracle.reads_words

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
        _ = (
            self.oracle,
            None if self.alone else self.sign,
        )  # refuse an epsilon whose half is too small now, not at the first report

    @cached_property
    def sign(self) -> TwoLevel:
        return two_level(outputs=2, marked=1, epsilon=self.epsilon / 2)

    @property
    def ratio(self) -> Ratio:
        """The worst report: absent, with a fair sign, against the opposite sign of a holder. Less than ε."""
        if self.alone:
            return self.oracle.ratio
        return Fraction(self.oracle.ratio) * Fraction(self.sign.high + self.sign.low, 2 * self.sign.low)

    @property
    def codec(self) -> Symbol:
        """Symbol 2·(the oracle's report) + sign."""
        inner = self.oracle.codec
        assert isinstance(inner, Symbol)
        return inner if self.alone else Symbol(2 * inner.outputs)

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        symbol, value = self.draw(pairs, coins)
        report = self.oracle.respond([(symbol, 0)], word, coins)
        assert isinstance(report, int)
        return report if self.alone else 2 * report + draw_sign(self.sign, value, coins)

    def respond_many(self, records: Records, words: NDArray[np.uint64], coins: Coins) -> NDArray[Any]:
        symbols, values = self.draw_many(records, coins)
        reports: NDArray[np.int64] = self.oracle.respond_many(symbols, words, coins)
        return reports if self.alone else 2 * reports + draw_signs(self.sign, values, coins)

    @property
    def tally_shape(self) -> tuple[int, ...]:
        """How many reports with each sign support each symbol; those of the oracle, where it is alone."""
        return self.oracle.tally_shape if self.alone else (2, self.schema.d + 1)

    def fold(self, payloads: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        if self.alone:
            return self.oracle.fold(payloads, words)
        of_sign = (payloads % 2 == sign for sign in (MINUS, PLUS))
        return np.stack([self.oracle.fold(payloads[told] // 2, words[told]) for told in of_sign])

    def counts_of_each(self, payloads: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        if self.alone:
            return counts_of_each(self.oracle, payloads, words)
        named, sign = counts_of_each(self.oracle, payloads // 2, words), payloads % 2
        return np.stack([named * (sign == one)[:, None] for one in (MINUS, PLUS)], axis=1)

    def estimate(self, tally: Tally, confidence: float = 0.95, population: bool = False) -> Estimates:
        if self.alone:
            return self.supports_alone(tally, confidence, population)
        counts = self._own(tally)
        supports, slope = counts.sum(axis=0), float(self.sign.hit - self.sign.miss)
        surplus, naming = (counts[PLUS] - counts[MINUS])[:-1], supports[:-1]
        means = np.where(naming > 0, surplus / (slope * np.maximum(naming, 1)), np.nan)
        return self.estimates(tally, supports, means, confidence, population)

    def report_effects(self, tally: Tally) -> list[Effects]:
        """Frequencies are averages over all reports, means over those that name the key."""
        if self.alone:
            counts = [np.full(self.tally_shape, bit, dtype=np.int64) for bit in (0, 1)]
        else:
            counts = [np.outer(signs, np.ones(self.schema.d + 1, dtype=np.int64)) for signs in ((0, 0), (1, 0), (0, 1))]
        told = [self.estimate(Tally(self.fingerprint, 1, one)) for one in counts]
        points = np.stack([one.frequency.values for one in told])
        unknown = np.full_like(points, np.nan)
        every = Effects(np.full(self.schema.d, tally.reports), np.stack((points, unknown), axis=-1))
        if self.alone:
            return [every]
        named = self._own(tally).sum(axis=0)[:-1]
        means = np.stack([one.mean.values for one in told[1:]])
        return [every, Effects(named, np.stack((np.zeros_like(means), means), axis=-1), direct=True)]


@dataclass(frozen=True)
class KRRHarmony(Harmony):
    """The symbol through generalised randomised response (k-RR)."""

    name: ClassVar[str] = "krr-harmony"

    @cached_property
    def oracle(self) -> GRR:
        return GRR(self.symbols, self.key_epsilon)

    def draw_tally(self, records: Records, coins: Coins, draws: CountDraws) -> NDArray[np.int64]:
        """The sign and the symbol are told independently of each other, so first the one, then the other."""
        symbols, values = self.draw_many(records, coins)
        if self.alone:
            return self.oracle.draw_supports(np.bincount(symbols.keys, minlength=symbols.d), draws)
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
        return SHist(self.symbols, self.key_epsilon)

    def dependence(self, population: bool = False) -> Dependence:
        return ONE_PAIR.of_sets(population)
