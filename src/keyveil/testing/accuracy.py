"""Estimates against the truth: no bias, the errors that are stated, and intervals that cover.

Statistical checks run on seeded coins; at a fresh seed each would raise a false alarm with probability below 1e-6.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.lab.coins import SeededCoins
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.responses import Spread, given_positive, normal_quantile
from keyveil.testing.laws import ALARM, beyond
from keyveil.testing.people import EXTREME, extreme_people, people, population_truth
from keyveil.testing.verdict import broken, hold

Floats = NDArray[Any]

ALLOWED, NOISE = "product with what is allowed for", "product by chance alone"


def errors_are_as_stated(
    mechanism: Mechanism,
    *,
    population: bool,
    n: int = 6000,
    scores: int = 1600,
    biased_means: bool | None = None,
) -> None:
    """Standardised errors have mean 0 and variance 1, and 95 % intervals cover: two-sided, so wrong noise is seen.

    With ``population`` every repeat asks new people; otherwise the same people are asked again and again. Means are
    ratios: their numerators are held to the law of errors, they themselves to the coverage of their intervals. Means
    that are biased by design must have a flag and no interval; unless ``biased_means`` says whether they are, means
    without any interval are taken for that.

    Estimates that state the noise of products beside their errors (``product_noise_se``) allow for more than chance:
    their products may err by no less than the noise and no more than the errors, and intervals of means may cover more.

    ``scores`` is the number of errors, over all keys and repeats: 1600 see variances that are a fifth off, and
    intervals that cover less than 0.922 or more than 0.978.
    """
    errors: dict[str, list[Floats]] = {}
    covered: dict[str, list[Floats]] = {}
    crowd, (frequency, mean) = people(mechanism, n, 21), population_truth(mechanism)
    records, truth = crowd.records(mechanism.schema), crowd.truth(mechanism.schema)
    if not population:
        frequency, mean = truth.frequency, truth.mean
    for repeat in range(scores // mechanism.schema.d):
        if population:
            records = people(mechanism, n, 1000 + repeat).records(mechanism.schema)
        tally = mechanism.tally(mechanism.perturb_many(records, SeededCoins(15, repeat)))
        estimates = mechanism.estimate(tally, population=population)
        for what, column, target in (("frequency", estimates.frequency, frequency), ("mean", estimates.mean, mean)):
            bare = bool(np.isnan(column.low).all()) and not column.absent
            if what == "mean" and (bare if biased_means is None else biased_means):
                flagged = bare and bool((column.flag > 0).all())
                hold(flagged, mechanism, "estimate", "gives a biased mean without a flag, or with an interval")
            elif not column.absent:
                covered.setdefault(what, []).append((column.low <= target) & (target <= column.high))
                if what == "frequency" or estimates.product is None:
                    errors.setdefault(what, []).append((column.values - target) / column.se)
        if estimates.product is not None and estimates.product_se is not None:
            product, noise = estimates.product - frequency * mean, estimates.product_noise_se
            errors.setdefault("product" if noise is None else ALLOWED, []).append(product / estimates.product_se)
            if noise is not None:
                errors.setdefault(NOISE, []).append(product / noise)
    for what, rows in errors.items():
        z = np.array(rows)
        hold(bool(np.isfinite(z).all()), mechanism, "estimate", f"gives a {what} without a standard error")
        bias, spread = z.mean(axis=0) * math.sqrt(len(z)), float((z**2).mean())
        reach, off = 5.5 * math.sqrt(2 / z.size), f"gives a {what} whose errors have {spread:.3f} times its variance"
        if what not in (ALLOWED, NOISE):
            _unbiased(mechanism, what, bias)
        hold(what == NOISE or spread < 1 + reach, mechanism, "estimate", off)
        hold(what == ALLOWED or spread > 1 - reach, mechanism, "estimate", off)
    for what, inside in covered.items():
        share, reach = float(np.mean(inside)), 5.2 * math.sqrt(0.95 * 0.05 / np.size(inside))
        told = f"gives 95 % intervals of the {what} that cover {share:.3f}"
        hold(share >= 0.95 - reach, mechanism, "estimate", told)
        hold(share <= 0.95 + reach or (what == "mean" and ALLOWED in errors), mechanism, "estimate", told)


def joint_errors_are_as_stated(mechanism: Mechanism, *, population: bool, n: int = 800, repeats: int = 400) -> None:
    """The errors of f, of U = f·m and of U - m·f at the true m have mean 0 and the variances that are stated.

    The last, Var U + m²·Var f - 2m·Cov, is what means and their intervals rest on, and only it sees the covariance; the
    ends of an interval must be where it puts them, and the standard error of a mean must be its root over f. Squares
    are held against the mean of what is stated, not one by one: a variance that is estimated from the same counts goes
    along with the error. Nine biases and three variances together raise a false alarm with probability below 1e-6. The
    mechanism has the three keys of ``EXTREME``.
    """
    crowd, (frequency, mean) = extreme_people(mechanism, n * repeats if population else n, 23), EXTREME
    everybody, truth = crowd.records(mechanism.schema), crowd.truth(mechanism.schema)
    if not population:
        frequency, mean = truth.frequency, truth.mean
    errors, stated, width = [], [], normal_quantile(0.95)
    for repeat in range(repeats):
        records = everybody.slice(n * repeat, n * (repeat + 1)) if population else everybody
        tally = mechanism.tally(mechanism.perturb_many(records, SeededCoins(20, repeat)))
        estimates = mechanism.estimate(tally, confidence=0.95, population=population)
        f, u, u_se, cov = estimates.frequency.values, estimates.product, estimates.product_se, estimates.covariance
        if u is None or u_se is None or cov is None:
            raise broken(mechanism, "estimate", "gives no product, product_se and covariance")
        var_f, var_u = estimates.frequency.se**2, u_se**2
        errors.append((f - frequency, u - frequency * mean, u - mean * f))
        stated.append((var_f, var_u, var_u + mean**2 * var_f - 2 * mean * cov))
        for end in (estimates.mean.low, estimates.mean.high):
            square = width**2 * (var_u + end**2 * var_f - 2 * end * cov)
            fits = np.isclose((u - end * f) ** 2, square, rtol=1e-6) | (estimates.mean.flag > 0)
            hold(bool(fits.all()), mechanism, "estimate", "gives intervals of means that its covariance does not")
        ratio = estimates.mean.values
        square = var_u + ratio**2 * var_f - 2 * ratio * cov
        share, _ = given_positive(f, u, Spread(var_f, var_u, cov))
        fits = np.isclose((estimates.mean.se * share) ** 2, square, rtol=1e-6) | (estimates.mean.flag > 0)
        hold(bool(fits.all()), mechanism, "estimate", "gives standard errors of means that its covariance does not")
    variances = np.mean(stated, axis=0)
    hold(bool((variances > 0).all()), mechanism, "estimate", "states a covariance that is impossible")
    scores = np.array(errors) / np.sqrt(variances)
    for what, z in zip(("f", "U = f·m", "U - m·f"), np.moveaxis(scores, 1, 0), strict=True):
        exact = what == "f" or estimates.product_noise_se is None  # others allow for more than chance
        if exact:
            _unbiased(mechanism, what, z.mean(axis=0) * math.sqrt(repeats))
        squares = (z**2).mean(axis=1)  # keys of one tally are correlated
        off = 5.5 * squares.std() / (squares.mean() * math.sqrt(repeats))
        told = f"gives errors of {what} with {squares.mean():.3f} times the variance that is stated"
        hold(bool(squares.mean() < 1 + off), mechanism, "estimate", told)
        hold(bool(squares.mean() > 1 - off) or not exact, mechanism, "estimate", told)


def _unbiased(mechanism: Mechanism, what: str, bias: Floats) -> None:
    """``bias`` is the mean of standardised errors per key, in its own standard errors."""
    largest = float(np.abs(bias).max())
    told = f"gives a biased {what}: by {largest:.1f} standard errors of its mean"
    hold(largest < beyond(ALARM / (2 * len(bias))), mechanism, "estimate", told)
