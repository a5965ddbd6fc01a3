"""Questions about several keys: sums over sets, comparisons with a test, frequency against mean over all keys.

From processed estimates, sums and differences have the processed values. Tests and limits rest on the unbiased
estimates, which alone have a law, and so does all of ``correlation``; the limits are widened to hold the value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from keyveil.core.errors import MechanismError
from keyveil.core.estimates import FLAGS, Column, Estimates, Interval, worst
from keyveil.core.tally import Tally
from keyveil.learn.dependence import Links, links
from keyveil.learn.noise import highest_frequencies, noise_alone
from keyveil.learn.processed import SAME, Processed, answered, unbiased
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.responses import normal_quantile

Floats = NDArray[np.float64]
Of = Literal["frequency", "mean"]

INSUFFICIENT = FLAGS.index("insufficient")
LEAST_KEYS = 5  # for a correlation with an interval


@dataclass(frozen=True)
class Difference:
    """A difference with its interval, in standard errors (z), and how often chance alone would be as far from zero."""

    difference: Interval
    z: float
    p_value: float


@dataclass(frozen=True)
class Correlation:
    """Pearson's coefficient over keys, as the estimates have it and freed of their noise, from so many keys."""

    plain: float
    corrected: Interval
    keys: int


def subset_sum(
    estimates: Estimates,
    keys: Sequence[str | int],
    *,
    mechanism: Mechanism | None = None,
    tally: Tally | None = None,
    confidence: float | None = None,
) -> Interval:
    """The sum of the frequencies of some keys: how many of them a person holds on average.

    Where everybody holds exactly one key it is the share of people with any of them. The interval takes account of
    how the estimates depend on each other, and of what a cap may hide of all these keys together. Reports about several
    keys together tell the former themselves: give their ``tally``. ``mechanism`` is needed only if it is not of the
    registry.
    """
    return subset_sums(estimates, [keys], mechanism=mechanism, tally=tally, confidence=confidence)[0]


def subset_sums(
    estimates: Estimates,
    sets: Sequence[Sequence[str | int]],
    *,
    mechanism: Mechanism | None = None,
    tally: Tally | None = None,
    confidence: float | None = None,
) -> list[Interval]:
    """``subset_sum`` of several sets, which share what is known of the errors of keys together."""
    raw = unbiased(estimates)
    noise, hidden, z = noise_alone(raw), raw.header.undercount, normal_quantile(confidence or raw.confidence)
    known: Links | None = None
    found = list[Interval]()
    for keys in sets:
        at = _places(raw, keys)
        values, se = raw.frequency.values[at], raw.frequency.se[at]
        if not np.isfinite(values).all() or not np.isfinite(se).all():
            found.append(Interval(math.nan, 0.0, float(len(at)), math.nan, "insufficient"))
            continue
        known = known or links(noise, mechanism, tally)
        total = float(values.sum())
        variance = known.variance(np.array(at), np.ones(len(at)))
        error = math.sqrt(variance + (0.0 if hidden is None else hidden.common * total**2))
        flag = worst(*(FLAGS[code] for code in raw.frequency.flag[at]))
        one = _interval(total, error, z, flag)
        if hidden is not None:
            one = replace(one, high=max(one.high, hidden.highest_sum(total, math.sqrt(variance), len(at), z)))
        found.append(answered(estimates, float(estimates.frequency.values[at].sum()), one))
    return found


