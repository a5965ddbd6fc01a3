"""Li et al. 2022, Fig. 3: errors of all frequencies."""

from __future__ import annotations

from keyveil.lab.experiments.li.common import (
    BUDGETS,
    COMPOSITION,
    CONSISTENCY,
    CONSISTENT,
    NOTE,
    OTHERS,
    OURS,
    PEOPLE,
    RIVALS,
)
from keyveil.lab.experiments.rules import Lower
from keyveil.lab.experiments.shape import Claim, Experiment

EXPERIMENT = Experiment(
    id="li-fig3",
    title="Errors of all frequencies",
    people=PEOPLE,
    axis=BUDGETS,
    series=(OURS, *RIVALS, CONSISTENT),
    measures=("mse_frequency",),
    claims=(
        Claim(
            "KV-SW with consistency has the least error, on all data and at every budget.",
            Lower(OURS.label, OTHERS, "mse_frequency", everywhere=True),
            because=CONSISTENCY,
        ),
        Claim(
            "Up to ε = 2 it errs about a hundred times less than the others (at least 30 times here).",
            Lower(OURS.label, OTHERS, "mse_frequency", by=30, between=(0, 2)),
            because=CONSISTENCY,
        ),
        Claim(
            "With the same consistency for both, KV-SW errs less than PCKV-UE.",
            Lower(OURS.label, (CONSISTENT.label,), "mse_frequency"),
            ours=True,
            because=COMPOSITION,
        ),
    ),
    quick_people=20_000,
    quick_repeats=3,
    note=NOTE,
)
