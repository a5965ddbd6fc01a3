"""Every measure by name: the words on its axis, its reading of a run, and how runs become one number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from keyveil.lab.experiments import choice, conditionals, readings
from keyveil.lab.experiments.readings import Reading

Summary = Literal["mean", "jain", "worst", "best", "variance", "inverse"]


@dataclass(frozen=True)
class Measure:
    """A number of a run, the words on its axis, and how runs become one number."""

    title: str
    read: Reading
    summary: Summary = "mean"
    log: bool = True


MEASURES: dict[str, Measure] = {
    "mse_frequency": Measure("mean squared error of frequencies", readings.metric("mse_frequency")),
    "mse_mean": Measure("mean squared error of means", readings.metric("mse_mean")),
    "ae_frequency": Measure("absolute error of frequencies", readings.metric("ae_frequency")),
    "ae_mean": Measure("absolute error of means", readings.metric("ae_mean")),
    "re_frequency": Measure("median relative error of frequencies", readings.metric("re_frequency")),
    "re_top": Measure("median relative error of the top 100 keys", readings.relative_top),
    "re_quantile": Measure("relative error of frequencies", readings.relative_errors),
    "wasserstein": Measure("W₁ of values on [-1, 1]", readings.distribution("wasserstein")),
    "mse_variance": Measure("mean squared error of variances", readings.distribution("mse_variance")),
    "cost-0.2": Measure("total cost, 0.2 a round", readings.cost(0.2), log=False),
    "cost-0.02": Measure("total cost, 0.02 a round", readings.cost(0.02), log=False),
    "rounds": Measure("rounds", lambda run, points: [float(len(run.history))], log=False),
    "sets": Measure("mean squared error of sums over sets", readings.sets),
    "fixed_sets": Measure("mean squared error of the categories", readings.fixed_sets),
    "top": Measure("mean squared error of the top keys", readings.top),
    "top15": Measure("mean squared error of the top 15 keys", readings.top_of(15)),
    "sets30": Measure("mean squared error of sums over 30 % of the keys", readings.sets_of(30)),
    "count": Measure("estimated frequency", readings.ranked(readings.shown_frequency)),
    "bias": Measure("bias", readings.ranked(lambda run: run.frequency - run.truth.frequency), log=False),
    "variance": Measure("variance", readings.ranked(lambda run: run.frequency), "variance"),
    "sum_gap": Measure("sum of all frequencies, too large by", readings.sum_gap, log=False),
    "worth": Measure("people it is worth, as a multiple", readings.noise_share, "inverse"),
    "key_mean": Measure("estimated mean", readings.keys(readings.shown_mean), log=False),
    "mse_mean_top": Measure("squared error of means of the 20 top keys", readings.metric("mse_mean_top")),
    "correlation": Measure("correlation of frequency and mean", readings.correlation, log=False),
    "correlation_gap": Measure("error of that correlation", readings.correlation_gap, log=False),
    "fairness": Measure("fairness (Jain) of means", readings.per_key, "jain", log=False),
    "worst_mean": Measure("squared error of the worst mean", readings.per_key, "worst"),
    "best_mean": Measure("squared error of the best mean", readings.per_key, "best"),
    "bits": Measure("bits a person", readings.bits),
    "mean_f": Measure("average frequency", readings.of_truth(lambda truth: float(truth.frequency.mean())), log=False),
    "var_f": Measure(
        "variance of frequencies", readings.of_truth(lambda truth: float(truth.frequency.var())), log=False
    ),
    "mean_m": Measure("average mean", readings.of_truth(lambda truth: float(np.nanmean(truth.mean))), log=False),
    "var_m": Measure("variance of means", readings.of_truth(lambda truth: float(np.nanvar(truth.mean))), log=False),
    "conditional_frequency": Measure("error of conditional frequencies", conditionals.conditional_frequency),
    "conditional_mean": Measure("error of conditional means", conditionals.conditional_mean),
    "picks_itself": Measure("share of choices that are PowerNS", choice.picks_itself, log=False),
    "total": Measure("total budget ε", lambda run, points: [float("nan")], log=False),
}
"""Every measure by name. ``total`` is of formulas alone."""

WHOLE = frozenset({"fairness", "worst_mean", "best_mean"})
"""Measures whose runs are vectors over keys, and whose sum over runs is one number."""
