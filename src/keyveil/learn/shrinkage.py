"""Empirical Bayes: all keys together say what a key is likely to be, and each estimate is drawn towards that.

The estimates (f, f·m) of a key are nearly normal around the truth with known variances. The laws of f and of m over
keys are estimated from them by EM on a grid, without assuming a shape; posterior means then have a smaller error over
the whole vector of keys. They are biased for a single key, so they are flagged ``shrunk``, and unbiased values are the
better choice for sums and for rankings (docs/theory.md).

A law of all keys says little about a key that is unlike most. So errors of frequent keys count more than others, an
estimate with few neighbours is moved little (limited translation, Efron and Morris 1972), and intervals hold what the
unbiased ones hold.

Few keys cannot teach a law. So each law is also told of some keys that could be anywhere, and a key is judged by the
law of the others. A key alone is judged by what is possible, and no more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from keyveil.core.discovery import false_shares
from keyveil.core.errors import MechanismError
from keyveil.core.estimates import FLAGS, Column, Estimates
from keyveil.core.undercount import Undercount
from keyveil.learn.laws import ROUNDS, STEP, learnt, smooth_tail
from keyveil.learn.noise import without_undercount
from keyveil.learn.shapes import shapes
from keyveil.mechanisms.responses import normal_quantile

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

# The reasons for these numbers, and what they cost, are in docs/theory.md (empirical Bayes); that other grids would
# change little and coarser ones much is shown by test_the_grid_is_fine_and_wide_enough.
REACH = 5.0  # standard errors around an estimate in which the truth is looked for: beyond lies less than 1e-6
MEANS = np.linspace(-1.0, 1.0, 41)
MANY_ROUNDS = 200  # for frequencies of many keys, whose law is sharp near zero
COARSEST = 1 / 64  # step of the grid where standard errors are large: the average of many keys is known better than one
AVERAGES = 16  # that all frequencies may have, within ``SPAN`` of its standard errors
SPAN = 3.0
STRONG = 8.0  # standard errors above zero from which a frequency is as good as known, and a mean nearly normal
STRETCHED = (0.1, 0.2, 0.4, 0.8)  # of kernels for frequencies that widen with the frequency, on the scale log(1 + f/c)
_NO_CAP = Undercount(0)  # adds nothing to any error
CERTAIN = 4.5  # standard errors from which on errors of frequencies may count more than those of other keys
EXTRA = (0.5, 1, 2, 4, 8, 16, 32, 64)  # how much more they may count
PRICES = (0.0, 0.03, 0.04, 0.05)  # share by which that may raise the error of all keys; by the number of clear keys
GOAL = 0.95  # error of certain keys that is to be foretold, as a multiple of the unbiased one
FREQUENT = 20  # keys whose errors may count more besides
FREQUENT_PRICE = 0.08  # what that may raise the error of all keys to, with weights of certain keys
MANY_CLEAR = 8  # clear keys from which on it may
LEAST = 2.0  # standard errors below which no key counts more
SLACK = 0.15  # standard errors that any estimate may be moved
FITTED = 8  # keys from which on it is learnt how errors depend on frequencies
ALIKE = 0.1  # relative standard deviation of variances around what is learnt, up to which it is believed
UNLIKE = 2.0  # times what is learnt, beyond which the variance of a key with an impossible estimate is its own
LEAST_FIT = 0.5  # of the least variance that is stated, below which no variance is believed to lie
TOLD = 0.05  # share of absent keys in a list up to which its keys count as present
DOUBTFUL = 0.1  # the same share, from which on an estimate may be moved freely
FIRST = 4.0  # standard errors up to which an estimate may be moved freely as long as none lies beyond ``CERTAIN``
CROWD = 3.0  # present keys near a key that let it be moved by one standard error more; twice as many by four
RESTS = 0.5  # standard errors of a mean below which its posterior deviation says that it rests on other keys
COARSE = 0.1  # standard error of a mean for which it may be moved by one standard error more


def bayes(estimates: Estimates) -> Estimates:
    """Posterior means and standard deviations of every key's frequency and mean; flagged ``shrunk``."""
    if estimates.frequency.absent:
        raise MechanismError("learn/no-frequency", f"{estimates.mechanism} gives no frequencies to learn a prior from.")
    z, found = normal_quantile(estimates.confidence), estimates.header.undercount or _NO_CAP
    noise = without_undercount(estimates)
    beliefs = _frequencies(noise.frequency.values, noise.frequency.se)
    centre = certain_first(beliefs, noise.frequency.values, noise.frequency.se)
    spread = np.hypot(beliefs.sd, beliefs.mean - centre)  # root mean square distance of the truth from the centre
    spread = np.hypot(spread, _error_of_average(noise.frequency.values, noise.frequency.se))
    wider = np.hypot(spread, math.sqrt(found.common) * beliefs.mean)
    frequency = _column(estimates.frequency, centre, wider, _frequency_moves(estimates), z)
    hidden = np.minimum(found.highest(frequency.values, spread, z), 1.0)  # what a cap may hide
    frequency = _as_told(estimates.frequency, replace(frequency, high=np.maximum(frequency.high, hidden)))
    if estimates.mean.absent or estimates.product is None or np.isnan(estimates.mean.se).all():
        # means that are published without errors do not say how far they may be moved: they stay as they are
        return replace(estimates, frequency=frequency, product=None, product_se=None, covariance=None)
    centre, sd = _means(noise, beliefs)
    moves = _mean_moves(estimates.mean.se)
    allowed = np.hypot(np.sqrt(found.shifts(noise.frequency.values)), _allowed(estimates))
    mean = _column(estimates.mean, centre, np.hypot(sd, allowed), moves, z)
    scores = estimates.distances  # whether a key is absent is decided by what was counted
    alone = np.maximum(np.asarray(estimates.alone), FLAGS.index("shrunk"))
    shrunk = replace(estimates, frequency=frequency, mean=mean, scores=scores, alone=alone)
    return replace(shrunk, product=None, product_se=None, covariance=None)


