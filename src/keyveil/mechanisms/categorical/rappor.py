"""RAPPOR: a Bloom filter of the key, every bit randomised (Erlingsson, Pihur and Korolova 2014).

Reports are short however many keys there are. A report's cohort comes from its public word and decides which hashes
are used, so that keys which meet in one cohort part in another. Less accurate than OLH at the same ε, and a baseline.
Derivation, and what permanent randomisation promises: docs/mechanisms/rappor.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from keyveil.core.channels import Product, Ratio, Table, binary
from keyveil.core.codecs.rare_bits import noisy_bits
from keyveil.core.codecs.symbols import BitVector
from keyveil.core.coins import Coins
from keyveil.core.epsilon import RESOLUTION, exp_floor, log_ceiling
from keyveil.core.errors import MechanismError
from keyveil.core.estimates import FLAGS, Column, Estimates
from keyveil.core.public import public_index, public_indices, public_words_covering
from keyveil.core.records import Records
from keyveil.core.report import Payload
from keyveil.core.tally import Tally
from keyveil.kernels.bernoulli import perturb_bits
from keyveil.kernels.bits import count_bits
from keyveil.mechanisms.base import Pairs
from keyveil.mechanisms.capabilities import CountDraws, KeyCovariances, ReportEffects
from keyveil.mechanisms.categorical.bloom import Bloom
from keyveil.mechanisms.dependence import PairTerms
from keyveil.mechanisms.effects import Effects
from keyveil.mechanisms.families.categorical import Categorical, Floats, option_refused
from keyveil.mechanisms.report_laws import Asked, SymbolLaws, binomial, bits_of
from keyveil.mechanisms.responses import normal_quantile
from keyveil.mechanisms.tally_laws import draw_outputs, people_by

DECODERS = ("auto", "least-squares", "nnls")
MOST_BITS, MOST_HASHES, MOST_COHORTS = 1024, 4, 1024
REDUCED_COHORTS = 8


@dataclass(frozen=True)
class RAPPOR(Categorical):
    """Every bit of the filter through randomised response with ε/(2·hashes): two keys differ in 2·hashes bits at most.

    ``permanent`` (φ) makes the noise two-staged: a device may keep the outcome of the first stage for ever, and all
    that it reports from it together stays within ``longitudinal_ratio``. One report spends ε in any case.
    """

    exhaustive: ClassVar[bool] = False  # words seed hashes

    bits: int = 64
    hashes: int = 2
    cohorts: int = 16
    permanent: Fraction = Fraction(0)
    decoder: str = "auto"

    name: ClassVar[str] = "rappor"
    readings: ClassVar[frozenset[str]] = frozenset({"decoder"})

    def validate(self) -> None:
        super().validate()
        if not 1 <= self.hashes <= MOST_HASHES:  # more would only split ε thinner
            raise option_refused(f"rappor takes 1 to {MOST_HASHES} hashes, not {self.hashes}.")
        if not 2 * self.hashes <= self.bits <= MOST_BITS:
            raise option_refused(
                f"rappor with {self.hashes} hashes takes {2 * self.hashes} to {MOST_BITS} bits, not {self.bits}."
            )
        if not 1 <= self.cohorts <= MOST_COHORTS:
            raise option_refused(f"rappor takes 1 to {MOST_COHORTS} cohorts, not {self.cohorts}.")
        if self.decoder not in DECODERS:
            raise option_refused(f"rappor has the decoders {', '.join(DECODERS)}, not {self.decoder!r}.")
        if not 0 <= self.permanent < 1:
            raise option_refused(f"rappor takes a permanent share from 0 up to but not 1, not {self.permanent}.")
        if self._needed_lie < Fraction(self._first_lie, RESOLUTION):
            most = log_ceiling(self.longitudinal_ratio)
            raise option_refused(
                f"With permanent {self.permanent} a report of rappor can spend no more than {most:.6f}; "
                "ask for a smaller epsilon or a smaller permanent share."
            )

    # -- noise --------------------------------------------------------------------------------------------------

    @property
    def _first_lie(self) -> int:
        return math.ceil(self.permanent * RESOLUTION / 2)

    @property
    def _needed_lie(self) -> Fraction:
        """How often a bit must lie in one report, over both stages."""
        return 1 / (exp_floor(self.epsilon / (2 * self.hashes)) + 1)

    @cached_property
    def stages(self) -> tuple[Table, Table]:
        """What happens to a bit for ever, and what happens to it in each report."""
        first = Fraction(self._first_lie, RESOLUTION)
        second = math.ceil((self._needed_lie - first) / (1 - 2 * first) * RESOLUTION)
        permanent, instant = (binary(RESOLUTION - lie, lie) for lie in (self._first_lie, second))
        return permanent, instant

    @cached_property
    def factor(self) -> Table:
        """Both stages as one table: the law of a bit in one report."""
        return composed(*self.stages)

    @cached_property
    def channel(self) -> Product:
        return Product(self.factor, self.bits, hot=self.hashes)

    @property
    def ratio(self) -> Ratio:
        """Attained by two keys whose bits are all different; fewer where they meet."""
        return self.channel.ratio

    @property
    def longitudinal_ratio(self) -> Ratio:
        """The most that all reports from one kept first stage can tell together: 2·hashes·ln((2 - φ)/φ) in ε."""
        if not self.permanent:
            return math.inf
        return Product(binary(RESOLUTION - self._first_lie, self._first_lie), self.bits, hot=self.hashes).ratio

    # -- reports ------------------------------------------------------------------------------------------------

    @property
    def sizes(self) -> dict[str, int]:
        return {**super().sizes, "bits": self.bits, "hashes": self.hashes, "cohorts": self.cohorts}

    @property
    def ones(self) -> Fraction:
        """How many bits of a report are ones on average, where no hashes of a key meet."""
        cold, hot = (self.factor.probability(bit, 1) for bit in (0, 1))
        return self.hashes * hot + (self.bits - self.hashes) * cold

    @cached_property
    def codec(self) -> BitVector:
        return noisy_bits(self.bits, self.ones)

    @cached_property
    def bloom(self) -> Bloom:
        return Bloom(self.schema.d, self.bits, self.hashes, self.cohorts)

    def reduced(self) -> Self:
        cohorts = min(self.cohorts, REDUCED_COHORTS)
        return replace(self, schema=self.few_keys, bits=2 * self.hashes, cohorts=cohorts, decoder="auto")

    def every_word(self) -> list[int]:
        return public_words_covering(self.cohorts)

    def respond(self, pairs: Pairs, word: int, coins: Coins) -> Payload:
        hot = self.bloom.of(public_index(word, self.cohorts), pairs[0][0])
        return BitVector.pack(self.channel.draw_ones(sorted(hot), coins))

    def respond_many(self, records: Records, words: NDArray[np.uint64], coins: Coins) -> NDArray[Any]:
        rows = self.bloom.packed[public_indices(words, self.cohorts), self.keys_of(records)]
        for (_, lie), (_, truth) in (stage.weights for stage in self.stages):
            if lie:
                rows = perturb_bits(rows, self.bits, truth, lie, coins)
        return rows

    # -- counts -------------------------------------------------------------------------------------------------

    @property
    def tally_shape(self) -> tuple[int, ...]:
        """Per cohort the ones of every bit, and in the last column its reports."""
        return (self.cohorts, self.bits + 1)

    def fold(self, payloads: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        cohorts = public_indices(words, self.cohorts)
        order = np.argsort(cohorts, kind="stable")
        ends = np.cumsum(np.bincount(cohorts, minlength=self.cohorts))[:-1]
        counts = np.zeros(self.tally_shape, dtype=np.int64)
        for row, reports in zip(counts, np.split(payloads[order], ends), strict=True):
            if len(reports):
                row[:-1], row[-1] = count_bits(reports)[: self.bits], len(reports)
        return counts

    def counts_of_each(self, payloads: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        counts = np.zeros((len(payloads), *self.tally_shape), dtype=np.int64)
        mine = np.arange(len(counts)), public_indices(words, self.cohorts)
        counts[(*mine, slice(-1))], counts[(*mine, -1)] = bits_of(payloads, self.bits), 1
        return counts

    def draw_tally(self, records: Records, coins: Coins, draws: CountDraws) -> NDArray[np.int64]:
        """Given how many people of a cohort set each bit, bits are independent of each other."""
        cohorts = public_indices(coins.words(records.n), self.cohorts)
        people = people_by(cohorts, self.keys_of(records), self.cohorts, self.schema.d)
        reports = people.sum(axis=1, keepdims=True)
        hot = np.einsum("cbk,ck->cb", self.bloom.indicator, people)
        ones = draw_outputs(self.factor, np.stack([reports - hot, hot]).reshape(2, -1), draws)[1]
        return np.hstack([ones.reshape(hot.shape), reports])

    @property
    def _lie(self) -> float:
        return float(self.factor.probability(0, 1))

    @property
    def noise(self) -> float:
        """Variance of the unbiased copy of a bit."""
        return self._lie * (1 - self._lie) / (1 - 2 * self._lie) ** 2

    def variance(self, frequency: Floats, n: int, population: bool = False) -> Floats:
        """Of least squares; unknown (NaN) for nnls, whose errors have no closed form."""
        if not self.unbiased:
            return np.full(self.schema.d, np.nan)
        sampling = frequency * (1 - frequency) / n if population else 0.0
        return self.bloom.variance(frequency, n, self.noise) + sampling

    @property
    def unbiased(self) -> bool:
        """Whether the decoder is least squares: if it can be, unless told otherwise."""
        possible = self.decoder != "nnls" and self.bloom.invertible
        if self.decoder == "least-squares" and not possible:
            raise MechanismError(
                "estimate/singular",
                f"{self.cohorts} cohorts of {self.bits} bits cannot part {self.schema.d} keys; add some, or take nnls.",
            )
        return possible

    @property
    def lacks(self) -> frozenset[type]:
        """The errors of nnls are not known, neither one by one nor together; nor is what one report adds."""
        fitted = self.decoder != "nnls" and self.bloom.invertible
        return super().lacks | (frozenset() if fitted else frozenset({KeyCovariances, ReportEffects}))

    def key_covariances(
        self, rows: NDArray[np.int64], columns: NDArray[np.int64], frequency: Floats, population: bool = False
    ) -> PairTerms:
        """Those of least squares, where nobody holds two keys."""
        share = _shares(frequency)
        known = self.bloom.covariance(rows, columns, share, self.noise)
        return PairTerms(known - np.outer(share[rows], share[columns]) if population else known, 0.0)

    def report_effects(self, tally: Tally) -> list[Effects]:
        """Least squares is an average over all reports; in each cohort a report may set any bits."""
        decode = np.stack([self.bloom.least_squares(one, 1) for one in self._single_bits()])
        decode = decode.reshape(self.cohorts, self.bits, self.schema.d) / (1 - 2 * self._lie)
        least = (np.minimum(decode, 0) - self._lie * decode).sum(axis=1).min(axis=0)
        largest = (np.maximum(decode, 0) - self._lie * decode).sum(axis=1).max(axis=0)
        points = np.stack((np.stack((least, largest)), np.full((2, self.schema.d), np.nan)), axis=-1)
        return [Effects(np.full(self.schema.d, tally.reports), points)]

    def asked_about(self, tally: Tally) -> Asked:
        """The cohorts; no cohort speaks of some keys only."""
        return Asked.evenly(self._own(tally)[:, -1], np.full((self.cohorts, 1), -1))

    def frequencies_without(self, tally: Tally, left_out: NDArray[np.bool_]) -> Floats | None:
        """Least squares over the other cohorts, each weighed by how many reports it has."""
        counts = np.where(left_out[:, None], 0, self._own(tally))
        sums = (counts[:, :-1] - self._lie * counts[:, -1:]) / (1 - 2 * self._lie)
        return self.bloom.weighted_least_squares(sums, counts[:, -1])

    def supported(self, payloads: NDArray[Any]) -> NDArray[np.bool_]:
        return bits_of(payloads, self.bits)

    def symbol_laws(self) -> SymbolLaws:
        """How many bits are ones, for keys whose hashes set 1, 2, … bits; which come together depends on the keys."""
        cold, hot = (float(self.factor.probability(bit, 1)) for bit in (0, 1))
        set_by_keys = np.unique(self.bloom.indicator.sum(axis=1)).tolist()
        laws = [np.convolve(binomial(ones, hot), binomial(self.bits - ones, cold)) for ones in set_by_keys]
        return SymbolLaws(np.full(self.bits, -1), np.array(laws))

    def _single_bits(self) -> Iterator[Floats]:
        """Sums in which one bit of one cohort is one."""
        for row in np.eye(self.cohorts * self.bits):
            yield row.reshape(self.cohorts, self.bits)

    def estimate(self, tally: Tally, confidence: float = 0.95, population: bool = False) -> Estimates:
        counts, n, z = self._own(tally), tally.reports, normal_quantile(confidence)
        unknown, d = np.full(self.schema.d, np.nan), self.schema.d
        if not n:
            column = Column(self.schema, unknown, unknown, np.zeros(d), np.ones(d), _flag("insufficient"))
        else:
            sums = (counts[:, :-1] - self._lie * counts[:, -1:]) / (1 - 2 * self._lie)
            if self.unbiased:
                values = self.bloom.least_squares(sums, n)
                se = np.sqrt(self.variance(_shares(values), n, population))
                column = Column(self.schema, values, se, values - z * se, values + z * se)
            else:
                values = self.bloom.nonnegative(sums, n)
                if self.bloom.inverse is None:  # other frequencies explain the filters as well as these
                    column = Column(self.schema, values, unknown, np.zeros(d), np.ones(d), _flag("insufficient"))
                else:
                    column = Column(self.schema, values, unknown, unknown, unknown, _flag("clipped"))
        return Estimates(
            header=self.header(n, confidence, population),
            respondents=np.full(d, n, dtype=np.int64),
            frequency=column,
            mean=Column.unknown(self.schema, self.no_mean, scaled=True),
        )


def composed(first: Table, then: Table) -> Table:
    """The table of two steps in a row, in lowest terms."""
    inner = range(len(then.weights))
    rows = [
        [sum(row[middle] * then.weights[middle][output] for middle in inner) for output in range(len(then.weights[0]))]
        for row in first.weights
    ]
    divisor = math.gcd(*(weight for row in rows for weight in row))
    return Table(tuple(tuple(weight // divisor for weight in row) for row in rows))


def _shares(frequency: Floats) -> Floats:
    """The likely shares of people, who hold one key each: not negative, and one in all."""
    likely = np.clip(frequency, 0, None)
    shares: Floats = likely / (likely.sum() or 1)
    return shares


def _flag(name: str) -> NDArray[np.int8]:
    return np.array(FLAGS.index(name), dtype=np.int8)
