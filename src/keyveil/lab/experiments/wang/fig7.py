"""Wang et al. 2020, Fig. 7: sums over random sets with 1 to 10 % of the values."""

from __future__ import annotations

from keyveil.lab.experiments.rules import Lower, Trend, higher
from keyveil.lab.experiments.shape import Axis, Claim, Experiment
from keyveil.lab.experiments.wang.common import EMOJI, LABELS, METHODS, ONE_FORM, ZIPF

EXPERIMENT = Experiment(
    id="wang-fig7",
    title="Errors of sums over small random sets",
    people=(ZIPF, EMOJI),
    axis=Axis("points", (1, 2, 3, 4, 5, 6, 7, 8, 9, 10), "values in a set, in %"),
    series=METHODS,
    measures=("sets",),
    claims=(
        Claim("The errors of all methods grow with the size of the set.", Trend(LABELS, "sets", rising=True)),
        Claim(
            "From 2 % on Norm-Cut has smaller errors than Base-Cut.",
            Lower("Norm-Cut", ("Base-Cut",), "sets", between=(2, 10)),
        ),
        Claim(
            "Norm-Mul does badly although its frequencies have the right sum: at least twice the error of Norm-Sub.",
            higher("Norm-Mul", ("Norm-Sub",), "sets", by=2),
        ),
    ),
    forms=ONE_FORM,
    quick_people=500_000,
    quick_repeats=8,
    full_repeats=30,
)
