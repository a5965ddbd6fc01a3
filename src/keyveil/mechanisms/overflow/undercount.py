"""From the surplus of pairs above a cap to the flag, the limit and the correction of frequencies.

A holder of a key whose record has s pairs keeps the key with probability min(1, l/s). Summed over keys, frequencies
lack exactly the mean surplus E[(s - l)⁺] of a person. So the average share of pairs that are kept is
``kept`` = size/(size + surplus), with ``size`` the sum of all frequencies (docs/theory.md, the cap).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyveil.core.estimates import Estimates, Header
from keyveil.core.undercount import ONE_SIDED, Undercount
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import Capped, KeyDependence, Parted, can, need
from keyveil.mechanisms.merging import carried_flags, with_flags
from keyveil.mechanisms.responses import Solution, Spread, normal_quantile
from keyveil.mechanisms.side_by_side import SideBySide

Floats = NDArray[np.float64]

DESERVED = 0.25  # standard errors that the cap must move a key by, for the flag truncated
SURE = 3.7
"""Standard errors of a one-sided limit of 99.99 %, which says that it does. All frequent keys are flagged in the same
collections, those in which the surplus came out too large, so a false alarm says something false of a whole table; at
99.5 % one of twelve collections had one (``constant`` at ε = 1; docs/decisions/0178). Upper limits do not wait for the
flag."""
MOST_FREQUENT = 20  # keys whose error decides whether a correction pays
FULL = 0.45
"""The largest mean answer of people above the cap, as a share of what an answer can tell, up to which answers are taken
to reach. If surpluses fall off like a geometric law, 15 % of them lie beyond the reach of the question there; where
more do, the share of kept pairs comes out too high, and only the limit for every key holds
(tests/mechanisms/test_overflow_people.py, heavy)."""
SHIFT = 0.4
"""The standard deviation, on [-1, 1], that is allowed for the difference between the mean values of the pairs that the
cap drops and of those that it keeps: people who hold much may have other values
(tests/mechanisms/test_overflow_people.py)."""


EVEN = 2.0
"""How many times as much as the surplus spread evenly over all keys any key may lack, beyond the share that all pairs
lack. People who hold nearly all keys hold the rare ones, too, which hardly anybody else does: those lack far more than
their share (tests/mechanisms/test_overflow_people.py, everything)."""


class Surplus(NamedTuple):
    """How far people exceed a cap, without bias, and with standard errors."""

    mean: float  # pairs above the cap a person, of each at most ``reach``
    se: float
    over: float  # share of the people above the cap
    over_se: float
    reach: float  # the largest surplus that an answer can tell

    @property
    def reached(self) -> bool:
        """Whether few people, if any, exceed the cap by more than an answer can tell."""
        mean, over = self.mean / self.reach, max(self.over, 0.0)
        return mean + math.hypot(self.se / self.reach, FULL * self.over_se) <= FULL * over


def judged(header: Header, solution: Solution, told: Estimates, found: Undercount) -> Estimates:
    """Estimates that are corrected where it pays, with intervals that allow for what is hidden, and with flags.

    ``told`` are the estimates before the cap was judged, ``solution`` their numbers.
    """
    estimates = stated(replace(header, undercount=found), with_undercount(solution, found), told)
    estimates = with_upper_limits(estimates, found, np.sqrt(solution.spread.frequency) / found.scale)
    truncated = truncated_keys(found, solution.frequency, solution.spread.frequency) & estimates.told
    return with_flags(estimates, carried_flags(told, lacked=True)).flagged("truncated", truncated)


def stated(header: Header, solution: Solution, told: Estimates) -> Estimates:
    """Numbers that were found from estimates ``told``, as estimates; means that do not come as f·m stay as they are."""
    kept_means = told.product is None and not told.mean.absent
    no_mean = "kept" if kept_means else told.mean.absent or None
    estimates = solution.estimates(header, respondents=told.respondents, no_mean=no_mean)
    return replace(estimates, mean=told.mean, alone=told.alone) if kept_means else estimates


def among_everybody(fixed: Estimates, sampled: Estimates, unheard: float) -> Solution:
    """What a group of people says of everybody, of whom a share ``unheard`` were not asked.

    ``fixed`` and ``sampled`` are the group's estimates with ``population`` False and True: the people of the target
    whom nobody heard are known only as far as the group is a sample of them.
    """
    spreads = [stated_spread(one) for one in (fixed, sampled)]
    with np.errstate(invalid="ignore"):  # errors are unknown where nobody was heard
        spread = Spread(*(a + unheard * (b - a) for a, b in zip(*spreads, strict=True)))
    product = np.full(fixed.schema.d, np.nan) if fixed.product is None else fixed.product
    noise = None
    if fixed.product_noise_se is not None and sampled.product_noise_se is not None:
        noise = (1 - unheard) * fixed.product_noise_se**2 + unheard * sampled.product_noise_se**2
    return Solution(fixed.frequency.values, product, spread, fixed.distances, noise)


def solved(told: Estimates) -> Solution:
    """The numbers of estimates, as a solution that can be judged."""
    product = np.full(told.schema.d, np.nan) if told.product is None else told.product
    return Solution(told.frequency.values, product, stated_spread(told), told.distances)


def stated_spread(told: Estimates) -> Spread:
    """The variances that estimates state; NaN for means where there are none."""
    unknown = np.full(told.schema.d, np.nan)
    product_se = unknown if told.product_se is None else told.product_se
    return Spread(told.frequency.se**2, product_se**2, unknown if told.covariance is None else told.covariance)


def size_error(mechanism: Mechanism, reports: int, solution: Solution, population: bool) -> float:
    """The standard error of the sum of all frequencies, or the most that it may be, from so many reports."""
    frequency, se = solution.frequency, np.sqrt(solution.spread.frequency)
    if not (np.isfinite(frequency).all() and np.isfinite(se).all()):
        frequency, se = np.nan_to_num(frequency), np.nan_to_num(se)
    known = can(mechanism, KeyDependence)
    if known is None:
        return float(np.sqrt(np.sum(se**2)))
    constants = replace(known.dependence(population), n=max(reports, 1))
    return math.sqrt(constants.variance(np.ones(len(se)), frequency, se))


class Whole(NamedTuple):
    """What a judgement of the cap has to know of the estimates of all keys."""

    size: float  # the sum of all frequencies, unclipped
    size_se: float
    squares: float | None  # the mean square of the largest frequencies; None where nothing is known
    variance: float  # the mean variance of a frequency
    keys: int

    @classmethod
    def of(cls, solution: Solution, size_se: float) -> Whole:
        """From the estimates of all keys and the error of their sum."""
        frequency, variance = solution.frequency, solution.spread.frequency
        known, size = np.isfinite(frequency) & np.isfinite(variance), float(np.nansum(frequency))
        if not known.any():
            return cls(size, size_se, None, 0.0, len(frequency))
        if not known.all():
            frequency, variance = frequency[known], variance[known]
        squares = np.sort(frequency)[-MOST_FREQUENT:] ** 2
        return cls(size, size_se, float(squares.mean()), float(variance.mean()), len(known))


def undercount(cap: int, told: Surplus, solution: Solution, size_se: float, exact: bool = True) -> Undercount:
    """What the cap hides, from the surplus and the estimates of all keys; ``size_se`` is the error of their sum.

    ``exact`` says that the cap cuts everybody's record alike, so that a correction is possible.
    """
    return undercount_of(cap, told, Whole.of(solution, size_se), exact)


def undercount_of(cap: int, told: Surplus, whole: Whole, exact: bool = True) -> Undercount:
    """The same from what has to be known of the estimates."""
    by_pairs = (told.mean + ONE_SIDED * told.se) / min(cap + 1, told.reach)
    limit = max(0.0, min(1.0, told.over + ONE_SIDED * told.over_se, by_pairs))
    surplus, size = max(0.0, told.mean), float(_size(cap, told, whole))
    kept, error = map(float, _kept(surplus, told.se, size, whole.size_se))
    return Undercount(
        cap,
        told.over,
        told.over_se,
        told.mean,
        told.se,
        kept,
        error,
        limit,
        size=size,
        reach=told.reach,
        beyond=not told.reached,
        **_consequences(told, whole, surplus, size, kept, error, limit, exact),
    )


def scales(cap: int, told: Surplus, whole: Whole) -> Floats:
    """What frequencies would be divided by in several cases: the ``scale`` of ``undercount_of`` for each.

    The mean and the share that are ``told`` and the size of the ``whole`` are arrays of one length.
    """
    surplus, size = np.maximum(0.0, told.mean), _size(cap, told, whole)
    kept, error = _kept(surplus, told.se, size, whole.size_se)
    corrected = (size > 0) & (surplus > ONE_SIDED * told.se) & _pays(surplus, told.se, size, kept, error, whole)
    return np.where(corrected, kept, 1.0)


def _size(cap: int, told: Surplus, whole: Whole) -> Any:
    """The pairs of a person that count, on average, of one case or of several."""
    least = cap * np.maximum(0.0, told.over - ONE_SIDED * told.over_se)  # whoever exceeds the cap keeps so many
    return np.minimum(np.maximum(whole.size, least), float(cap))


def cuts_alike(mechanism: Mechanism) -> bool:
    """Whether one cap cuts everybody's record: parts of the people may have caps of their own, or none."""
    if can(mechanism, Parted) is None:
        return True
    caps = [can(part, Capped) for part in mechanism.parts] if isinstance(mechanism, SideBySide) else [None]
    return len({None if one is None else one.cap() for one in caps} | {need(mechanism, Capped).cap()}) == 1


