"""Wang et al. 2020, Fig. 10: the most frequent values."""

from __future__ import annotations

from keyveil.lab.experiments.rules import Alike, Lower, Trend, both, higher
from keyveil.lab.experiments.shape import Axis, Claim, Experiment
from keyveil.lab.experiments.wang.common import EMOJI, METHODS, ONE_FORM, ZIPF, but

EXPERIMENT = Experiment(
    id="wang-fig10",
    title="Errors of the most frequent values",
    people=(ZIPF, EMOJI),
    axis=Axis("points", (2, 4, 6, 8, 10, 12, 16, 20, 24, 28, 32), "most frequent values"),
    series=METHODS,
    measures=("top",),
    claims=(
        Claim(
            "Base, Base-Pos, Post-Pos and Norm do equally well (within 20 %).",
            both(*(Alike(one, "Base", "top", 0.2) for one in ("Base-Pos", "Post-Pos", "Norm"))),
        ),
        Claim(
            "Norm-Mul errs at least ten times as much as any other method.",
            higher("Norm-Mul", but("Norm-Mul"), "top", by=10, everywhere=True),
        ),
        Claim("Norm-Sub errs more than Base.", higher("Norm-Sub", ("Base",), "top")),
        Claim(
            "The errors of Base-Cut, Norm-Cut, Power and PowerNS grow with the number of values.",
            Trend(("Base-Cut", "Norm-Cut", "Power", "PowerNS"), "top", rising=True),
        ),
        Claim("Norm-Cut errs less than Base-Cut.", Lower("Norm-Cut", ("Base-Cut",), "top")),
        Claim(
            "Power and PowerNS err more than Base-Cut beyond ten values.",
            both(*(higher(one, ("Base-Cut",), "top", between=(11, 32)) for one in ("Power", "PowerNS"))),
        ),
    ),
    forms=ONE_FORM,
    quick_people=500_000,
    quick_repeats=8,
    full_repeats=30,
)
