"""Responses: what the counts of a tally say about frequencies and means.

For one key, a report gives a *support* Q (does it speak for the key?) and, where values are collected, a *signed
support* T (plus for high values, minus for low ones). A ``Response`` holds the first two moments of (Q, T) for a
person who holds the key and for one who does not, as exact fractions taken from the channel. Both are affine in
(f, f·m), so everything else follows here, once: unbiased estimates, standard errors, intervals, predictions.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyveil.core.channels import Table
from keyveil.core.errors import MechanismError
from keyveil.core.estimates import FLAGS, Column, Estimates, Header
from keyveil.core.histogram import Histogram
from keyveil.core.schema import Schema
from keyveil.kernels.normal import binomial_scores, hazard, lattice_scores

Floats = NDArray[np.float64]

FEWEST = 3.0
"""The least variance of a count. Where nearly every report tells the truth, the plug-in variance is close to zero
although the count itself is uncertain; 3 keeps the coverage of 95 % intervals near frequencies 0 and 1 at large ε
(tests/contract, ``errors_are_as_stated`` with extreme people; without it coverage was 0.6 to 0.8)."""
INSUFFICIENT = FLAGS.index("insufficient")


@dataclass(frozen=True)
class SupportMoments:
    """Moments of one person's (Q, T). For a holder, those with an odd power of T are per unit of value."""

    support: Fraction  # E[Q]
    square: Fraction  # E[Q²]
    signed: Fraction = Fraction(0)  # E[T]
    signed_square: Fraction = Fraction(0)  # E[T²]
    product: Fraction = Fraction(0)  # E[Q·T]

    def mixed(self, share: Fraction, other: SupportMoments) -> SupportMoments:
        """The moments of someone who is like this with probability ``share`` and like ``other`` otherwise."""
        mine, theirs = vars(self).values(), vars(other).values()
        return SupportMoments(*(share * a + (1 - share) * b for a, b in zip(mine, theirs, strict=True)))


class Spread(NamedTuple):
    """Variances and covariance of the estimates of f and U = f·m, per key."""

    frequency: Floats
    product: Floats
    covariance: Floats

    def of_frequency(self) -> Spread:
        """The same where the product has no law: unknown but for the frequency."""
        unknown = np.full_like(self.frequency, np.nan)
        return Spread(self.frequency, unknown, unknown)


