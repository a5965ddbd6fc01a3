"""Ye et al. 2019, Fig. 9: the error of means against the number of rounds."""

from __future__ import annotations

from keyveil.lab.experiments.rules import Trend, both, falling
from keyveil.lab.experiments.shape import Axis, Claim, Experiment, budgets
from keyveil.lab.experiments.ye.common import GAUSS, PLAW, ROUNDS

SERIES = budgets("privkvm:rounds={x},estimator=published", ("0.5", "1", "2", "4", "6.4"))
LINES = tuple(one.label for one in SERIES)

EXPERIMENT = Experiment(
    id="ye-fig9",
    title="Does the error of means fall with the number of rounds?",
    people=(GAUSS, PLAW),
    axis=Axis("option", (1, 2, 3, 4, 5, 6, 7, 8, 9, 10), "rounds of PrivKVM", quick=(1, 2, 4, 7, 10)),
    series=SERIES,
    measures=("mse_mean",),
    claims=(
        Claim(
            "The error of means falls as the number of rounds grows, for every budget.",
            Trend(LINES, "mse_mean"),
            because=ROUNDS,
        ),
        Claim(
            "From the fourth round on the error has settled: it changes no faster than with the root of the rounds.",
            both(
                Trend(LINES, "mse_mean", rising=True, by=-0.5, between=(4, 10)),
                Trend(LINES, "mse_mean", by=-0.5, between=(4, 10)),
            ),
            because=ROUNDS,
        ),
        Claim("A larger budget has a smaller error, whatever the number of rounds.", falling(LINES, "mse_mean")),
    ),
    quick_people=20_000,
    quick_repeats=4,
    full_people=300_000,
    full_repeats=10,
)
