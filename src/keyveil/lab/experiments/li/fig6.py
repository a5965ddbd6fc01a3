"""Li et al. 2022, Fig. 6: errors of the most frequent keys."""

from __future__ import annotations

from keyveil.lab.experiments.li.common import COMPOSITION, CONSISTENCY, CONSISTENT, NOTE, OTHERS, OURS, PEOPLE, RIVALS
from keyveil.lab.experiments.rules import Lower
from keyveil.lab.experiments.shape import Axis, Claim, Experiment

EXPERIMENT = Experiment(
    id="li-fig6",
    title="Errors of the most frequent keys at ε = 1",
    people=PEOPLE,
    axis=Axis("points", (5, 10, 15, 20, 25, 30), "most frequent keys"),
    series=(OURS, *RIVALS, CONSISTENT),
    measures=("top",),
    claims=(
        Claim(
            "KV-SW with consistency errs less than all others, however many keys are looked at.",
            Lower(OURS.label, OTHERS, "top", everywhere=True),
            because=CONSISTENCY,
        ),
        Claim(
            "With the same consistency for both, KV-SW errs less than PCKV-UE.",
            Lower(OURS.label, (CONSISTENT.label,), "top"),
            ours=True,
            because=COMPOSITION,
        ),
    ),
    quick_people=20_000,
    quick_repeats=6,
    note=NOTE,
)
