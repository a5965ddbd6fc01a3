"""Estimates with the errors of noise alone, and what a cap on pairs may hide beyond them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from keyveil.core.estimates import Estimates

Floats = NDArray[np.float64]


def without_undercount(estimates: Estimates) -> Estimates:
    """The estimates with the errors of noise alone: what keys have in common by a cap says nothing about their law."""
    if estimates.product_noise_se is not None:
        less_cap = without_undercount(replace(estimates, product_noise_se=None))
        return replace(less_cap, product_se=estimates.product_noise_se)
    found = estimates.header.undercount
    if found is None or not found.seen:
        return estimates
    f, unknown = estimates.frequency.values, np.full(estimates.schema.d, np.nan)
    of_f, of_u, of_both = found.added(f, unknown if estimates.product is None else estimates.product)

    def less(errors: Floats, added: Floats) -> Floats:
        return np.sqrt(np.maximum(errors**2 - added, 0))

    frequency = replace(estimates.frequency, se=less(estimates.frequency.se, of_f))
    mean = replace(estimates.mean, se=less(estimates.mean.se, found.shifts(f)))
    if estimates.product_se is None or estimates.covariance is None:
        return replace(estimates, frequency=frequency, mean=mean)
    product_se, covariance = less(estimates.product_se, of_u), estimates.covariance - of_both
    own = _mean_se(frequency.values, estimates.product, frequency.se, product_se, covariance)
    mean = replace(mean, se=np.where(np.isfinite(own), np.fmin(own, estimates.mean.se), mean.se))
    return replace(estimates, frequency=frequency, mean=mean, product_se=product_se, covariance=covariance)


def _mean_se(f: Floats, product: Floats | None, f_se: Floats, product_se: Floats, covariance: Floats) -> Floats:
    """The errors of means from those of f and f·m, to first order; NaN where there is no such error.

    What is allowed for the cap can be more than the whole error of a mean, so it cannot be taken off that: nothing
    would be left (``constant`` at an epsilon of 4).
    """
    if product is None:
        return np.full_like(f, np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.clip(product / f, -1, 1)
        variance = (product_se**2 - 2 * mean * covariance + (mean * f_se) ** 2) / f**2
        errors: Floats = np.sqrt(np.where((f > 0) & (variance > 0), variance, np.nan))
    return errors


def noise_alone(estimates: Estimates) -> Estimates:
    """``without_undercount``, where the header has no error that all keys have in common either."""
    found, less = estimates.header.undercount, without_undercount(estimates)
    if found is None or not found.common:
        return less
    return replace(less, header=replace(less.header, undercount=replace(found, common=0.0)))


def highest_frequencies(estimates: Estimates, z: float) -> Floats:
    """Upper limits of all frequencies, z standard errors of noise above what is kept and with what the cap may hide.

    They are those of the noise and of what keys have in common where nothing is hidden.
    """
    column, found = estimates.frequency, estimates.header.undercount
    plain: Floats = column.values + z * column.se
    if found is None or not found.widens:
        return plain
    return np.asarray(np.fmax(plain, found.highest(column.values, noise_alone(estimates).frequency.se, z)))
