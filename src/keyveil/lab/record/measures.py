"""What is measured of every row: names, words, which way is better, and how runs become a number with its error."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from keyveil.core.estimates import Estimates
from keyveil.frames.truth import Truth
from keyveil.lab.metrics import jain, metrics

Floats = NDArray[np.float64]
Number = tuple[float, float | None]
"""A value and its standard error; a single run has none."""


@dataclass(frozen=True)
class Measure:
    """Words about a column, and whether small or large numbers are good; some are neither."""

    about: str
    better: Literal["less", "more", ""] = "less"


MEASURES: dict[str, Measure] = {
    "mse_frequency": Measure("mean squared error of frequencies, over the keys that somebody holds"),
    "mse_mean": Measure("mean squared error of means on [-1, 1], cut to it; a mean without estimate counts as 0"),
    "mse_frequency_top": Measure("mse_frequency over the 20 most frequent keys"),
    "mse_mean_top": Measure("mse_mean over the 20 most frequent keys"),
    "re_frequency": Measure("median of |estimate - f|/f over the keys"),
    "re_frequency_top": Measure("re_frequency over the 20 most frequent keys"),
    "l1_frequency": Measure("sum of |estimate - f| over all keys (L₁)"),
    "kl_frequency": Measure(
        "Kullback-Leibler divergence in nats of the estimated shares from the true ones: both divided by their sums, "
        "estimates cut from below at half a person, 1/(2n)"
    ),
    "precision": Measure("share of the 15 keys named as most frequent that are (fewer if fewer are above 0)", "more"),
    "ndcg": Measure("normalised discounted cumulative gain of those 15", "more"),
    "bias2_frequency": Measure(
        "squared bias of frequencies for these people, unbiased, so that it may be just below 0; with "
        "variance_frequency it adds up to mse_frequency",
        "",
    ),
    "variance_frequency": Measure("variance of the estimated frequencies over the runs, averaged over keys", ""),
    "bias2_mean": Measure("the same of means", ""),
    "variance_mean": Measure("the same of means", ""),
    "jain_frequency": Measure("Jain's index of the errors key by key: 1 if all are alike", "more"),
    "jain_mean": Measure("the same of means", "more"),
    "coverage_frequency": Measure("share of 95 % intervals of frequencies that hold the truth", ""),
    "coverage_mean": Measure("the same of means", ""),
    "wasserstein": Measure("W₁ between estimated and true laws of values, averaged over keys"),
    "ks": Measure("largest distance between their distribution functions (Kolmogorov-Smirnov), averaged over keys"),
}
"""Every column that is measured, in the order of the table."""

OF_VALUES = ("wasserstein", "ks")
"""Of laws of values: no decoder changes them, so they stand beside the first decoder only."""
_ONE_RUN = (
    "mse_frequency", "mse_mean", "mse_frequency_top", "mse_mean_top", "re_frequency", "re_frequency_top",
    "precision", "ndcg", "coverage_frequency", "coverage_mean",
)  # fmt: skip


def of_run(estimates: Estimates, truth: Truth) -> dict[str, float | None]:
    """What one run tells."""
    found = metrics(estimates, truth)
    answers = {name: found[name] for name in _ONE_RUN} | dict.fromkeys(("l1_frequency", "kl_frequency"))
    if found["mse_frequency"] is not None:
        values = np.nan_to_num(estimates.frequency.values)
        answers["l1_frequency"] = float(np.abs(values - truth.frequency).sum())
        answers["kl_frequency"] = divergence(values, truth.frequency, truth.n)
    return answers


def divergence(estimated: Floats, true: Floats, n: int) -> float:
    """KL of estimated shares from true ones, in nats; an estimate counts at least as half a person."""
    p, q = true / true.sum(), np.maximum(estimated, 1 / (2 * n))
    held = p > 0
    return float((p[held] * np.log(p[held] / (q / q.sum())[held])).sum())


def averaged(runs: Sequence[Mapping[str, float | None]]) -> dict[str, Number]:
    """Each number averaged over the runs that have it, with its standard error."""
    found: dict[str, Number] = {}
    for name in runs[0] if runs else ():
        told = np.array([one[name] for one in runs if one[name] is not None], dtype=np.float64)
        if len(told):
            found[name] = float(told.mean()), float(told.std(ddof=1) / np.sqrt(len(told))) if len(told) > 1 else None
    return found


def over_runs(errors: Floats, quantity: str) -> dict[str, Number]:
    """Bias and variance apart, and fairness, from errors run by run, [run, key]; nothing from fewer than three runs."""
    if len(errors) < 3:
        return {}

    def squared_bias(rows: Floats) -> float:
        return float((rows.mean(axis=0) ** 2 - rows.var(axis=0, ddof=1) / len(rows)).mean())

    def variance(rows: Floats) -> float:
        return float(rows.var(axis=0, ddof=1).mean())

    def fairness(rows: Floats) -> float:
        return jain((rows**2).mean(axis=0))

    return {
        f"bias2_{quantity}": jackknifed(errors, squared_bias),
        f"variance_{quantity}": jackknifed(errors, variance),
        f"jain_{quantity}": jackknifed(errors, fairness),
    }


def jackknifed(rows: Floats, number: Callable[[Floats], float]) -> Number:
    """A number of all runs, and its standard error from leaving out one run after the other."""
    count = len(rows)
    left_out = np.array([number(np.delete(rows, one, axis=0)) for one in range(count)])
    return number(rows), float(np.sqrt((count - 1) * left_out.var()))