@dataclass(frozen=True)
class Response:
    """The moments of a key's counts for a person who holds the key (``holder``) and one who does not (``stranger``)."""

    holder: SupportMoments
    stranger: SupportMoments
    absent_law: tuple[tuple[int, Fraction], ...] = ()  # a stranger's support and its chance, where a report has several

    @cached_property
    def gain(self) -> float:
        """By how much a holder supports the key more often than a stranger."""
        return float(self.holder.support - self.stranger.support)

    @cached_property
    def _numbers(self) -> tuple[dict[str, float], dict[str, float]]:
        """The moments of a holder and of a stranger by name, as floating point numbers."""
        holder, stranger = (
            {name: float(value) for name, value in vars(one).items()} for one in (self.holder, self.stranger)
        )
        return holder, stranger

    @property
    def rates(self) -> tuple[Fraction, Fraction]:
        """How often a holder supports the key, and how often anybody else does."""
        return self.holder.support, self.stranger.support

    def spread(self, frequency: Floats, mean: Floats, respondents: Floats, known: Floats | float) -> Spread:
        """Variances at true (f, m) when ``respondents`` reports speak about the key.

        Total variance = within people + between people. ``known`` is the share of the target that responded: what
        lies between people is no error for that share (1 if all did and they are the target, 0 for a sample
        of a larger population). Between people, values are taken as constant: their spread would only reduce it.
        """
        holder, stranger = self._numbers
        share, unknown = frequency * (1 - frequency), 1 - known

        others, between_people, reports = 1 - frequency, unknown * share, np.maximum(respondents, 1)

        def combined(of_holder: Floats | float, of_stranger: float, between: Floats | float) -> Floats:
            within = frequency * of_holder + others * of_stranger
            result: Floats = (within + between_people * between) / reports
            return result

        signed = holder["signed"] * mean
        steps = self.gain, signed - stranger["signed"]
        supports = combined(
            holder["square"] - holder["support"] ** 2,
            stranger["square"] - stranger["support"] ** 2,
            steps[0] ** 2,
        )
        var_f = supports / self.gain**2
        if not holder["signed"]:
            return Spread(var_f, np.full_like(mean, np.nan), np.full_like(mean, np.nan))
        signs = combined(
            holder["signed_square"] - signed**2,
            stranger["signed_square"] - stranger["signed"] ** 2,
            steps[1] ** 2,
        )
        crossed = combined(
            holder["product"] * mean - holder["support"] * signed,
            stranger["product"] - stranger["support"] * stranger["signed"],
            steps[0] * steps[1],
        )
        cov_tf, fake = crossed / self.gain, stranger["signed"]
        var_u = (signs + 2 * fake * cov_tf + fake**2 * var_f) / holder["signed"] ** 2
        return Spread(var_f, var_u, (cov_tf + fake * var_f) / holder["signed"])

    def predicted(self, frequency: Floats, mean: Floats, n: int, population: bool, reach: float = 1.0) -> Spread:
        """``spread`` before anybody reports: each of n reports speaks about a key with probability ``reach``.

        Its respondents are then a share ``reach`` of the people who are the target, unless that is a larger population.
        """
        return self.spread(frequency, mean, np.full_like(frequency, reach * n), 0.0 if population else reach)

    def histogram(
        self, schema: Schema, n: int, respondents: NDArray[np.int64], counts: NDArray[np.int64], population: bool
    ) -> Histogram:
        """Masses of cells from their supports [d, cells]; every cell of a key answers like a key of its own."""
        people = respondents[:, None].astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            mass = (counts / people - float(self.stranger.support)) / self.gain
        likely = np.clip(np.nan_to_num(mass), 1 / np.maximum(people, 1), 1)
        known = 0.0 if population else people / max(n, 1)
        spread = self.spread(likely, np.zeros_like(likely), people, known)
        return Histogram(schema, mass, np.where(people > 0, np.sqrt(spread.frequency), np.nan), n)

    def solve(
        self,
        n: int,
        respondents: NDArray[np.int64],
        supports: NDArray[np.int64],
        signed: NDArray[np.int64] | None,
        population: bool,
    ) -> Solution:
        """Unbiased estimates of f and U = f·m from the counts of some keys, with their variances."""
        people = respondents.astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            frequency = (supports / people - float(self.stranger.support)) / self.gain
            known = 0.0 if population else people / max(n, 1)
            if signed is None:
                product = np.full(len(people), np.nan)
            else:
                fake = float(self.stranger.signed)
                product = (signed / people - (1 - frequency) * fake) / float(self.holder.signed)
            likely_f = np.clip(np.nan_to_num(frequency), 1 / np.maximum(people, 1), 1)
            likely_m = np.clip(np.nan_to_num(product / likely_f), -1, 1)
            spread = self.spread(likely_f, likely_m, people, known)
            var_f, var_u, covariance = spread
            var_f = np.maximum(var_f, FEWEST / (people * self.gain) ** 2)
            if signed is not None:
                var_u = np.maximum(var_u, FEWEST / (people * float(self.holder.signed)) ** 2)
        return Solution(frequency, product, Spread(var_f, var_u, covariance), self.scores(people, supports))

    def scores(self, people: Floats, supports: NDArray[np.int64]) -> Floats:
        """Per key, how far its support lies above that of a key that nobody holds, as a standard normal number.

        The chance of so much support or more is that of a normal number above the score. If a report supports a key
        once or not at all, the count of an absent key is binomial, and the score comes from the saddlepoint
        approximation of its tail (docs/theory.md, many keys), as it does where the law of a report's support is known.
        Otherwise it is the distance in standard deviations.
        """
        q, square = float(self.stranger.support), float(self.stranger.square)
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.absent_law:
                values, chances = (np.array(part, dtype=np.float64) for part in zip(*self.absent_law, strict=True))
                return lattice_scores(supports.astype(np.float64), people, values, chances)
            if self.stranger.square != self.stranger.support:
                return (supports - people * q) / np.sqrt(people * (square - q * q))
            return binomial_scores(supports.astype(np.float64), people, q)

    def estimates(
        self,
        header: Header,
        *,
        respondents: NDArray[np.int64],
        supports: NDArray[np.int64],
        signed: NDArray[np.int64] | None,
        no_mean: str = "",
    ) -> Estimates:
        """Unbiased estimates with intervals from a key's counts; ``no_mean`` says who could give means instead."""
        solution = self.solve(header.n, respondents, supports, signed, header.population)
        return solution.estimates(header, respondents=respondents, no_mean=None if signed is not None else no_mean)