def _consequences(
    told: Surplus, whole: Whole, surplus: float, size: float, kept: float, error: float, limit: float, exact: bool
) -> dict[str, Any]:
    """Whether something is seen to be hidden, whether that is corrected, and what intervals have to allow for."""
    if size <= 0:
        return {}
    raised = min(limit, EVEN * surplus / whole.keys)
    if surplus <= ONE_SIDED * told.se:
        # what is not ruled out belongs into the interval
        return {"stretch": 1 / kept, "raised": raised, "raised_se": EVEN * told.se / whole.keys}
    seen = {"seen": True, "shift": SHIFT**2, "raised": raised if told.reached else limit}
    if exact and _pays(surplus, told.se, size, kept, error, whole):
        return {**seen, "corrected": True, "common": (error / kept) ** 2 + ((1 - kept) / 2) ** 2}
    return {**seen, "common": (1 / kept - 1) ** 2, "stretch": 1 / kept}


def _kept(surplus: Any, surplus_se: float, size: Any, size_se: float) -> tuple[Any, Any]:
    """size/(size + surplus) with its standard error, to first order in both errors; (1, 0) where nothing is held.

    Of one case or of several, as are the size and the surplus.
    """
    held = np.asarray(size) > 0
    whole = np.where(held, size + surplus, 1.0)
    error = np.hypot(size * surplus_se, surplus * size_se) / whole**2
    return np.where(held, size / whole, 1.0), np.where(held, error, 0.0)


