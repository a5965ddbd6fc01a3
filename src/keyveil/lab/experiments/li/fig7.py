"""Li et al. 2022, Fig. 7: sums over sets of keys."""

from __future__ import annotations

from keyveil.lab.experiments.li.common import CONSISTENCY, CONSISTENT, NOTE, OTHERS, OURS, PEOPLE, RIVALS
from keyveil.lab.experiments.rules import Dips, Lower, Trend
from keyveil.lab.experiments.shape import Axis, Claim, Experiment

EXPERIMENT = Experiment(
    id="li-fig7",
    title="Errors of sums over sets of keys at ε = 1",
    people=PEOPLE,
    axis=Axis("points", (10, 20, 30, 40, 50, 60, 70, 80, 90), "keys in a set, in %"),
    series=(OURS, *RIVALS, CONSISTENT),
    measures=("sets",),
    claims=(
        Claim(
            "KV-SW with consistency errs less than all others, whatever the size of the sets.",
            Lower(OURS.label, OTHERS, "sets", everywhere=True),
            because=CONSISTENCY,
        ),
        Claim("The errors of the others grow with the size of the sets.", Trend(OTHERS, "sets", rising=True)),
        Claim(
            "Those of KV-SW are symmetric: largest about half of the keys.",
            Dips((OURS.label,), "sets", peaks=True),
            because="It is symmetric where frequencies are forced to add up to 1, which they do not where people hold "
            "several keys (erratum D4); here they are not forced.",
        ),
    ),
    quick_people=20_000,
    quick_repeats=6,
    note=NOTE,
)