@dataclass(frozen=True)
class Solution:
    """Estimates of f and U = f·m per key, unclipped, with their variances."""

    frequency: Floats
    product: Floats
    spread: Spread
    scores: Floats | None = None  # how far each key is from absent; frequencies over standard errors unless given
    noise: Floats | None = None  # the variance of U by chance alone, where intervals allow for more

    def estimates(self, header: Header, *, respondents: NDArray[np.int64], no_mean: str | None = None) -> Estimates:
        """The same with intervals; unknown where a key has no respondents.

        ``no_mean`` says who gives means, where these numbers hold none.
        """
        schema, z = header.schema, normal_quantile(header.confidence)
        nothing, has_mean = respondents == 0, no_mean is None
        frequency, spread = self.frequency, self.spread
        se = np.where(nothing, np.nan, np.sqrt(spread.frequency))
        shown = Column(
            schema,
            frequency,
            se,
            np.where(nothing, 0, frequency - z * se),
            np.where(nothing, 1, frequency + z * se),
            np.where(nothing, INSUFFICIENT, 0).astype(np.int8),
        )
        if no_mean is None:
            mean = fieller(schema, frequency, self.product, spread, z)
        else:
            mean = Column.unknown(schema, no_mean, scaled=True)
        return Estimates(
            header=header,
            respondents=respondents,
            frequency=shown,
            mean=mean,
            product=self.product if has_mean else None,
            product_se=np.sqrt(spread.product) if has_mean else None,
            covariance=spread.covariance if has_mean else None,
            scores=self.scores,
            product_noise_se=np.sqrt(self.noise) if has_mean and self.noise is not None else None,
        )


def three_state(
    seen: Fraction,
    fake: Fraction,
    truth: Fraction,
    *,
    inclusion: Fraction = Fraction(1),
    fake_mean: Fraction = Fraction(0),
) -> Response:
    """Reports that are plus, minus or nothing for a key (docs/theory.md, the three-state core).

    The report of a holder whose pair was included supports the key with probability ``seen``, and has the true sign
    with probability ``truth``. Any other report supports it with probability ``fake``; its signs have mean
    ``fake_mean``.
    """
    if fake_mean and inclusion != 1:
        raise MechanismError("mechanism/fake-mean", "A fake mean needs holders who are always included.")
    keep = 2 * truth - 1
    included = SupportMoments(seen, seen, seen * keep, seen, seen * keep)
    stranger = SupportMoments(fake, fake, fake * keep * fake_mean, fake, fake * keep * fake_mean)
    return Response(included.mixed(inclusion, stranger), stranger)


def support_counts(own: Fraction, other: Fraction) -> Response:
    """Reports that support keys without values: probability ``own`` for the true key, ``other`` for any other."""
    return Response(SupportMoments(own, own), SupportMoments(other, other))


def label_supports(
    own: Fraction,
    other: Fraction,
    own_and_other: Fraction,
    two_others: Fraction,
    labels: int = 2,
    opposite: Fraction | None = None,
) -> Response:
    """Reports that support (key, label) symbols: a holder of the key holds one of them, the rest are foreign.

    With two labels they are the signs of a value; with more they are cells, and there is no sign to learn from. The
    other labels of a held key are supported with probability ``opposite``, as often as any foreign symbol by default.
    """
    foreign, aside = labels - 1, other if opposite is None else opposite
    pairs = foreign * own_and_other + Fraction(foreign * (foreign - 1), 2) * two_others
    support = own + foreign * aside
    signed = own - aside if labels == 2 else Fraction(0)
    holder = SupportMoments(support, support + 2 * pairs, signed, support - 2 * pairs, signed)
    nobody = labels * other
    either = labels * foreign * two_others
    return Response(holder, SupportMoments(nobody, nobody + either, signed_square=nobody - either))


