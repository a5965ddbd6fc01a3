"""Empirical Bayes: all keys together say what a key is likely to be, and each estimate is drawn towards that.

The estimates (f, f·m) of a key are nearly normal around the truth with known variances. The laws of f and of m over
keys are estimated from them by EM on a grid, without assuming a shape; posterior means then have a smaller error over
the whole vector of keys. They are biased for a single key, so they are flagged ``shrunk``, and unbiased values are the
better choice for the most frequent keys, for sums and for rankings (docs/theory.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from keyveil.core.errors import MechanismError
from keyveil.core.estimates import FLAGS, Column, Estimates
from keyveil.mechanisms.responses import normal_quantile

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

STEP = 0.35  # of the frequency grid, in standard errors
REACH = 5.0  # standard errors around an estimate in which the truth is looked for
MEANS = np.linspace(-1.0, 1.0, 41)
ROUNDS = 40
STRONG = 8.0  # standard errors above zero from which a frequency is as good as known
SMALL = 500  # keys below which a prior is smoothed
WIDTHS = (1, 2, 4, 8, 16, 32, 64)  # of the kernel that may do so further, in steps of the grid
FOLDS = 5  # groups of keys, each foretold by the others


def bayes(estimates: Estimates) -> Estimates:
    """Posterior means and standard deviations of every key's frequency and mean; flagged ``shrunk``."""
    if estimates.frequency.absent:
        raise MechanismError("learn/no-frequency", f"{estimates.mechanism} gives no frequencies to learn a prior from.")
    z = normal_quantile(estimates.confidence)
    beliefs = _frequencies(estimates.frequency.values, estimates.frequency.se)
    frequency = _column(estimates.frequency, beliefs.mean, beliefs.sd, z)
    if estimates.mean.absent or estimates.product is None:
        return replace(estimates, frequency=frequency, product=None, product_se=None, covariance=None)
    centre, sd = _means(estimates, beliefs)
    mean = _column(estimates.mean, centre, sd, z)
    return replace(estimates, frequency=frequency, mean=mean, product=None, product_se=None, covariance=None)


@dataclass(frozen=True, eq=False)
class Beliefs:
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


def _frequencies(values: Floats, errors: Floats) -> Beliefs:
    """The posterior of every frequency under the prior that explains all of them best."""
    known = np.isfinite(values) & np.isfinite(errors) & (errors > 0)
    if not known.any():
        raise MechanismError("learn/no-estimates", "No key has an estimate to learn a prior from.")
    step = STEP * float(np.median(errors[known]))
    size = math.ceil(1 / step) + 1
    values, errors = np.where(known, values, 0.0), np.where(known, errors, 1.0)
    reach = min(math.ceil(REACH * float(errors[known].max()) / step), size - 1)
    middle = np.clip(np.rint(values / step).astype(np.int64), 0, size - 1)
    places = np.clip(middle - reach, 0, max(size - 1 - 2 * reach, 0))[:, None] + np.arange(min(2 * reach + 1, size))
    points = np.minimum(places * step, 1.0)
    likelihood = _normal(values[:, None] - points, errors[:, None])
    likelihood[~known] = 1.0  # a key without an estimate is believed to be like the others
    prior = _learnt(likelihood, places, size, known)
    weights = likelihood * prior[places]
    return Beliefs(points, weights / weights.sum(axis=1, keepdims=True))


def _means(estimates: Estimates, beliefs: Beliefs) -> tuple[Floats, Floats]:
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
    likelihood /= np.maximum(likelihood.max(axis=1, keepdims=True), 1e-300)
    places = np.broadcast_to(np.arange(len(MEANS)), likelihood.shape)
    prior = _learnt(likelihood, places, len(MEANS), known)
    weights = likelihood * prior
    weights /= weights.sum(axis=1, keepdims=True)
    centre = weights @ MEANS
    sd = np.sqrt(np.maximum(weights @ MEANS**2 - centre**2, 0))
    strong = known & (f > STRONG * np.sqrt(var_f))
    centre[strong], sd[strong] = _fine(estimates.mean.values[strong], estimates.mean.se[strong], prior)
    return centre, sd


