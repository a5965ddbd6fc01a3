"""How the errors of two keys' estimates go together: what sums over keys and comparisons of keys need to know.

``BoundedLinks`` follows from constants of the mechanism and from frequencies alone, ``PairwiseLinks`` from what the
mechanism knows of every pair of keys. The share of people who hold both keys is not known then, and taken as what makes
the answer least certain. ``EstimatedLinks`` follows from reports about both keys together, which tell that share.
``MergedLinks`` follows from what parts of the people tell who were asked differently. Derivation: docs/queries.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from keyveil.core.errors import MechanismError
from keyveil.core.estimates import Estimates
from keyveil.core.tally import Tally
from keyveil.learn.source import source
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import (
    KEYS_TOGETHER,
    JointStatistics,
    KeyCovariances,
    KeyDependence,
    Parted,
    can,
    who_can,
)
from keyveil.mechanisms.dependence import Dependence
from keyveil.mechanisms.joint.statistics import JointAnswers, Statistic, share, total
from keyveil.mechanisms.merging import PartAnswer
from keyveil.mechanisms.registry import mechanism_names

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

BLOCK = 1 << 16  # pairs of keys at once: bounded memory for sums over thousands of keys
_SHARES = (share({0: True}), share({1: True}), share({0: True, 1: True}))
_SUMS = (total(0, {}), total(1, {}))


class Links(Protocol):
    """What is known of the errors of several keys together."""

    def variance(self, keys: Ints, weights: Floats) -> float:
        """Of the weighted sum of the frequencies of these keys, or the most that it may be."""

    def of_means(self, first: int, second: int) -> float:
        """Covariance of the means of two keys, on [-1, 1], or the least that it may be."""


def links(estimates: Estimates, mechanism: Mechanism | None = None, tally: Tally | None = None) -> Links:
    """What is known for these unbiased estimates; reports about keys together are used if there is a ``tally``."""
    own = source(estimates, mechanism)
    parted = None if own is None else can(own, Parted)
    joint = None if own is None else can(own, JointStatistics)
    if (parted is None and joint is None) or (tally is None and can(own, KeyDependence) is not None):
        pairwise = None if own is None else can(own, KeyCovariances)
        if pairwise is not None:
            return PairwiseLinks(estimates, pairwise)
        return BoundedLinks(estimates, dependence(estimates, mechanism))
    if tally is None:
        raise MechanismError(
            "question/tally",
            f"How estimates of {estimates.mechanism} depend on each other is in the reports; give tally.",
        )
    if tally.reports != estimates.n:
        raise MechanismError(
            "question/tally",
            f"The estimates come from {estimates.n:,} reports, and the tally counts {tally.reports:,}.",
        )
    if parted is not None:
        told = [one for one in parted.part_answers(tally) if "frequency" in one.mechanism.estimated]
        return MergedLinks(estimates.population, tuple(_part(one, estimates) for one in told))
    assert joint is not None
    return EstimatedLinks(estimates, joint, tally)


def _part(part: PartAnswer, merged: Estimates) -> PartLinks:
    """What one part knows of its own people, with the merged values: they are the best guess of all."""

    def known(population: bool) -> Links:
        own = part.mechanism.estimate(part.tally, merged.confidence, population)
        frequency = replace(own.frequency, values=merged.frequency.values, se=np.nan_to_num(own.frequency.se))
        mean = replace(own.mean, values=merged.mean.values)
        return links(replace(own, frequency=frequency, mean=mean), part.mechanism, part.tally)

    return PartLinks(part, known(False), known(True))


def dependence(estimates: Estimates, mechanism: Mechanism | None = None) -> Dependence:
    """The constants of the covariance of two frequencies, for the number of reports behind these estimates."""
    own = source(estimates, mechanism)
    if own is None and estimates.mechanism in mechanism_names():
        raise MechanismError(
            "question/mechanism",
            f"How estimates of {estimates.mechanism} depend on each other follows from its options, which these "
            "estimates do not have; give mechanism.",
        )
    known = None if own is None else can(own, KeyDependence)
    if known is None:
        name = estimates.mechanism if own is None else own.title
        raise MechanismError(
            "question/dependence",
            f"The estimates of {name} do not tell how they depend on each other; "
            f"those of {who_can(*KEYS_TOGETHER)} do.",
        )
    constants = replace(known.dependence(estimates.population), n=max(estimates.n, 1))
    found = estimates.header.undercount
    return constants if found is None else constants.of_corrected(found.scale, found.common)


@dataclass(frozen=True, eq=False)
class BoundedLinks:
    """Upper bounds from the constants of a mechanism."""

    estimates: Estimates
    constants: Dependence

    def variance(self, keys: Ints, weights: Floats) -> float:
        column = self.estimates.frequency
        return self.constants.variance(weights, column.values[keys], column.se[keys])

    def of_means(self, first: int, second: int) -> float:
        """The least covariance of two means, on [-1, 1], to first order in the errors of f and f·m.

        Frequencies may be as dependent as ``constants`` allow, and products f·m as dependent as frequencies.
        """
        f = np.clip(self.estimates.frequency.values[[first, second]], 0.0, 1.0)
        m = np.abs(self.estimates.mean.values[[first, second]])
        most = self.constants.at_most(float(f[0]), float(f[1]))
        return -2 * float(m[0] * m[1]) * most / float(f[0] * f[1])


@dataclass(frozen=True, eq=False)
class PairwiseLinks:
    """Bounds from what a mechanism knows of every pair of keys."""

    estimates: Estimates
    mechanism: KeyCovariances

    def variance(self, keys: Ints, weights: Floats) -> float:
        se, shared, step = self.estimates.frequency.se[keys], 0.0, max(BLOCK // len(keys), 1)
        for start in range(0, len(keys), step):
            some = slice(start, start + step)
            least, most = self._bounds(keys[some], keys, self.estimates.population)
            both = np.outer(weights[some], weights)
            both[keys[some, None] == keys] = 0.0
            shared += float((both * np.where(both > 0, most, least)).sum())
        return max(float(weights**2 @ se**2) + shared, 0.0)

    def _bounds(self, rows: Ints, columns: Ints, population: bool) -> tuple[Floats, Floats]:
        """The least and the largest covariance, whatever share of people holds both keys."""
        f, n = self._frequency, max(self.estimates.n, 1)
        known, held = self.mechanism.key_covariances(rows, columns, f, population)
        few = known + held * np.maximum(np.add.outer(f[rows], f[columns]) - 1, 0.0)
        many = known + held * np.minimum.outer(f[rows], f[columns])
        return np.minimum(few, many) / n, np.maximum(few, many) / n

    @property
    def _frequency(self) -> Floats:
        return np.clip(np.nan_to_num(self.estimates.frequency.values), 0.0, 1.0)

    def of_means(self, first: int, second: int) -> float:
        """As with ``BoundedLinks``; values of people who hold both keys add at most what Cauchy and Schwarz allow."""
        one, other = np.array([first]), np.array([second])
        f, n = self._frequency[[first, second]], max(self.estimates.n, 1)
        m = np.clip(np.abs(self.estimates.mean.values[[first, second]]), 0.0, 1.0)
        most = max(float(np.abs(bound).max()) for bound in self._bounds(one, other, self.estimates.population))
        held = float(np.max(self.mechanism.key_covariances(one, other, self._frequency, True).held)) / n
        values = max(held, 0.0) * float(np.sqrt(np.prod(f * (1 - m**2))))
        return -(2 * float(m.prod()) * most + values) / float(f.prod())


@dataclass(frozen=True, eq=False)
class EstimatedLinks:
    """Covariances estimated from reports about both keys of a pair."""

    estimates: Estimates
    mechanism: JointStatistics
    tally: Tally

    def variance(self, keys: Ints, weights: Floats) -> float:
        se = self.estimates.frequency.se[keys]
        one, other = np.triu_indices(len(keys), 1)
        shared = 0.0
        for start in range(0, len(one), BLOCK):
            i, j = one[start : start + BLOCK], other[start : start + BLOCK]
            both = weights[i] * weights[j]
            shared += float(both @ self._of_frequencies(np.stack([keys[i], keys[j]], axis=1), both > 0))
        return max(float(weights**2 @ se**2) + 2 * shared, 0.0)

    def _of_frequencies(self, pairs: Ints, added: Flags) -> Floats:
        """Covariances of the frequencies of pairs of keys, which are ``added`` or subtracted.

        People who are the target themselves and no sample take the covariance of holding, (f_ij - f_i·f_j)/n, off. The
        share f_ij of people who hold both is then what the reports say, as far as it is possible with the frequencies;
        where no report tells of both keys, it is what makes the answer least certain.
        """
        answers, heard = self._answers(pairs, _SHARES)
        covariance: Floats = np.where(heard, answers.covariance[:, 0, 1], 0.0)
        if self.estimates.population:
            return covariance
        f = np.clip(self.estimates.frequency.values[pairs], 0.0, 1.0)
        least, most = np.maximum(f.sum(axis=1) - 1, 0.0), f.min(axis=1)
        held = np.where(heard, np.clip(answers.values[:, 2], least, most), np.where(added, least, most))
        fixed: Floats = covariance - (held - f.prod(axis=1)) / max(self.estimates.n, 1)
        return fixed

    def of_means(self, first: int, second: int) -> float:
        """To first order: m = u / f with u = f·m, so that dm = (du - m·df) / f.

        That of a sample of people, whoever is the target: how people differ in their values is part of the errors of
        means in any case (``Response.spread``).
        """
        pair = np.array([[first, second]])
        f, m = (column.values[[first, second]] for column in (self.estimates.frequency, self.estimates.mean))
        try:
            answers, heard = self._answers(pair, (*_SHARES, *_SUMS))
        except MechanismError as refused:
            if refused.code != "question/no-values":
                raise
            answers, heard = self._answers(pair, _SHARES)  # other people told the values
            return float(heard[0] and m.prod() * answers.covariance[0, 0, 1] / f.prod())
        if not heard[0]:
            return 0.0
        slopes = np.zeros((2, len(_SHARES) + len(_SUMS)))
        for key in (0, 1):
            slopes[key, key], slopes[key, len(_SHARES) + key] = -m[key] / f[key], 1 / f[key]
        return float(slopes[0] @ answers.covariance[0] @ slopes[1])

    def _answers(self, pairs: Ints, statistics: Sequence[Statistic]) -> tuple[JointAnswers, Flags]:
        """Statistics of a sample of people, and for which pairs of keys reports tell of both.

        Different people told of the other pairs, so that their covariances are 0 in a sample.
        """
        try:
            answers = self.mechanism.answer_jointly(self.tally, pairs, statistics, population=True)
        except MechanismError as refused:
            if refused.code != "question/not-covered":
                raise
            size = len(pairs), len(statistics)
            answers = JointAnswers(np.zeros(size), np.zeros((*size, size[1])), np.zeros(size[0], dtype=np.int64))
        return answers, answers.respondents > 0


class PartLinks(NamedTuple):
    """A part of the people, and what is known of its errors: its people as they are, and as a sample."""

    answer: PartAnswer
    fixed: Links
    sampled: Links


@dataclass(frozen=True, eq=False)
class MergedLinks:
    """Errors of estimates that are merged from several parts of the people, from what every part knows."""

    population: bool
    parts: tuple[PartLinks, ...]

    def variance(self, keys: Ints, weights: Floats) -> float:
        """As in ``merging``: weights other than a part's share of the people add how people differ."""
        total = 0.0
        for answer, fixed, sampled in self.parts:
            mine = answer.frequency_weights[keys]
            if self.population:
                total += sampled.variance(keys, weights * mine)
            else:
                uneven = weights * (mine - answer.share)
                people = sampled.variance(keys, uneven) - fixed.variance(keys, uneven)
                total += fixed.variance(keys, weights * mine) + max(people, 0.0)
        return total

    def of_means(self, first: int, second: int) -> float:
        """The least that it may be: a mean is a ratio of merged sums, whose parts may count differently."""
        answers = [one.answer for one in self.parts]
        weights = np.array([[one.frequency_weights, one.product_weights] for one in answers])[:, :, [first, second]]
        whole = weights.sum(axis=0)  # 1 unless sums were scaled, as the correction of a cap does; a ratio is not
        total = 0.0
        for (_, fixed, sampled), both in zip(self.parts, weights / np.where(whole > 0, whole, 1), strict=True):
            least, most = (float(np.prod(bound(both, axis=0))) for bound in (np.min, np.max))
            shared = min(fixed.of_means(first, second), sampled.of_means(first, second))
            total += shared * (most if shared < 0 else least)
        return total