def _as_told(raw: Column, shrunk: Column) -> Column:
    """The column in which values that have no error, such as averages of several keys, stay as they are."""
    told = np.isfinite(raw.values) & ~np.isfinite(raw.se)
    parts = ("values", "se", "low", "high", "flag")
    return replace(shrunk, **{name: np.where(told, getattr(raw, name), getattr(shrunk, name)) for name in parts})


def _allowed(estimates: Estimates) -> Floats | float:
    """What the errors of means allow for beyond chance, at most 1: it does not shrink with what others say."""
    if estimates.product_noise_se is None or estimates.product_se is None:
        return 0.0
    beyond = np.sqrt(np.maximum(estimates.product_se**2 - estimates.product_noise_se**2, 0.0))
    result: Floats = np.minimum(beyond / np.maximum(estimates.frequency.values, beyond + 1e-12), 1.0)
    return np.nan_to_num(result, nan=1.0)


@dataclass(frozen=True, eq=False)
class Posterior:
    """For every key the grid points within reach of its estimate, and their posterior weights."""

    points: Floats  # [d, window]
    weights: Floats  # [d, window], rows sum to one

    @property
    def mean(self) -> Floats:
        return np.asarray((self.weights * self.points).sum(axis=1))

    @property
    def sd(self) -> Floats:
        square = (self.weights * self.points**2).sum(axis=1)
        sd: Floats = np.sqrt(np.maximum(square - self.mean**2, 0))
        return sd


def certain_first(beliefs: Posterior, values: Floats, errors: Floats) -> Floats:
    """Posterior means in which frequencies of certain and of the most frequent keys have larger weights, [key].

    They minimise the expected error in which those of some keys count more: first of certain keys, then of the
    ``FREQUENT`` most frequent ones. How much more is the least for which the posterior foretells that these keys have
    hardly a larger error than unbiased estimates have, as far as the error of all keys is not foretold to grow by more
    than a price. The price rises with the number of keys that are clear: where there is none, what a law says of
    certain keys is what it was told of keys that could be anywhere, and every error counts the same.
    """
    known = np.isfinite(errors) & (errors > 0)
    errors = np.where(known, errors, np.inf)  # a key without an estimate is not certain
    clear = clear_keys(values, errors)
    every = _Moments.of(beliefs.weights, beliefs.points)
    certain = _Moments.of(beliefs.weights * (beliefs.points > CERTAIN * errors[:, None]), beliefs.points)
    threshold = max(_threshold(beliefs), LEAST * float(np.median(errors)))
    among = (beliefs.points >= threshold * (1 - 1e-9)) & known[:, None]
    frequent = _Moments.of(beliefs.weights * among, beliefs.points)
    fewest = len(PRICES) - 1
    of_frequent = FREQUENT_PRICE * min(max(clear - fewest, 0) / (MANY_CLEAR - fewest), 1)
    weighted, least = every, every.squares(every.centre)
    for group, price, goal in ((certain, PRICES[min(clear, fewest)], GOAL), (frequent, of_frequent, 1.0)):
        unbiased, before = goal * float((group.total * np.where(known, errors, 0) ** 2).sum()), weighted
        for extra in EXTRA if price else ():
            if group.squares(weighted.centre) <= unbiased:
                break
            heavier = before.plus(group, extra)
            if every.squares(heavier.centre) > (1 + price) * least:
                break
            weighted = heavier
    return weighted.centre


