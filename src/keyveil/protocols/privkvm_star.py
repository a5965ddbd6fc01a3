"""PrivKVM*: some people find out which keys are frequent, the others tell about those alone, with histograms.

Two disjoint groups, so everybody spends all of ε once. The reports of the second group are about the keys that
noise cannot explain (Base-Cut); what both groups say is added up by inverse variance. All other keys are too rare to be
told apart and share their average, flagged ``shrunk``. Reconstructed; derivation: docs/protocols.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from keyveil.core.errors import ProtocolError
from keyveil.core.estimates import Column, Estimates
from keyveil.core.histogram import Histogram
from keyveil.learn.consistency import FALSE_POSITIVES, cut_threshold
from keyveil.learn.distributions import Distributions, distribution
from keyveil.mechanisms.capabilities import Histograms
from keyveil.mechanisms.evidence import combined
from keyveil.mechanisms.responses import Floats
from keyveil.mechanisms.rounds.privkvm_star import MOST_BINS, LabelRound
from keyveil.mechanisms.rounds.reading import ReadTogether
from keyveil.protocols.base import History, Protocol, Round, in_parts
from keyveil.protocols.privkv_rounds import PRICE, nothing_finished

KNOWN = 0.2
"""The standard error up to which the mean of all rare keys together is shown. With a limit of two standard errors of
their frequency instead, means were worse with more ε: 0.038, 0.12, 0.038 in squared error at ε = 1, 3, 4 for 1,000 keys
that are all rare (tests/protocols/test_privkvm_star.py)."""


@dataclass(frozen=True)
class PrivKVMStar(Protocol):
    """``share`` of the people answer first; the values of the second group have ``bins`` cells.

    Cells are no levels: where the schema has levels there is one cell, which tells means alone.
    """

    share: Fraction = Fraction(1, 2)
    bins: int | None = None

    name: ClassVar[str] = "privkvm-star"

    def validate(self) -> None:
        if self.bins is None:
            object.__setattr__(self, "bins", usual_bins(self.epsilon) if self.schema.levels is None else 1)
        if self.schema.levels is not None and self.bins != 1:
            raise ProtocolError(
                "protocol/option",
                f"{self.name} cuts values into cells and cannot tell levels: take bins=1 for means alone, "
                "or kvue, ssr, wsr or kv-sw for levels.",
            )
        if self.bins is None or not 1 <= self.bins <= MOST_BINS:
            raise ProtocolError("protocol/option", f"{self.name} takes from 1 to {MOST_BINS} bins, not {self.bins}.")
        if not 0 < self.share < 1:
            raise ProtocolError("protocol/option", f"{self.name} needs people in both groups, not {self.share} in one.")

    def plan(self, finished: History) -> Round | None:
        first, second = in_parts(self.share, 1 - self.share)
        if not finished:
            return Round(1, LabelRound(self.schema, self.epsilon), first)
        if len(finished) > 1:
            return None
        assert self.bins is not None
        keys = tuple(np.flatnonzero(self.frequent(finished)).tolist())
        return Round(2, LabelRound(self.schema, self.epsilon, self.bins, keys), second)

    def frequent(self, finished: History) -> NDArray[np.bool_]:
        """The keys that the first group finds more often than noise would; the likeliest ones, if there is none.

        As many of those as Base-Cut lets pass by chance. Asking about all keys instead would leave the noise of every
        key in the answers, while that of a few is small.
        """
        column = finished[0].estimates().frequency
        with np.errstate(invalid="ignore"):
            hitters: NDArray[np.bool_] = column.values > cut_threshold(self.schema.d) * column.se
        if not hitters.any():
            likeliest = np.argsort(-np.nan_to_num(column.values, nan=-np.inf), kind="stable")
            hitters[likeliest[: math.ceil(FALSE_POSITIVES)]] = True
        return hitters

    def estimate(self, finished: History, confidence: float = 0.95, population: bool = False) -> Estimates:
        estimates = self.unshrunk(finished, confidence, population)
        light = ~self.frequent(finished)
        return _pooled(estimates, light) if light.any() else estimates

    def unshrunk(self, finished: History, confidence: float = 0.95, population: bool = False) -> Estimates:
        """The unbiased estimates of all keys, before rare ones share their average (``protocols.unshrunk``)."""
        if not finished:
            raise nothing_finished(self)
        n = sum(one.tally.reports for one in finished)
        rounds = [one.seen_as(ReadTogether).observed(one.tally) for one in finished]
        solution, respondents = combined(rounds, n, population)
        return solution.estimates(self.header(n, confidence, population), respondents=respondents)

    def round_price(self) -> Fraction:
        return PRICE

    def announced_means(self, finished: History) -> Floats:
        return np.nan_to_num(np.clip(self.estimate(finished).mean.values, -1, 1))

    def histogram(self, finished: History, population: bool = False) -> Histogram:
        """The distribution of the values of frequent keys, from the second group; NaN errors elsewhere."""
        if len(finished) < 2:
            raise ProtocolError("protocol/order", f"Histograms come from the second group of {self.name}.")
        return finished[1].seen_as(Histograms).histogram(finished[1].tally, population)

    def distribution(self, finished: History, confidence: float = 0.95, population: bool = False) -> Distributions:
        """Quantiles, variances and plots of the values of frequent keys, from the second group."""
        if len(finished) < 2:
            raise ProtocolError("protocol/order", f"Distributions come from the second group of {self.name}.")
        second = finished[1]
        return distribution(second.round.mechanism, second.tally, confidence=confidence, population=population)


def usual_bins(epsilon: Fraction) -> int:
    """Cells that the noise leaves apart."""
    return 4 if epsilon <= 1 else 8 if epsilon < 4 else 16


def _pooled(estimates: Estimates, light: NDArray[np.bool_]) -> Estimates:
    """Light keys share their average frequency and the mean of all of their holders together.

    There is no such mean where it would not be known to ``KNOWN``: then 0 is nearer to it than what was seen.
    """
    assert estimates.product is not None and estimates.product_se is not None
    known = light & np.isfinite(estimates.frequency.values)
    if not known.any():
        return estimates
    frequency, product = (float(np.mean(numbers[known])) for numbers in (estimates.frequency.values, estimates.product))
    noise = float(np.sqrt(np.sum(estimates.product_se[known] ** 2))) / np.count_nonzero(known)
    mean = float(np.clip(product / frequency, -1, 1)) if noise <= KNOWN * frequency else np.nan
    return replace(
        estimates,
        frequency=_shared(estimates.frequency, light, frequency),
        mean=_shared(estimates.mean, light, mean),
        product=None,
        product_se=None,
        covariance=None,
    )


def _shared(column: Column, light: NDArray[np.bool_], value: float) -> Column:
    """One value for light keys; their intervals are those of the unbiased estimates, widened to hold it."""
    shared = replace(
        column,
        values=np.where(light, value, column.values),
        se=np.where(light, np.nan, column.se),
        low=np.where(light, np.fmin(column.low, value), column.low),
        high=np.where(light, np.fmax(column.high, value), column.high),
    )
    return shared.flagged("shrunk", light)
