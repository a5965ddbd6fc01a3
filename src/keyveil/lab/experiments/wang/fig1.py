"""Wang et al. 2020, Fig. 1: average estimates beside the truth, key by key."""

from __future__ import annotations

from keyveil.lab.experiments.rules import Alike, Lower, both, higher
from keyveil.lab.experiments.shape import Claim, Experiment, Series
from keyveil.lab.experiments.wang.common import METHODS, ONE_FORM, RANKS, ZIPF

EXPERIMENT = Experiment(
    id="wang-fig1",
    title="Average estimates of the methods beside the truth",
    people=(ZIPF,),
    axis=RANKS,
    series=(Series("truth"), *METHODS),
    measures=("count",),
    claims=(
        Claim(
            "On average Base and Norm agree with the truth (10 % over the hundred most frequent values).",
            both(*(Alike(one, "truth", "count", 0.1, between=(1, 100)) for one in ("Base", "Norm"))),
        ),
        Claim(
            "Norm-Mul takes much away from the most frequent values (more than a tenth).",
            Lower("Norm-Mul", ("truth",), "count", by=1.1, between=(1, 10)),
        ),
        Claim("Base-Pos overestimates the rare values.", higher("Base-Pos", ("truth",), "count", between=(300, 1024))),
    ),
    forms=ONE_FORM,
    quick_people=200_000,
    quick_repeats=40,
    full_repeats=5000,
    note="Frequencies are shown where the paper shows counts: they are counts divided by the number of people.",
)