def clear_keys(values: Floats, errors: Floats) -> int:
    """How many estimates lie beyond ``CERTAIN`` standard errors."""
    with np.errstate(invalid="ignore"):
        return int(np.count_nonzero(values > CERTAIN * errors))


@dataclass(frozen=True, eq=False)
class _Moments:
    """Sums of weights, of weighted points and of their weighted squares, each [key]."""

    total: Floats
    first: Floats
    second: Floats

    @classmethod
    def of(cls, weights: Floats, points: Floats) -> _Moments:
        product = weights * points
        return cls(weights.sum(axis=1), product.sum(axis=1), (product * points).sum(axis=1))

    def plus(self, other: _Moments, extra: float) -> _Moments:
        parts = ((self.total, other.total), (self.first, other.first), (self.second, other.second))
        return _Moments(*(mine + extra * theirs for mine, theirs in parts))

    @property
    def centre(self) -> Floats:
        centre: Floats = self.first / self.total
        return centre

    def squares(self, centre: Floats) -> float:
        """The expected squared error of these centres, over all keys."""
        return float((self.second - 2 * centre * self.first + centre**2 * self.total).sum())


def _threshold(beliefs: Posterior) -> float:
    """The frequency above which ``FREQUENT`` keys are expected; 0 if there are fewer."""
    step = float(beliefs.points[0, 1] - beliefs.points[0, 0])
    cells = np.rint(beliefs.points / step).astype(np.int64)
    above = np.cumsum(np.bincount(cells.ravel(), beliefs.weights.ravel())[::-1])[::-1]
    return float(np.count_nonzero(above >= FREQUENT)) * step


def _frequencies(values: Floats, errors: Floats) -> Posterior:
    """The posterior of every frequency under the law that explains all of them best."""
    known = np.isfinite(values) & np.isfinite(errors) & (errors > 0)
    if not known.any():
        raise MechanismError("learn/no-estimates", "No key has an estimate to learn a prior from.")
    error = float(np.median(errors[known]))
    step = min(STEP * error, COARSEST)
    size = math.ceil(1 / step) + 1
    values, errors = np.where(known, values, 0.0), np.where(known, errors, 1.0)
    # where a key has no estimate, the truth is looked for on the whole grid
    reach = min(math.ceil(REACH * float(errors[known].max()) / step), size - 1) if known.all() else size - 1
    middle = np.clip(np.rint(values / step).astype(np.int64), 0, size - 1)
    places = np.clip(middle - reach, 0, max(size - 1 - 2 * reach, 0))[:, None] + np.arange(min(2 * reach + 1, size))
    points = np.minimum(places * step, 1.0)
    noise = _errors_at(values, errors, known, points)
    likelihood = _normal(values[:, None] - points, noise) * (errors[:, None] / noise)
    likelihood[~known] = 1.0  # a key without an estimate is believed to be like the others
    vague = np.full(size, 1 / size)
    simple = shapes(_averages(values[known], errors[known]), size, 1 / step)
    laws = learnt(likelihood, places, vague, known, MANY_ROUNDS, simple, step / error, STRETCHED)
    weights = likelihood * smooth_tail(laws, likelihood, places, vague, known, step / error).at(places)
    return Posterior(points, weights / weights.sum(axis=1, keepdims=True))


def _error_of_average(values: Floats, errors: Floats) -> Floats:
    """How well the average of all keys is known, for keys without an estimate, which rest on it; 0 for others."""
    known = np.isfinite(values) & np.isfinite(errors) & (errors > 0)
    return np.where(known, 0.0, min(float(np.sum(errors[known] ** -2.0)) ** -0.5, 1.0))


def _averages(values: Floats, errors: Floats) -> Floats:
    """What the average of all frequencies may be, [candidates]; as dense as Jeffreys' law of a share."""
    ends: list[float] = []
    for weights in (errors**-2.0, np.ones(len(values))):
        shares = weights / weights.sum()
        error = float(np.sqrt(shares**2 @ errors**2))
        middle = float(np.clip(shares @ values, -2 * error, 1 + 2 * error))
        ends += [middle - SPAN * error, middle + SPAN * error]
    low, high = np.arcsin(np.sqrt(np.clip([min(ends), max(ends)], 0, 1)))
    found: Floats = np.sin(np.linspace(low, high, AVERAGES)) ** 2
    return found


