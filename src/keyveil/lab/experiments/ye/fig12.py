"""Ye et al. 2019, Fig. 12: virtual iterations against real ones."""

from __future__ import annotations

from keyveil.lab.experiments.rules import Lower
from keyveil.lab.experiments.shape import Axis, Claim, Experiment, Series
from keyveil.lab.experiments.ye.common import GAUSS, PLAW, PRIVKVM

VIRTUAL = Series("one round, five virtual", PRIVKVM.who)
REAL = Series("six rounds", "privkvm:rounds=6,estimator=published")

EXPERIMENT = Experiment(
    id="ye-fig12",
    title="Errors of means with virtual iterations and without",
    people=(GAUSS, PLAW),
    axis=Axis(
        "epsilon",
        (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4),
        "privacy budget ε",
        log=True,
        quick=(0.05, 0.2, 0.8, 1.6, 6.4),
    ),
    series=(VIRTUAL, REAL),
    measures=("mse_mean",),
    claims=(
        Claim(
            "At a tiny budget (0.05) virtual iterations do worse than real ones.",
            Lower(REAL.label, (VIRTUAL.label,), "mse_mean", between=(0, 0.06)),
            because="Six real rounds share the tiny budget, and each of them is noise; one round has all of it. Means "
            "are cut to [-1, 1] here, beyond which virtual iterations would carry them.",
        ),
        Claim(
            "From a moderate budget on (0.8) they do better, at every budget.",
            Lower(VIRTUAL.label, (REAL.label,), "mse_mean", between=(0.7, 10), everywhere=True),
            because="A virtual round undoes the pull towards the fake mean by the estimated frequency, which "
            "multiplies the noise of rare keys (errata A7, A8).",
        ),
    ),
    quick_people=20_000,
    quick_repeats=6,
    full_people=300_000,
    full_repeats=20,
)
