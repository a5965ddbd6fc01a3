"""Consistent frequencies by name: ``kv.postprocess.apply`` for vectors, ``kv.postprocess.estimates`` for estimates.

    kv.postprocess.apply("norm-sub", vector, p=p, q=q, n=n, total=1.0)
    kv.postprocess.estimates("norm-sub", estimates)

Nothing here touches privacy, and nothing is lost: the unbiased estimates stay beside the processed ones as ``raw``.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from keyveil.core.errors import MechanismError
from keyveil.core.estimates import Column, Estimates
from keyveil.learn.choose import Choice, MethodScore, choose
from keyveil.learn.consistency import finite
from keyveil.learn.constraints import constraint_of
from keyveil.learn.means import shrunk_means
from keyveil.learn.methods import METHODS, SUPPORTS, UNBIASED, Cut, Noise, known, run
from keyveil.learn.processed import SAME, Processed, unbiased
from keyveil.learn.shrinkage import bayes
from keyveil.learn.source import source
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import PredictedVariance, SupportRates, can, who_can
from keyveil.mechanisms.totals import Constraint

__all__ = ["METHODS", "Choice", "Constraint", "MethodScore", "Processed", "apply", "choose", "estimates"]

Floats = NDArray[np.float64]
Means = Literal["clip", "shrink"]


def apply(
    method: str,
    vector: ArrayLike,
    *,
    p: float | None = None,
    q: float | None = None,
    n: int | None = None,
    total: float = 1.0,
    sigma: ArrayLike | None = None,
    upper: float | None = None,
    alpha: float = Cut.alpha,
    keep: int | None = None,
) -> Floats:
    """A method on a vector of unbiased estimates with the given sum; ``upper`` bounds each value where it is a bound.

    ``p`` and ``q`` are the probabilities that a report supports a key for its holders and for others. ``sigma``, one
    or per key, is by default the deviation at frequency zero. "post-pos" takes answers to any questions.
    "base-cut" lets ``alpha`` absent keys pass on average, or ``keep`` keys in all.
    """
    raw = finite(vector).copy()
    if not 0 <= total < np.inf:
        raise MechanismError("postprocess/total", f"Frequencies cannot have the sum {total:g}.")
    deviation = None if sigma is None else np.asarray(sigma, dtype=np.float64)
    if deviation is not None and deviation.shape not in ((), raw.shape):
        raise MechanismError("postprocess/constants", f"sigma is one number or one for each of the {len(raw)} keys.")
    return run(known(method), raw, Constraint(total, total, upper), Noise(p, q, n, deviation), Cut(alpha, keep))


def estimates(
    method: str,
    estimates: Estimates,
    total: float | None = None,
    *,
    mechanism: Mechanism | None = None,
    means: Means = "clip",
    alpha: float = Cut.alpha,
    keep: int | None = None,
) -> Processed:
    """A method, or "bayes", with the mechanism's own constants and constraint (docs/theory.md, which sum).

    ``total`` is the mean set size, where it is known. ``mechanism``, the one that made the estimates, is needed only if
    it is not of the registry. Means are cut to [-1, 1], or shrunk towards each other with ``means="shrink"``.
    "base-cut" lets ``alpha`` absent keys pass on average, or ``keep`` keys in all.
    """
    raw = unbiased(estimates)
    if means not in ("clip", "shrink"):
        raise MechanismError("postprocess/means", f"Means are post-processed by clip or shrink, not {means!r}.")
    if method == "bayes":
        return _processed(method, raw, Constraint(), **_columns(bayes(raw)))
    constraint = constraint_of(raw, total, mechanism)
    column = _frequencies(known(method), raw, constraint, mechanism, Cut(alpha, keep))
    mean = raw.mean
    if not mean.absent and means == "shrink":
        mean = shrunk_means(mean)
    elif not mean.absent and method not in UNBIASED:
        mean = mean.clipped(-1, 1)
    products: dict[str, Any] = {"scores": raw.distances}
    if method not in UNBIASED or means == "shrink":
        products |= {"product": None, "product_se": None, "covariance": None}  # they belong to the unbiased values
    return _processed(method, raw, constraint, frequency=column, mean=mean, **products)


def _frequencies(method: str, raw: Estimates, constraint: Constraint, mechanism: Mechanism | None, cut: Cut) -> Column:
    column = raw.frequency
    there = np.isfinite(column.values) & np.isfinite(column.se) & (column.se > 0)
    if not there.any():
        return column
    if not there.all() and constraint.total is not None:
        constraint = replace(constraint, total=None)  # keys that nobody spoke about hold some of it
    p, q = _support_rates(raw, mechanism) if method in SUPPORTS else (None, None)
    sigma = _absent_se(raw, mechanism) if method == "base-cut" else column.se
    values = column.values.copy()
    values[there] = run(method, values[there], constraint, Noise(p, q, raw.n, sigma[there]), cut)
    if method in UNBIASED:
        shift = values - column.values
        return replace(column, values=values, low=column.low + shift, high=column.high + shift)
    moved = there & (np.abs(values - column.values) > SAME)
    bound = moved & ((values == 0) | (values == constraint.upper))
    changed = replace(
        column,
        values=values,
        se=np.where(moved, np.nan, column.se),
        low=np.where(moved, np.fmin(column.low, values), column.low),
        high=np.where(moved, np.fmax(column.high, values), column.high),
    )
    return changed.flagged("shrunk", moved).flagged("clipped", bound)


def _absent_se(raw: Estimates, mechanism: Mechanism | None) -> Floats:
    """Standard errors of keys that nobody holds (Wang et al., eq. 5), as the mechanism predicts them.

    Those of the estimates themselves where it predicts none, as for protocols.
    """
    own = source(raw, mechanism)
    predicts = None if own is None else can(own, PredictedVariance)
    if predicts is None:
        return raw.frequency.se
    nothing, sizes = np.zeros(raw.schema.d), np.eye(1, raw.schema.d + 1, 1)[0]
    variance = predicts.predicted_spread(nothing, nothing, sizes, max(raw.n, 1)).frequency
    scale = 1.0 if raw.header.undercount is None else raw.header.undercount.scale
    return np.where(variance > 0, np.sqrt(np.abs(variance)) / scale, raw.frequency.se)


def _support_rates(raw: Estimates, mechanism: Mechanism | None) -> tuple[float | None, float | None]:
    """How often a report supports a key, for its holders and for others; unknown for estimates of a protocol."""
    own = source(raw, mechanism)
    if own is None:
        return None, None
    rates = can(own, SupportRates)
    if rates is None:
        raise MechanismError(
            "postprocess/constants",
            f"mle and mle-apx take reports that say yes or no for a key, and those of {own.title} say something else; "
            f"they work for {who_can(SupportRates)}, and norm-sub for all.",
        )
    p, q = rates.support_rates()
    return float(p), float(q)


def _processed(method: str, raw: Estimates, constraint: Constraint, **changes: Any) -> Processed:
    return Processed(**{**_columns(raw), **changes}, method=method, raw=raw, constraint=constraint)


def _columns(estimates: Estimates) -> dict[str, Any]:
    return {field.name: getattr(estimates, field.name) for field in fields(Estimates)}