def _errors_at(values: Floats, errors: Floats, known: Flags, points: Floats) -> Floats:
    """The standard errors that estimates would have if the truth were at these points, [d, window].

    Errors are stated for the frequency as estimated. Where they grow with it, keys with too low an estimate would
    count more than those with too high a one, and all laws would lie too low. How variances depend on frequencies is
    seen from the keys whose estimate is possible; beyond these they stay. If they depend on the key rather than on its
    frequency, every key keeps its own.
    """
    own, squares, inside = errors[:, None], errors**2, known & (values >= 0) & (values <= 1)
    if np.count_nonzero(inside) < FITTED:
        inside = known
    seen = np.clip(values[inside], 0, 1)
    if len(seen) < FITTED or np.ptp(seen) < 1e-9:
        return own
    least, most = float(seen.min()), float(seen.max())
    middle, half, bottom = (most + least) / 2, (most - least) / 2, LEAST_FIT * squares[known].min()

    def powers(at: Floats) -> Floats:
        return ((np.clip(at, least, most) - middle) / half)[..., None] ** np.arange(3)

    usual = float(squares[inside].mean())
    fit = np.linalg.lstsq(powers(seen), squares[inside] - usual, rcond=None)[0]
    there, here = (np.maximum(usual + powers(at) @ fit, bottom) for at in (points, seen))
    beyond = known & ~inside
    apart = np.abs(np.log(squares[beyond] / np.maximum(usual + powers(values[beyond]) @ fit, bottom))) > np.log(UNLIKE)
    if np.std(squares[inside] / here) > ALIKE or np.mean(apart if len(apart) else 0.0) > TOLD:
        return own
    scale = np.ones(len(values))
    scale[inside] = squares[inside] / here
    found: Floats = np.where(known[:, None], np.sqrt(scale[:, None] * there), own)
    return found


