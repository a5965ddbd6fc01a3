"""Errors of estimates against the truth, on the scale [-1, 1]; definitions in docs/theory.md, metrics.

All means over keys run over those that somebody holds. Estimated means enter cut to [-1, 1], and as 0 where there is
none: an unclipped ratio of a rare key has no variance. Where no key has an estimate there is no error either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from keyveil.core.estimates import FLAGS, Estimates
from keyveil.frames.truth import Truth

Floats = NDArray[np.float64]
Metrics = dict[str, float | None]

TOP = 20  # the most frequent keys, whose errors are also shown alone
SUBSET = 0.1  # of the keys, in the random sets whose sums are looked at
HITTERS = 15  # how many keys the search for the most frequent ones names

NAMES = (
    "mse_frequency",
    "mse_mean",
    "mse_frequency_top",
    "mse_mean_top",
    "ae_frequency",
    "ae_mean",
    "re_frequency",
    "re_frequency_top",
    "mse_subset",
    "precision",
    "recall",
    "ndcg",
    "coverage_frequency",
    "coverage_mean",
    "insufficient",
)


def metrics(estimates: Estimates, truth: Truth) -> Metrics:
    """Everything that one run tells; ``None`` where nothing is estimated. ``_top``: over the 20 most frequent keys."""
    held = np.flatnonzero(truth.frequency > 0)
    top = most_frequent(truth.frequency, TOP)
    answers: Metrics = dict.fromkeys(NAMES)
    frequency, mean = estimates.frequency, estimates.mean
    if np.isfinite(frequency.values[held]).any():
        errors = np.nan_to_num(frequency.values) - truth.frequency
        answers |= {
            "mse_frequency": float(np.mean(errors[held] ** 2)),
            "mse_frequency_top": float(np.mean(errors[top] ** 2)),
            "ae_frequency": float(np.mean(np.abs(errors[held]))),
            "re_frequency": relative_error(np.nan_to_num(frequency.values), truth.frequency),
            "re_frequency_top": float(np.median(np.abs(errors[top]) / truth.frequency[top])),
            "mse_subset": subset_error(np.nan_to_num(frequency.values), truth.frequency, SUBSET, seed=0),
            "coverage_frequency": _coverage(frequency.low, frequency.high, truth.frequency, held),
            **heavy_hitters(frequency.values, truth.frequency, HITTERS),
        }
    if not mean.absent and len(held):
        answers["insufficient"] = float(np.mean(mean.flag[held] >= FLAGS.index("insufficient")))
    if np.isfinite(mean.values[held]).any():
        errors = np.nan_to_num(np.clip(mean.values, -1, 1)) - truth.mean
        answers |= {
            "mse_mean": float(np.mean(errors[held] ** 2)),
            "mse_mean_top": float(np.mean(errors[top] ** 2)),
            "ae_mean": float(np.mean(np.abs(errors[held]))),
            "coverage_mean": _coverage(mean.low, mean.high, truth.mean, held),
        }
    return answers


def total_cost(means: Floats, truth: Truth, price: float, rounds: int) -> float | None:
    """F(r) = mean |m - m^(r)| + price·r: how far the means of round r are off, and what so many rounds cost."""
    held = truth.count > 0
    return float(np.mean(np.abs(means - truth.mean)[held])) + price * rounds if held.any() else None


def averaged(runs: Sequence[Mapping[str, float | None]]) -> Metrics:
    """The mean of each metric over runs; ``None`` where no run has it."""
    known = {name: [run[name] for run in runs if run[name] is not None] for name in runs[0]}
    return {name: float(np.mean(np.array(values, dtype=float))) if values else None for name, values in known.items()}


def most_frequent(frequency: Floats, count: int) -> NDArray[np.intp]:
    """The positions of the most frequent keys among those that somebody holds, ties by position."""
    order = np.argsort(-frequency, kind="stable")[:count]
    return order[frequency[order] > 0]


def relative_error(estimated: Floats, true: Floats, share: float = 0.5) -> float:
    """The ``share``-quantile of |f̂ - f| / f over the keys that somebody holds; the median unless told."""
    held = true > 0
    return float(np.quantile(np.abs(estimated - true)[held] / true[held], share))


def wasserstein(estimated: Floats, true: Floats, points: Floats | None = None) -> float:
    """W₁ between laws on equal cells of [-1, 1] or at ``points``, averaged over the keys (rows) that have both.

    ``points`` are rising in every row; a key with fewer of them than others has NaN at the end.
    """
    known = np.isfinite(estimated).all(axis=1) & np.isfinite(true).all(axis=1)
    if not known.any():
        return float("nan")
    gaps = np.abs(np.cumsum(estimated[known] - true[known], axis=1))
    if points is None:
        return float(2 * gaps.mean())
    return float((gaps[:, :-1] * np.nan_to_num(np.diff(points[known], axis=1))).sum(axis=1).mean())


def kolmogorov(estimated: Floats, true: Floats) -> float:
    """The largest distance between distribution functions of laws at the same points, averaged over keys with both."""
    known = np.isfinite(estimated).all(axis=1) & np.isfinite(true).all(axis=1)
    if not known.any():
        return float("nan")
    return float(np.abs(np.cumsum(estimated[known] - true[known], axis=1)).max(axis=1).mean())


def variance_error(estimated: Floats, true: Floats, points: Floats) -> float | None:
    """Mean squared error of the variances of values on [-1, 1], over the keys that have both; ``None`` if none has.

    ``estimated`` are laws at ``points``, both [d, points], NaN where a key has fewer points; ``true`` variances, [d].
    """
    at = np.nan_to_num(points)
    mean = (estimated * at).sum(axis=1)
    errors = (estimated * at**2).sum(axis=1) - mean**2 - true
    known = np.isfinite(errors)
    return float(np.mean(errors[known] ** 2)) if known.any() else None


def jain(errors: Floats) -> float:
    """Fairness of mean squared errors over keys: 1 if all are alike, 1/d if one key has all of the error."""
    return float(errors.sum() ** 2 / (len(errors) * (errors**2).sum()))


def fairness(estimated: Sequence[Floats], true: Floats) -> float:
    """Jain's index of the per-key mean squared errors over runs; a steady number needs a hundred runs."""
    held = np.isfinite(true)
    return jain(np.mean([(one[held] - true[held]) ** 2 for one in estimated], axis=0))


