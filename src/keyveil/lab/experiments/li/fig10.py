"""Li et al. 2022, Fig. 10: errors of variances."""

from __future__ import annotations

from keyveil.lab.experiments.li.common import BLIND, BUDGETS, KVSW, NOTE, PEOPLE, STAR
from keyveil.lab.experiments.rules import Less, Lower, Spot, both
from keyveil.lab.experiments.shape import Claim, Experiment

EXPERIMENT = Experiment(
    id="li-fig10",
    title="Errors of variances",
    people=PEOPLE,
    axis=BUDGETS,
    series=(KVSW, STAR),
    measures=("mse_variance",),
    claims=(
        Claim("KV-SW errs less than PrivKVM*.", Lower("KV-SW", (STAR.label,), "mse_variance"), because=BLIND),
        Claim(
            "Movies, with the longest padding, has the largest error.",
            both(
                *(
                    Less(Spot("KV-SW", "mse_variance", other), Spot("KV-SW", "mse_variance", "Movies"))
                    for other in ("E-commerce", "Clothing")
                )
            ),
        ),
    ),
    quick_people=20_000,
    quick_repeats=3,
    note=NOTE,
)