def _means(estimates: Estimates, beliefs: Posterior) -> tuple[Floats, Floats]:
    """Posterior means and deviations of every key's mean, over what is believed of its frequency."""
    assert estimates.product is not None and estimates.product_se is not None and estimates.covariance is not None
    f, var_f = estimates.frequency.values, estimates.frequency.se**2
    u, var_u, cov = estimates.product, estimates.product_se**2, estimates.covariance
    known = np.isfinite(u) & np.isfinite(f) & (var_f > 0)
    slope = np.where(known, cov / np.where(known, var_f, 1), 0.0)
    rest = np.sqrt(np.maximum(np.where(known, var_u - slope * cov, 1.0), 1e-300))
    expected = np.where(known, u - slope * f, 0.0)[:, None] + slope[:, None] * beliefs.points
    likelihood = np.empty((len(f), len(MEANS)))
    for at, mean in enumerate(MEANS):  # P[u | f, m] is normal around f·m, given what f's own estimate says
        likelihood[:, at] = (beliefs.weights * _normal(expected - beliefs.points * mean, rest[:, None])).sum(axis=1)
    likelihood[~known] = 1.0
    lost = np.flatnonzero(likelihood.max(axis=1) <= 0)  # f·m beyond every possible mean: the nearest is left
    nearest = np.sign(expected[lost].mean(axis=1)) * (len(MEANS) // 2) + len(MEANS) // 2
    likelihood[lost, nearest.astype(np.intp)] = 1.0
    likelihood /= np.maximum(likelihood.max(axis=1, keepdims=True), 1e-300)
    places = np.broadcast_to(np.arange(len(MEANS)), likelihood.shape)
    laws = learnt(likelihood, places, _signs(), known, ROUNDS)
    weights = likelihood * laws.at(places)
    weights /= weights.sum(axis=1, keepdims=True)
    centre = weights @ MEANS
    sd = np.sqrt(np.maximum(weights @ MEANS**2 - centre**2, 0))
    strong = known & (f > STRONG * np.sqrt(var_f))
    for group, shares in enumerate(laws.shares):
        mine = strong & (laws.group == group)
        centre[mine], sd[mine] = _fine(estimates.mean.values[mine], estimates.mean.se[mine], shares)
    return centre, sd


def _signs() -> Floats:
    """The vague law of means: Jeffreys' for the share of high signs, of which a mean consists."""
    half = (MEANS[1] - MEANS[0]) / 2
    edges = np.clip(np.append(MEANS - half, 1 + half), -1, 1)
    shares: Floats = np.diff(np.arcsin(edges)) / np.pi
    return shares


def _fine(values: Floats, errors: Floats, shares: Floats) -> tuple[Floats, Floats]:
    """The posterior of means that are known better than the coarse grid can show."""
    low, high = (np.clip(values + side * REACH * errors, -1, 1)[:, None] for side in (-1, 1))
    around = low + (high - low) * np.linspace(0, 1, 101)
    weights = _normal(values[:, None] - around, errors[:, None]) * np.interp(around, MEANS, shares)
    total = weights.sum(axis=1)
    lost = total <= 0  # far outside [-1, 1]: nothing but the nearest possible mean is left
    weights[lost], total[lost] = 1.0, weights.shape[1]
    centre = (weights * around).sum(axis=1) / total
    square = (weights * around**2).sum(axis=1) / total
    return centre, np.sqrt(np.maximum(square - centre**2, 0))


def _normal(distance: Floats, error: Floats) -> Floats:
    density: Floats = np.exp(-0.5 * (distance / error) ** 2)
    return density


def _frequency_moves(estimates: Estimates) -> Floats:
    """How far every frequency may be moved, [key].

    A key that may well be absent moves freely, and where none is clear, so do all below ``FIRST``. Otherwise the move
    grows with the share of absent keys among those that look as frequent, which a move towards zero would serve, and
    with the number of present keys around it, from which the law is known there.
    """
    values, errors, scores = estimates.frequency.values, estimates.frequency.se, estimates.distances
    absent = false_shares(scores)
    crowd = _neighbours(values, errors, absent <= TOLD)
    with np.errstate(invalid="ignore"):  # a key without an error has no score
        moves = errors * (SLACK + 2 * absent * np.maximum(scores, 0) + (crowd / CROWD) ** 2)
        limited = (absent < DOUBTFUL) & (scores > (0 if clear_keys(values, errors) else FIRST))
    free: Floats = np.where(limited & np.isfinite(moves), moves, np.inf)
    return free


def _mean_moves(errors: Floats) -> Floats:
    """How far every mean may be moved, [key]: the less, the better it is known by itself."""
    moves = errors * (SLACK + (errors / COARSE) ** 2)
    free: Floats = np.where(np.isfinite(moves), moves, np.inf)
    return free


def _neighbours(values: Floats, errors: Floats, present: Flags) -> Floats:
    """How many other present keys lie around every key, counted by a normal kernel of one standard error, [key]."""
    known = np.isfinite(values) & np.isfinite(errors) & (errors > 0)
    step, reach = STEP * float(np.median(errors[known])), math.ceil(REACH / STEP)
    places = np.rint(np.where(known, values, 0.0) / step).astype(np.int64)
    places -= int(places.min()) - reach
    counted = known & present
    counts = np.bincount(places, weights=counted, minlength=int(places.max()) + reach + 1)
    kernel = np.exp(-0.5 * (STEP * np.arange(-reach, reach + 1)) ** 2)
    found: Floats = np.convolve(counts, kernel, "same")[places] - counted
    return found


def _column(raw: Column, centre: Floats, sd: Floats, moves: Floats, z: float) -> Column:
    """The posterior, its mean moved at most so far from the unbiased value, in intervals that hold the unbiased ones.

    Means that may be moved by more than their standard error have posterior intervals: they rest on other keys.
    """
    # Whether an interval is wide is seen from itself, but for means that rest on their own reports still: what is cut
    # off at the ends of the range depends on the estimate (docs/decisions/0103-wide-means.md).
    others = sd < RESTS * raw.se if raw.scaled else np.isfinite(raw.values)
    own = np.where((raw.flag == FLAGS.index("wide")) & others, 0, raw.flag)
    flag = np.maximum(own, FLAGS.index("shrunk")).astype(np.int8)
    least = -1.0 if raw.scaled else 0.0
    limited = np.isfinite(moves) & np.isfinite(raw.values)
    anchor, most = np.where(limited, np.clip(raw.values, least, 1), 0.0), np.where(limited, moves, 2.0)
    shown = np.clip(centre, anchor - most, anchor + most)
    se = np.hypot(sd, shown - centre)
    kept = moves <= raw.se if raw.scaled else np.isfinite(raw.se)
    low = np.fmin(shown - z * se, np.where(kept, raw.low, np.nan))
    high = np.fmax(shown + z * se, np.where(kept, raw.high, np.nan))
    return replace(raw, values=shown, se=se, low=np.clip(low, least, 1), high=np.clip(high, least, 1), flag=flag)