def subset_error(estimated: Floats, true: Floats, share: float, seed: int, subsets: int = 100) -> float:
    """Mean squared error of the sum of frequencies over random subsets with ``share`` of the keys."""
    rng, size = np.random.default_rng(seed), max(round(share * len(true)), 1)
    errors = estimated - true
    sums = [errors[rng.choice(len(true), size, replace=False)].sum() for _ in range(subsets)]
    return float(np.mean(np.square(sums)))


def heavy_hitters(estimated: Floats, true: Floats, count: int) -> Metrics:
    """How well the most frequent keys are found: precision, recall and NDCG of the ``count`` largest estimates.

    Keys that are estimated at zero or below are not named, so fewer than ``count`` may be named.
    """
    wanted = most_frequent(true, count)
    named = most_frequent(np.nan_to_num(estimated), count)
    hits = int(np.isin(named, wanted).sum())
    discount = 1 / np.log2(np.arange(2, count + 2))
    gained, best = (float((true[keys] * discount[: len(keys)]).sum()) for keys in (named, wanted))
    return {"precision": hits / max(len(named), 1), "recall": hits / len(wanted), "ndcg": gained / best}


def _coverage(low: Floats, high: Floats, true: Floats, held: NDArray[np.intp]) -> float | None:
    """The share of intervals that hold the truth; an estimate without limits has none that could miss it."""
    given = held[~(np.isnan(low) | np.isnan(high))[held]]
    return float(np.mean(((low <= true) & (true <= high))[given])) if len(given) else None
