"""Shrinking means towards what all keys have in common, by as much as each of them is noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from keyveil.core.estimates import FLAGS, Column

LEAST_KEYS = 3  # with known means, below which there is nothing to learn from each other


def shrunk_means(mean: Column) -> Column:
    """m̃ = (1 - w)·m̂ + w·pool with w = Var/(Var + τ²); τ², the spread of true means, by moments (docs/theory.md).

    Biased, so flagged ``shrunk``, without a standard error; the interval is that of the unbiased mean, widened where
    it does not hold the value. A key whose mean the data cannot tell gets the pool itself and keeps its flag.
    """
    known = np.isfinite(mean.values) & np.isfinite(mean.se) & (mean.se > 0) & (mean.flag < FLAGS.index("insufficient"))
    if np.count_nonzero(known) < LEAST_KEYS:
        return mean.clipped(-1, 1)
    values, variance = mean.values[known], mean.se[known] ** 2
    precision = 1 / variance
    centre = precision @ values / precision.sum()
    excess = precision @ (values - centre) ** 2 - (len(values) - 1)
    spread = max(excess / (precision.sum() - (precision**2).sum() / precision.sum()), 0.0)
    weights = 1 / (variance + spread)
    pool = float(weights @ values / weights.sum())
    moved = np.full(len(mean), pool)
    moved[known] = np.clip((spread * values + variance * pool) / (variance + spread), -1, 1)
    low, high = (np.clip(end, -1, 1) for end in (np.fmin(mean.low, moved), np.fmax(mean.high, moved)))
    shrunk = replace(mean, values=moved, se=np.full(len(mean), np.nan), low=low, high=high)
    return shrunk.flagged("shrunk", np.ones(len(mean), dtype=np.bool_))
