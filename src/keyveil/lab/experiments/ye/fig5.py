"""Ye et al. 2019, Fig. 5: errors against the number of people."""

from __future__ import annotations

from dataclasses import replace

from keyveil.lab.experiments.rules import Bounded, Lower, Trend, both
from keyveil.lab.experiments.shape import Axis, Claim, Experiment
from keyveil.lab.experiments.ye.common import GAUSS, HARMONY, KRR, NO_OUTLIERS, PRIVKVM

EXPERIMENT = Experiment(
    id="ye-fig5",
    title="Errors as people become more",
    people=(GAUSS,),
    axis=Axis(
        "n", (10_000, 30_000, 100_000, 300_000, 1_000_000), "people asked", log=True, quick=(10_000, 30_000, 100_000)
    ),
    series=(PRIVKVM, replace(KRR, measures=("re_frequency",)), HARMONY),  # k-RR tells no means
    measures=("re_frequency", "mse_mean"),
    claims=(
        Claim(
            "PrivKVM has smaller errors of frequencies than k-RR and of means than PrivKVM-Harmony.",
            both(
                Lower("PrivKVM", (KRR.label,), "re_frequency", everywhere=True),
                Lower("PrivKVM", (HARMONY.label,), "mse_mean", everywhere=True),
            ),
            because=NO_OUTLIERS,
        ),
        Claim(
            "Its lead over both grows with the number of people.",
            both(
                Trend(("PrivKVM",), "re_frequency", against=KRR.label),
                Trend(("PrivKVM",), "mse_mean", against=HARMONY.label),
            ),
            because="Everybody's errors of frequencies fall with the root of the number of people, and those of means "
            "of both at the same pace, so ratios stay as they are.",
        ),
        Claim(
            "Its errors fall as people become more.",
            both(Trend(("PrivKVM",), "re_frequency"), Trend(("PrivKVM",), "mse_mean")),
        ),
        Claim(
            "With a million people (in a quick run: 100,000) the relative error is at most 0.5 and the error of means "
            "at most 10^-0.5.",
            both(
                Bounded(("PrivKVM",), "re_frequency", most=0.5, last=True),
                Bounded(("PrivKVM",), "mse_mean", most=10**-0.5, last=True),
            ),
        ),
    ),
    quick_repeats=8,
    full_repeats=20,
)
