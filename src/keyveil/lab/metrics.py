"""Errors of estimates against the truth, on the scale [-1, 1]; definitions of mechanisms.md part 7."""

from __future__ import annotations

import numpy as np

from keyveil.core.estimates import Estimates
from keyveil.core.truth import Truth


def metrics(estimates: Estimates, truth: Truth) -> dict[str, float | None]:
    """Mean squared errors and coverage over the keys that somebody holds; ``None`` where nothing is estimated.

    Means enter cut to [-1, 1], and as 0 where there is none: an unclipped ratio of a rare key has no variance.
    """
    held = truth.frequency > 0
    frequency, mean = estimates.frequency, estimates.mean
    answers: dict[str, float | None] = dict.fromkeys(
        ("mse_frequency", "mse_mean", "coverage_frequency", "coverage_mean", "insufficient")
    )
    if not frequency.absent:
        answers["mse_frequency"] = float(np.mean((frequency.values - truth.frequency)[held] ** 2))
        inside = (frequency.low <= truth.frequency) & (truth.frequency <= frequency.high)
        answers["coverage_frequency"] = float(np.mean(inside[held]))
    if not mean.absent:
        shown = np.nan_to_num(np.clip(mean.values, -1, 1))
        answers["mse_mean"] = float(np.mean((shown - truth.mean)[held] ** 2))
        inside = (mean.low <= truth.mean) & (truth.mean <= mean.high)
        answers["coverage_mean"] = float(np.mean(inside[held]))
        answers["insufficient"] = float(np.mean(mean.flag[held] > 0))
    return answers
