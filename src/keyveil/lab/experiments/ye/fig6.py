"""Ye et al. 2019, Fig. 6: errors against the number of keys."""

from __future__ import annotations

from dataclasses import replace

from keyveil.lab.experiments.rules import Lower, Trend, both
from keyveil.lab.experiments.shape import Axis, Claim, Experiment
from keyveil.lab.experiments.ye.common import HARMONY, KRR, LNR, NO_OUTLIERS, PRIVKVM

EXPERIMENT = Experiment(
    id="ye-fig6",
    title="Errors as keys become more",
    people=(LNR,),
    axis=Axis("keys", (20, 50, 100, 200, 500, 1000), "keys", log=True, quick=(20, 100, 500, 1000)),
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
            "Its errors grow with the number of keys.",
            both(Trend(("PrivKVM",), "re_frequency", rising=True), Trend(("PrivKVM",), "mse_mean", rising=True)),
        ),
    ),
    quick_people=20_000,
    quick_repeats=6,
    full_repeats=20,
    note="The paper asks a million people; so many would hold 4·10⁸ pairs, and as many are asked as fit in memory.",
)
