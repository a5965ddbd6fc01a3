"""What the reports of several rounds say together about a key's frequency f and its product U = f·m.

Each report about a key gives two numbers: Q, whether it speaks for the key, and T, what it says of the value. Their
expectations are linear in (f, U), so rounds that differ in everything else — budgets, made-up values, labels — add up
by generalised least squares: every round counts with the inverse of its covariance (docs/protocols.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.mechanisms.responses import Floats, Solution, Spread

Ints = NDArray[np.int64]

_SINGULAR = 1e-9  # relative determinant below which two equations are one
_LEAST = 0.01  # of the covariance must be left after subtracting what is no error; otherwise nothing is subtracted
_FEW = 20.0  # reports of all keys that are added to a key's own, where the mean square of what they say is judged


@dataclass(frozen=True, eq=False)
class Observed:
    """The counts [outputs, d] of one round, what each output counts, and E[(Q, T)] of holders and of others.

    Q is one for the outputs that speak for a key and zero for the others. On average a holder of value v gives
    Q = ``seen`` and T = ``slope``·v, and anybody else ``fake`` and ``made_up``.
    """

    counts: Ints
    supports: Sequence[int]
    signs: Sequence[int]
    seen: float
    slope: float
    fake: float
    made_up: Floats | float  # one for all keys, or one for each

    @property
    def respondents(self) -> Ints:
        return np.asarray(self.counts.sum(axis=0), dtype=np.int64)

    def evidence(self, n: int, likely: tuple[Floats, Floats] | None = None) -> Evidence:
        """What this round says about (f, U) of ``n`` people.

        Reports are taken as a sample of all reports; given ``likely`` (f, m), the share of people who responded
        about a key is a known part of the target, and that they differ is no error. The covariance is that of the law
        at ``likely``, or of what all keys together say; a key's own counts in this round do not enter it, since weights
        that go with the errors of a round would bias the sum of rounds.
        """
        respondents = self.respondents.astype(np.float64)
        rows = np.array([self.supports, self.signs], dtype=np.float64)
        made_up = np.broadcast_to(np.asarray(self.made_up, dtype=np.float64), respondents.shape)
        seen = rows @ self.counts / np.maximum(respondents, 1)
        design = np.zeros((len(respondents), 2, 2))
        design[:, 0, 0] = self.seen - self.fake
        design[:, 1, 0] = -made_up
        design[:, 1, 1] = self.slope
        if likely is None:
            typical = rows @ self.counts.sum(axis=1) / max(float(respondents.sum()), 1.0)
            covariance = self._covariance(*(np.full_like(respondents, one) for one in typical))
        else:
            frequency, mean = likely
            speaking = self.fake + (self.seen - self.fake) * frequency
            covariance = self._covariance(speaking, self.slope * frequency * mean + made_up * (1 - frequency))
            steps = np.stack([np.full_like(respondents, self.seen - self.fake), self.slope * mean - made_up], axis=1)
            between = (respondents / max(n, 1) * frequency * (1 - frequency))[:, None, None] * _outer(steps)
            within = covariance - between
            enough = np.linalg.det(within) > _LEAST * np.linalg.det(covariance)
            covariance = np.where(enough[:, None, None], within, covariance)
        weight = np.swapaxes(design, 1, 2) @ np.linalg.inv(covariance) * respondents[:, None, None]
        beyond = seen.T - np.stack([np.full_like(respondents, self.fake), made_up], axis=1)
        return Evidence(self.respondents, weight @ design, (weight @ beyond[:, :, None])[:, :, 0])

    def _covariance(self, speaking: Floats, signed: Floats) -> Floats:
        """Of (Q, T) for one report about each key, from their expectations, [key, 2, 2].

        T is zero unless a report speaks for the key, and its mean square among those that do is the key's own, held to
        that of all keys where it has few reports.
        """
        least = 1 / (self.respondents + 2.0)  # one of two more reports, so that nothing is certain
        speaking = np.clip(speaking, least, 1 - least)
        squares, speaks = np.asarray(self.signs) ** 2 @ self.counts, np.asarray(self.supports) @ self.counts
        of_all = float(squares.sum()) / max(float(speaks.sum()), 1.0) or 1.0
        square = (squares + _FEW * of_all) / (speaks + _FEW)
        most = (1 - _LEAST) * speaking * np.sqrt(square)  # what the mean can be at most, given its square
        signed = np.clip(signed, -most, most)
        both = signed * (1 - speaking)
        entries = [[speaking * (1 - speaking), both], [both, speaking * square - signed**2]]
        covariance: Floats = np.moveaxis(np.array(entries), 2, 0)
        return covariance


@dataclass(frozen=True, eq=False)
class Evidence:
    """Per key the precision [d, 2, 2] of (f, U) and the precision times the estimate; evidence adds up."""

    respondents: Ints
    precision: Floats
    weighted: Floats

    def __add__(self, other: Evidence) -> Evidence:
        return Evidence(
            self.respondents + other.respondents, self.precision + other.precision, self.weighted + other.weighted
        )

    def __radd__(self, other: Any) -> Evidence:
        """Lets the built-in ``sum`` start from its 0."""
        return self if other == 0 else NotImplemented

    @property
    def known(self) -> NDArray[np.bool_]:
        """The keys of which both numbers follow."""
        scale = self.precision[:, 0, 0] * self.precision[:, 1, 1]
        known: NDArray[np.bool_] = (scale > 0) & (np.linalg.det(self.precision) > _SINGULAR * scale)
        return known

    def solution(self) -> Solution:
        """The estimates with their variances; NaN where nothing follows."""
        known, d = self.known, len(self.respondents)
        values, covariance = np.full((d, 2), np.nan), np.full((d, 2, 2), np.nan)
        covariance[known] = np.linalg.inv(self.precision[known])
        values[known] = (covariance[known] @ self.weighted[known][:, :, None])[:, :, 0]
        spread = Spread(covariance[:, 0, 0], covariance[:, 1, 1], covariance[:, 0, 1])
        return Solution(values[:, 0], values[:, 1], spread)


def combined(rounds: Sequence[Observed], n: int, population: bool) -> tuple[Solution, Ints]:
    """All rounds together, and how many reports speak about each key (none where nothing follows from them)."""
    evidence = _total([one.evidence(n) for one in rounds])
    frequency, mean = _likely(evidence.solution())
    evidence = _total([one.evidence(n, (frequency, mean)) for one in rounds])
    solution = evidence.solution()
    if population:
        product = frequency * mean
        drawn = frequency * (1 - frequency), frequency - product**2, product * (1 - frequency)
        spread = Spread(*(part + more / max(n, 1) for part, more in zip(solution.spread, drawn, strict=True)))
        solution = Solution(solution.frequency, solution.product, spread)
    return solution, np.where(evidence.known, evidence.respondents, 0)


def _total(parts: Sequence[Evidence]) -> Evidence:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _likely(solution: Solution) -> tuple[Floats, Floats]:
    """Frequencies and means as they may be, to judge errors with.

    Where keys differ by less than their errors, a frequency is held to that of all keys: otherwise keys that come out
    too low by chance would also seem to be known best. Of it and the key's own, the one nearer to 1/2 is taken, where
    errors are larger.
    """
    own, variance = np.clip(np.nan_to_num(solution.frequency), 0, 1), solution.spread.frequency
    known = np.isfinite(solution.frequency) & np.isfinite(variance)
    centre = float(np.clip(solution.frequency[known].mean(), 0, 1)) if known.any() else 0.0
    spread = max(float(solution.frequency[known].var() - variance[known].mean()), 0.0) if known.any() else 0.0
    with np.errstate(invalid="ignore", divide="ignore"):
        held = centre + np.nan_to_num(spread / (spread + variance)) * (own - centre)
    frequency = np.where(np.abs(held - 0.5) < np.abs(own - 0.5), held, own)
    ratio = np.divide(solution.product, frequency, out=np.zeros_like(frequency), where=frequency > 0)
    return frequency, np.clip(np.nan_to_num(ratio), -1, 1)


def _outer(vectors: Floats) -> Floats:
    outer: Floats = vectors[:, :, None] * vectors[:, None, :]
    return outer
