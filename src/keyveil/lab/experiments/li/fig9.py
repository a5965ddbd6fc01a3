"""Li et al. 2022, Fig. 9: errors of means."""

from __future__ import annotations

from keyveil.lab.experiments.li.common import BLIND, BUDGETS, KVSW, NOTE, OTHERS, PEOPLE, RIVALS
from keyveil.lab.experiments.rules import Lower
from keyveil.lab.experiments.shape import Claim, Experiment

EXPERIMENT = Experiment(
    id="li-fig9",
    title="Errors of means",
    people=PEOPLE,
    axis=BUDGETS,
    series=(KVSW, *RIVALS),
    measures=("mse_mean",),
    claims=(
        Claim(
            "KV-SW has the least error of means, on all data and at every budget.",
            Lower("KV-SW", OTHERS, "mse_mean", everywhere=True),
            because=BLIND,
        ),
        Claim(
            "Beyond ε = 4 it errs ten to a hundred times less than most others (all but one of them).",
            Lower("KV-SW", OTHERS, "mse_mean", by=10, between=(4.5, 10), spared=1),
            because=BLIND,
        ),
    ),
    quick_people=20_000,
    quick_repeats=3,
    note=NOTE,
)