def table_response(table: Table, supports: Sequence[int], signs: Sequence[int] | None) -> Response:
    """The response of a table with rows absent, minus, plus (or absent and cells, without signs).

    ``supports`` and ``signs`` say what each output counts for the key; any whole numbers will do, and the unbiased
    estimate follows.
    """

    def mean(row: int, *statistics: Sequence[int]) -> Fraction:
        products = [math.prod(values) for values in zip(*statistics, strict=True)]
        return Fraction(sum(map(operator.mul, table.weights[row], products)), table.total)

    def even(*statistics: Sequence[int]) -> tuple[Fraction, Fraction]:
        holders = [mean(row, *statistics) for row in range(1, len(table.weights))]
        if any(one != holders[0] for one in holders):
            raise MechanismError("mechanism/asymmetric", "Holders of a key must be alike whatever their value.")
        return holders[0], mean(0, *statistics)

    def odd(*statistics: Sequence[int]) -> tuple[Fraction, Fraction]:
        low, high = mean(1, *statistics), mean(2, *statistics)
        if low != -high:
            raise MechanismError("mechanism/asymmetric", "Plus and minus must mirror each other.")
        return high, mean(0, *statistics)

    moments = [even(supports), even(supports, supports)]
    if signs is not None:
        moments += [odd(signs), even(signs, signs), odd(supports, signs)]
    holder, stranger = zip(*moments, strict=True)
    chances: dict[int, Fraction] = {}
    for support, weight in zip(supports, table.weights[0], strict=True):
        chances[support] = chances.get(support, Fraction(0)) + Fraction(weight, table.total)
    several = () if set(chances) <= {0, 1} else tuple(sorted(chances.items()))
    return Response(SupportMoments(*holder), SupportMoments(*stranger), several)


def normal_quantile(confidence: float) -> float:
    """The half-width of a two-sided normal interval, in standard errors."""
    if not 0 < confidence < 1:
        raise MechanismError("estimate/confidence", f"Confidence must lie between 0 and 1, not {confidence}.")
    from statistics import NormalDist  # brings in much that a device never needs

    return NormalDist().inv_cdf((1 + confidence) / 2)


def given_positive(frequency: Floats, product: Floats, spread: Spread) -> tuple[Floats, Floats]:
    """The expected f and U, given their estimates and f > 0; from three standard errors on these are the estimates."""
    with np.errstate(divide="ignore", invalid="ignore"):
        sd = np.sqrt(spread.frequency)
        moved = np.where(spread.frequency > 0, sd * hazard(frequency / sd), 0.0)
        along = np.where(spread.frequency > 0, spread.covariance / spread.frequency, 0.0)
    return frequency + moved, product + along * moved


def fieller(schema: Schema, frequency: Floats, product: Floats, spread: Spread, z: float) -> Column:
    """Means as ratios, with Fieller's interval; a key that cannot be told from an absent one is insufficient."""
    squares = (z * z * part for part in spread)
    var_f, var_u, cov = squares
    share, total = given_positive(frequency, product, spread)
    with np.errstate(divide="ignore", invalid="ignore"):
        leading = frequency**2 - var_f
        middle = product * frequency - cov
        root = np.sqrt(np.maximum(middle**2 - leading * (product**2 - var_u), 0))
        mean = np.where(frequency > 0, total / share, np.nan)
        se = np.sqrt(np.maximum(var_u + mean**2 * var_f - 2 * mean * cov, 0)) / (z * share)
        enough = (frequency > 0) & (leading > 0)
        # the interval holds the plain ratio; at a confidence below a half it can be too short for the other one
        low = np.where(enough, np.minimum((middle - root) / leading, mean), -1.0)
        high = np.where(enough, np.maximum((middle + root) / leading, mean), 1.0)
    flag = np.where(enough, 0, INSUFFICIENT).astype(np.int8)
    return Column(schema, mean, np.where(frequency > 0, se, np.nan), low, high, flag, scaled=True)
