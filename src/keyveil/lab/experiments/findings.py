"""What a rule finds: a gap with a standard error, and whether that settles a claim.

Numbers of results are compared here with the dependence that they have. Points of one collection, decoders of the same
reports and runs over the same people are not independent; there the numbers are compared run by run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from keyveil.lab.experiments.results import Curve

Floats = NDArray[np.float64]

SURE = 2.0  # standard errors that a gap must exceed: 2.3 % of gaps of zero do


def needed(choices: int) -> float:
    """Standard errors that the largest of so many gaps must exceed, so that no more than 2.3 % of all do by chance."""
    return SURE if choices < 2 else -NormalDist().inv_cdf(NormalDist().cdf(-SURE) / choices)


@dataclass(frozen=True)
class Finding:
    """How far results are on the claim's side, in the rule's units, and what was compared.

    ``choices`` says of how many places this is the worst: that one of them lies on the wrong side is less surprising
    the more there are. ``level`` is how many standard errors the gap must exceed.
    """

    gap: float
    se: float
    text: str
    choices: int = 1
    level: float = SURE

    @property
    def holds(self) -> bool:
        return bool(self.gap > self.level * self.se) if math.isfinite(self.gap) else False

    @property
    def contradicted(self) -> bool:
        return bool(self.gap < -needed(self.choices) * self.se) if math.isfinite(self.gap) else False

    @property
    def z(self) -> float:
        if math.isnan(self.gap) or math.isnan(self.se):
            return -math.inf
        return self.gap / self.se if self.se > 0 else math.copysign(math.inf, self.gap)


NOTHING = Finding(math.nan, math.nan, "no results")


def worst(found: Sequence[Finding]) -> Finding:
    """The one that speaks least for the claim, which must hold in all of them."""
    if not found:
        return NOTHING
    return replace(min(found, key=lambda one: one.z), choices=sum(one.choices for one in found))


@dataclass(frozen=True)
class Gaps:
    """Place by place a number with its standard error; ``runs`` has the deviation of every run where places share runs.

    Elsewhere places come from runs of their own, and are independent.
    """

    value: Floats
    se: Floats
    runs: Floats | None = None  # [run, place]

    def combined(self, weights: Floats, places: Sequence[int]) -> tuple[float, float]:
        """A weighted sum over places, with its standard error."""
        value = float(weights @ self.value[list(places)])
        if self.runs is not None:
            return value, _error(self.runs[:, list(places)] @ weights)
        return value, float(np.sqrt((weights**2) @ (np.nan_to_num(self.se[list(places)]) ** 2)))

    def average(self, places: Sequence[int]) -> tuple[float, float]:
        return self.combined(np.full(len(places), 1 / len(places)), places)


def numbers(curve: Curve, linear: bool) -> Gaps:
    """The values of a curve, or their logarithms."""
    with np.errstate(divide="ignore", invalid="ignore"):
        unit = np.ones(len(curve.value)) if linear else curve.value
        value = curve.value if linear else np.log(curve.value)
        return Gaps(value, curve.se / np.abs(unit), _deviations(curve, unit) if curve.joint else None)


def ahead(first: Curve, second: Curve, linear: bool) -> Gaps:
    """By how much the first lies below the second, as differences or logarithms of ratios."""
    with np.errstate(divide="ignore", invalid="ignore"):
        unit_1, unit_2 = (np.ones(len(curve.value)) if linear else curve.value for curve in (first, second))
        gap = second.value - first.value if linear else np.log(second.value) - np.log(first.value)
        joint = first.joint or second.joint
        if joint or first.pairing == second.pairing:
            low, high = _deviations(first, unit_1), _deviations(second, unit_2)
            if low is not None and high is not None and (len(low) == len(high) or 1 in (len(low), len(high))):
                apart = high - low
                if len(apart) > 1:
                    return Gaps(gap, apart.std(axis=0, ddof=1) / math.sqrt(len(apart)), apart if joint else None)
        return Gaps(gap, np.hypot(np.nan_to_num(first.se) / unit_1, np.nan_to_num(second.se) / unit_2))


def _deviations(curve: Curve, unit: Floats) -> Floats | None:
    """By how much each run lies off the value; a row of zeros where the value is certain."""
    if curve.count == 1:
        return np.zeros((1, len(curve.value)))
    return None if curve.runs is None else (curve.runs - curve.value) / unit


def between(curve: Curve, low: int, high: int, linear: bool = False) -> tuple[float, float]:
    """By how much one place of a curve lies above another, as a difference or the logarithm of the ratio."""
    if not linear and not (curve.value[low] > 0 and curve.value[high] > 0):
        return math.nan, math.nan
    return numbers(curve, linear).combined(np.array([1.0, -1.0]), (high, low))


def slope(x: Floats, y: Gaps, places: Sequence[int], linear: bool) -> tuple[float, float]:
    """The slope along the axis, or along its logarithm where all of it is positive, by least squares."""
    at = [place for place in places if math.isfinite(y.value[place])]
    if len(at) < 2:
        return math.nan, math.nan
    along = np.log(x[at]) if (x[at] > 0).all() and not linear else x[at]
    off = along - along.mean()
    return y.combined(off / (off**2).sum(), at)


def _error(runs: Floats) -> float:
    return float(runs.std(ddof=1) / math.sqrt(len(runs)))
