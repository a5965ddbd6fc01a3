"""Li et al. 2022, Fig. 5: sums over 30 % of the keys."""

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
from keyveil.lab.experiments.rules import Lower, Trend
from keyveil.lab.experiments.shape import Claim, Experiment

EXPERIMENT = Experiment(
    id="li-fig5",
    title="Errors of sums over 30 % of the keys",
    people=PEOPLE,
    axis=BUDGETS,
    series=(OURS, *RIVALS, CONSISTENT),
    measures=("sets30",),
    claims=(
        Claim(
            "KV-SW with consistency has the least error at every budget.",
            Lower(OURS.label, OTHERS, "sets30", everywhere=True),
            because=CONSISTENCY,
        ),
        Claim("All errors fall as the budget grows.", Trend((OURS.label, *OTHERS), "sets30")),
        Claim(
            "With the same consistency for both, KV-SW errs less than PCKV-UE.",
            Lower(OURS.label, (CONSISTENT.label,), "sets30"),
            ours=True,
            because=COMPOSITION,
        ),
    ),
    quick_people=20_000,
    quick_repeats=3,
    note=NOTE,
)