def _pays(surplus: Any, surplus_se: float, size: Any, kept: Any, error: Any, whole: Whole) -> Any:
    """Whether a correction makes the squared errors of the most frequent keys smaller than it makes noise larger.

    What it gains is counted at a surplus of two standard errors less than what was found.
    """
    if whole.squares is None:
        return False
    surely_kept, _ = _kept(np.maximum(0.0, surplus - 2 * surplus_se), 0.0, size, 0.0)
    bias = whole.squares * (1 - surely_kept) ** 2
    price = whole.variance * (1 / kept**2 - 1) + whole.squares * error**2
    return bias > price


def truncated_keys(found: Undercount, frequency: Floats, variance: Floats) -> NDArray[np.bool_]:
    """The keys that the cap surely moves by a quarter of their standard error or more, and that were not corrected.

    A flag must be deserved, also among thousands of keys of which the largest estimates are large by chance.
    """
    if not found.seen or found.corrected or found.kept is None or found.kept_se is None:
        return np.zeros(len(frequency), dtype=np.bool_)
    with np.errstate(invalid="ignore"):
        se, lost, lost_se = np.sqrt(variance), 1 / found.kept - 1, found.kept_se / found.kept**2
        return frequency * lost - SURE * np.hypot(lost * se, frequency * lost_se) > DESERVED * se


def with_undercount(solution: Solution, found: Undercount) -> Solution:
    """f and f·m divided by what was kept, if that pays; variances with what all keys have in common.

    The values of dropped pairs may differ from those of kept ones: f·m is allowed ``shifts`` times f² for that.
    """
    scale = found.scale
    frequency, product = solution.frequency / scale, solution.product / scale
    added = found.added(frequency, product)
    parts = (part / scale**2 + more for part, more in zip(solution.spread, added, strict=True))
    noise = None if solution.noise is None else solution.noise / scale**2
    return replace(solution, frequency=frequency, product=product, spread=Spread(*parts), noise=noise)


def with_upper_limits(estimates: Estimates, found: Undercount, noise_se: Floats) -> Estimates:
    """The estimates with upper limits of frequencies that hold what the cap may hide, or a correction may leave out.

    About ``kept``·f is kept of a frequency f, so that an upper limit of that, divided by ``kept``, is one of f. More is
    hidden of rare keys that busy people hold. Where people hold more than answers can tell, ``kept`` comes out too
    large, and only the limit for every key is left.
    """
    if not found.widens or estimates.frequency.absent:
        return estimates
    column = estimates.frequency
    highest = found.highest(column.values, noise_se, normal_quantile(estimates.confidence))
    return replace(estimates, frequency=replace(column, high=np.fmax(column.high, highest)))