def _fine(values: Floats, errors: Floats, prior: Floats) -> tuple[Floats, Floats]:
    """The posterior of means that are known better than the coarse grid can show."""
    around = np.clip(values[:, None] + errors[:, None] * np.linspace(-REACH, REACH, 101), -1, 1)
    weights = _normal(values[:, None] - around, errors[:, None]) * np.interp(around, MEANS, prior)
    total = weights.sum(axis=1)
    lost = total <= 0  # far outside [-1, 1]: nothing but the nearest possible mean is left
    weights[lost], total[lost] = 1.0, weights.shape[1]
    centre = (weights * around).sum(axis=1) / total
    square = (weights * around**2).sum(axis=1) / total
    return centre, np.sqrt(np.maximum(square - centre**2, 0))


def _learnt(likelihood: Floats, places: Ints, size: int, known: NDArray[np.bool_]) -> Floats:
    """The prior on a grid that makes all estimates together likeliest, drawn out as far as foretells keys best."""
    rows, at = likelihood[known], places[known]
    prior = _smoothed(_fitted(rows, at, size), _best_width(rows, at, size))
    # A place where no key was believed to be stays possible: the next collection may hold one there.
    return 0.999 * prior + 0.001 / size


def _fitted(rows: Floats, at: Ints, size: int) -> Floats:
    """EM from a flat start, smoothed for few keys."""
    prior = np.full(size, 1 / size)
    for _ in range(ROUNDS):
        weights = rows * prior[at]
        weights /= np.maximum(weights.sum(axis=1, keepdims=True), 1e-300)
        prior = np.bincount(at.ravel(), weights=weights.ravel(), minlength=size) / len(rows)
        if len(rows) < SMALL:
            padded = np.pad(prior, 1, mode="edge")
            prior = (padded[:-2] + 2 * prior + padded[2:]) / 4
            prior /= prior.sum()
    return prior


def _best_width(rows: Floats, at: Ints, size: int) -> int:
    """How far to draw out a prior of few keys: far apart, each would make a peak of its own and attract the next one.

    Chosen by what the prior of some keys says about the others.
    """
    if not FOLDS <= len(rows) < SMALL:
        return 0
    widths = [0, *(width for width in WIDTHS if 4 * width < size)]
    scores, fold = np.zeros(len(widths)), np.arange(len(rows)) % FOLDS
    for left_out in range(FOLDS):
        told, asked = fold != left_out, fold == left_out
        prior = _fitted(rows[told], at[told], size)
        for number, width in enumerate(widths):
            foretold = 0.999 * _smoothed(prior, width) + 0.001 / size
            scores[number] += np.log(np.maximum((rows[asked] * foretold[at[asked]]).sum(axis=1), 1e-300)).sum()
    return widths[int(scores.argmax())]


def _smoothed(prior: Floats, width: int) -> Floats:
    """A prior drawn out by a normal kernel, mirrored at both ends."""
    if not width:
        return prior
    reach = min(4 * width, len(prior) - 1)
    weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / width) ** 2)
    drawn: Floats = np.convolve(np.pad(prior, reach, mode="symmetric"), weights, "valid")
    drawn /= drawn.sum()
    return drawn


def _normal(distance: Floats, error: Floats) -> Floats:
    density: Floats = np.exp(-0.5 * (distance / error) ** 2)
    return density


def _column(raw: Column, centre: Floats, sd: Floats, z: float) -> Column:
    flag = np.maximum(raw.flag, FLAGS.index("shrunk")).astype(np.int8)
    least = -1.0 if raw.scaled else 0.0
    low, high = np.clip(centre - z * sd, least, 1), np.clip(centre + z * sd, least, 1)
    return replace(raw, values=centre, se=sd, low=low, high=high, flag=flag)
