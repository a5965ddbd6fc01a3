"""From the surplus of pairs above a cap to the flag, the limit and the correction of frequencies.

A holder of a key whose record has s pairs keeps the key with probability min(1, l/s). Summed over keys, frequencies
lack exactly the mean surplus E[(s - l)⁺] of a person. So the average share of pairs that are kept is
``kept`` = size/(size + surplus), with ``size`` the sum of all frequencies (docs/theory.md, the cap).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyveil.core.undercount import Undercount
from keyveil.mechanisms.responses import FEWEST, Solution, Spread

Floats = NDArray[np.float64]

ONE_SIDED = 1.645  # standard errors of a one-sided limit of 95 %
DESERVED = 0.25  # standard errors that the cap must move a key by, for the flag truncated
MOST_FREQUENT = 20  # keys whose error decides whether a correction pays


class Surplus(NamedTuple):
    """How far people exceed a cap, without bias, and with standard errors."""

    mean: float  # pairs above the cap a person
    se: float
    over: float  # share of the people above the cap
    over_se: float


def share_and_error(count: int, n: int, true: float, false: float) -> tuple[float, float]:
    """The share of the people in a state, from how many of n answers say so; and its standard error.

    ``true`` and ``false`` are the probabilities of such an answer for people in the state and for all others.
    """
    seen = count / n
    variance = max(seen * (1 - seen), FEWEST / n) / n
    return (seen - false) / (true - false), math.sqrt(variance) / (true - false)


def undercount(
    cap: int, told: Surplus, frequency: Floats, variance: Floats, size_se: float, exact: bool = True
) -> Undercount:
    """What the cap hides, from the surplus and the estimates of all keys; ``size_se`` is the error of their sum.

    ``exact`` says that the cap cuts everybody's record alike, so that a correction is possible.
    """
    limit = max(0.0, min(1.0, told.over + ONE_SIDED * told.over_se, (told.mean + ONE_SIDED * told.se) / (cap + 1)))
    surplus = max(0.0, told.mean)
    least = cap * max(0.0, told.over - ONE_SIDED * told.over_se)  # whoever exceeds the cap keeps so many
    size = min(max(float(np.nansum(frequency)), least), float(cap))
    kept, error = _kept(surplus, told.se, size, size_se)
    found = Undercount(cap, told.over, told.over_se, told.mean, told.se, kept, limit)
    if surplus <= ONE_SIDED * told.se or size <= 0:
        return found
    if exact and _pays(_kept(max(0.0, surplus - 2 * told.se), 0.0, size, 0.0)[0], kept, error, frequency, variance):
        common = (error / kept) ** 2 + ((1 - kept) / 2) ** 2
        return replace(found, seen=True, corrected=True, common=common)
    return replace(found, seen=True, common=(1 - kept) ** 2)


def _kept(surplus: float, surplus_se: float, size: float, size_se: float) -> tuple[float, float]:
    """size/(size + surplus) with its standard error, to first order in both errors; (1, 0) where nothing is held."""
    whole = size + surplus
    if size <= 0:
        return 1.0, 0.0
    return size / whole, math.hypot(size * surplus_se, surplus * size_se) / whole**2


def _pays(surely_kept: float, kept: float, error: float, frequency: Floats, variance: Floats) -> bool:
    """Whether a correction makes the squared errors of the most frequent keys smaller than it makes noise larger.

    ``surely_kept`` is the share of kept pairs at a surplus of two standard errors less than what was found.
    """
    known = np.isfinite(frequency) & np.isfinite(variance)
    if not known.any():
        return False
    squares = np.sort(frequency[known])[-MOST_FREQUENT:] ** 2
    bias = float(squares.mean()) * (1 - surely_kept) ** 2
    price = float(variance[known].mean()) * (1 / kept**2 - 1) + float(squares.mean()) * error**2
    return bias > price


def truncated_keys(found: Undercount, frequency: Floats, variance: Floats) -> NDArray[np.bool_]:
    """The keys that the cap moves by a quarter of their standard error or more, if it was told and not corrected."""
    if not found.seen or found.corrected or found.kept is None:
        return np.zeros(len(frequency), dtype=np.bool_)
    with np.errstate(invalid="ignore"):
        return frequency * (1 - found.kept) > DESERVED * np.sqrt(variance)


def with_undercount(solution: Solution, found: Undercount) -> Solution:
    """f and f·m divided by what was kept, if that pays; variances with what all keys have in common."""
    scale, common = found.scale, found.common
    frequency, product = solution.frequency / scale, solution.product / scale
    pairs = ((frequency, frequency), (product, product), (frequency, product))
    parts = (part / scale**2 + common * one * other for part, (one, other) in zip(solution.spread, pairs, strict=True))
    return replace(solution, frequency=frequency, product=product, spread=Spread(*parts))