def compare_keys(
    estimates: Estimates,
    first: str | int,
    second: str | int,
    of: Of = "frequency",
    *,
    mechanism: Mechanism | None = None,
    tally: Tally | None = None,
    confidence: float | None = None,
) -> Difference:
    """Is one key more frequent than another, or its mean higher? First minus second, means in the schema's units.

    ``mechanism`` and ``tally`` as in ``subset_sum``. z and the p-value are those of the unbiased estimates.
    """
    raw = unbiased(estimates).per_key()  # the two keys were named
    a, b = _places(raw, [first, second])
    known = links(raw, mechanism, tally)
    column = _column(raw, of)
    value, se, flag = _difference(column, a, column, b)
    if flag == "insufficient":
        return _untold(value)
    if of == "frequency":
        variance = known.variance(np.array([a, b]), np.array([1.0, -1.0]))
    else:
        slope = raw.schema.slope(raw.mean.values)
        variance = max(se**2 - 2 * float(slope[a] * slope[b]) * known.of_means(a, b), 0.0)
    z = normal_quantile(confidence or raw.confidence)
    found = _tested(value, math.sqrt(variance), z, flag, _hidden(raw, a, of, z), _hidden(raw, b, of, z))
    shown = _column(estimates, of)
    return _shown(estimates, found, float(shown.values[a] - shown.values[b]))


def compare_campaigns(
    first: Estimates, second: Estimates, key: str | int, of: Of = "frequency", *, confidence: float | None = None
) -> Difference:
    """Did a key change from one collection to another? First minus second; the two must not share reports.

    Campaigns about larger populations should be estimated with ``population=True``: otherwise the answer is about the
    people who reported.
    """
    one, other = unbiased(first).per_key(), unbiased(second).per_key()
    if one.population != other.population:
        raise MechanismError(
            "question/population",
            "One collection speaks about its people and the other about a population; choose one.",
        )
    a, b = _places(one, [key])[0], _places(other, [key])[0]
    value, se, flag = _difference(_column(one, of), a, _column(other, of), b)
    if flag == "insufficient":
        return _untold(value)
    z = normal_quantile(confidence or one.confidence)
    found = _tested(value, se, z, flag, _hidden(one, a, of, z), _hidden(other, b, of, z))
    shown = float(_column(first, of).values[a] - _column(second, of).values[b])
    return _shown(first if isinstance(first, Processed) else second, found, shown)


def correlation(estimates: Estimates, *, confidence: float | None = None) -> Correlation:
    """Do frequent keys have higher means? Over the keys whose mean is known (Ye et al. 2019, Fig. 7), on [-1, 1].

    Noise pulls the plain coefficient towards zero; the corrected one subtracts its variances and covariance. Its
    interval is a jackknife over keys on Fisher's scale, so it takes the keys as a sample of many others like them.
    Means that are biased by design have no errors: of them there is the plain coefficient alone. Where fewer than
    ``LEAST_KEYS`` keys are told from absent, the plain coefficient is that of all keys, with means cut to [-1, 1], and
    the corrected one is insufficient.
    """
    raw = unbiased(estimates)
    mean = _column(raw, "mean", unit=True)
    told = (mean.flag < INSUFFICIENT) & np.isfinite(mean.values) & np.isfinite(raw.frequency.values)
    known = told & np.isfinite(mean.se) & np.isfinite(raw.frequency.se)
    keys = int(np.count_nonzero(known))
    if keys < LEAST_KEYS:
        if np.count_nonzero(told) < LEAST_KEYS:  # as the papers have it: over all keys, told from absent or not
            told = np.isfinite(mean.values) & np.isfinite(raw.frequency.values)
        pairs = np.array([raw.frequency.values[told], np.clip(mean.values[told], -1, 1)])
        enough = pairs.shape[1] >= LEAST_KEYS and (np.ptp(pairs, axis=1) > 0).all()
        plain = float(np.corrcoef(pairs)[0, 1]) if enough else math.nan
        return Correlation(plain, Interval(math.nan, -1.0, 1.0, math.nan, "insufficient"), pairs.shape[1])
    f, m = raw.frequency.values[known], mean.values[known]
    noise_f, noise_m = raw.frequency.se[known] ** 2, mean.se[known] ** 2
    shared = np.zeros(keys)
    if raw.covariance is not None:  # of f and m = u / f, to first order
        shared = (raw.covariance[known] - m * noise_f) / f
    rows = np.array([f, m, f * f, m * m, f * m, noise_f, noise_m, shared])
    plain = float(np.corrcoef(f, m)[0, 1])
    value = float(_coefficient(rows.mean(axis=1)))
    without = _coefficient((rows.sum(axis=1, keepdims=True) - rows) / (keys - 1))
    if not np.isfinite(value) or abs(value) >= 1 or not np.isfinite(without).all() or (np.abs(without) >= 1).any():
        # The noise is as large as what it covers: nothing is left to correlate.
        return Correlation(plain, Interval(math.nan, -1.0, 1.0, math.nan, "insufficient"), keys)
    scores = np.arctanh(without)
    error = math.sqrt((keys - 1) / keys * float(np.sum((scores - scores.mean()) ** 2)))
    reach = normal_quantile(confidence or raw.confidence) * error
    low, high = math.tanh(math.atanh(value) - reach), math.tanh(math.atanh(value) + reach)
    return Correlation(plain, Interval(value, low, high, error * (1 - value**2)), keys)


def _coefficient(moments: Floats) -> Floats:
    f, m, ff, mm, fm, noise_f, noise_m, shared = moments
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio: Floats = (fm - f * m - shared) / (np.sqrt(ff - f * f - noise_f) * np.sqrt(mm - m * m - noise_m))
    return ratio


def _column(estimates: Estimates, of: Of, unit: bool = False) -> Column:
    if of not in ("frequency", "mean"):
        raise MechanismError("question/of", f"Keys are compared by frequency or mean, not {of!r}.")
    column = estimates.frequency if of == "frequency" else estimates.mean
    if column.absent:
        raise MechanismError(f"estimate/no-{of}", column.absent)
    return column if unit else column.in_units


def _difference(first: Column, a: int, second: Column, b: int) -> tuple[float, float, str]:
    value = float(first.values[a] - second.values[b])
    se = math.hypot(float(first.se[a]), float(second.se[b]))
    flag = worst(FLAGS[first.flag[a]], FLAGS[second.flag[b]])
    return value, se, flag if math.isfinite(value) and math.isfinite(se) else "insufficient"


def _tested(value: float, se: float, z: float, flag: str, first: float, second: float) -> Difference:
    """A difference of two estimates, of which a cap may hide so much of the ``first`` and of the ``second``.

    The test asks whether noise alone explains what is left of the difference if all of that were hidden.
    """
    left = max(value - second, 0.0) if value > 0 else min(value + first, 0.0)
    score = left / se if se > 0 else math.copysign(math.inf, left) if left else 0.0
    found = _interval(value, se, z, flag)
    found = replace(found, low=found.low - second, high=found.high + first)
    return Difference(found, score, math.erfc(abs(score) / math.sqrt(2)))


def _hidden(estimates: Estimates, at: int, of: Of, z: float) -> float:
    """What a cap may hide of the frequency of a key, beyond its interval; nothing of a mean."""
    if of == "mean":
        return 0.0
    column = estimates.frequency
    return float(max(highest_frequencies(estimates, z)[at] - column.values[at] - z * column.se[at], 0.0))


def _shown(estimates: Estimates, found: Difference, value: float) -> Difference:
    """The difference of processed values: each of the two is an answer, so that nothing is floored once more."""
    if not isinstance(estimates, Processed) or abs(value - found.difference.value) <= SAME:
        return found
    one = found.difference
    flag = worst(one.flag, "shrunk")
    return replace(found, difference=Interval(value, min(one.low, value), max(one.high, value), math.nan, flag))


def _untold(value: float) -> Difference:
    """One of the two is not known: any difference is possible, and no test is done."""
    return Difference(Interval(value, -math.inf, math.inf, math.nan, "insufficient"), math.nan, math.nan)


def _interval(value: float, se: float, z: float, flag: str) -> Interval:
    return Interval(value, value - z * se, value + z * se, se, flag)


def _places(estimates: Estimates, keys: Sequence[str | int]) -> list[int]:
    if not len(keys):
        raise MechanismError("question/empty", "A question needs at least one key.")
    places = [estimates.schema.place(key) for key in keys]
    if len(set(places)) < len(places):
        raise MechanismError("question/twice", "Every key can be named only once.")
    return places
