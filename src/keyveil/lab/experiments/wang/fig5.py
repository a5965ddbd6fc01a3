"""Wang et al. 2020, Fig. 5: how many people without a method a method is worth."""

from __future__ import annotations

from keyveil.lab.experiments.rules import Alike, Bounded, Trend, both, higher
from keyveil.lab.experiments.shape import Axis, Claim, Experiment
from keyveil.lab.experiments.wang.common import METHODS, ONE_FORM, ZIPF, but

EXPERIMENT = Experiment(
    id="wang-fig5",
    title="How many people a method is worth",
    people=(ZIPF,),
    axis=Axis(
        "n",
        tuple(200_000.0 * number for number in range(1, 11)),
        "people asked",
        quick=(200_000, 500_000, 1_000_000),
    ),
    series=METHODS,
    measures=("worth",),
    claims=(
        Claim(
            "Base and Norm are worth as many people as were asked (within 10 %).",
            Bounded(("Base", "Norm"), "worth", most=1.1, least=0.9),
        ),
        Claim("Norm-Mul is worth less and less as people become more.", Trend(("Norm-Mul",), "worth")),
        Claim(
            "PowerNS is best, and saves about nine people of ten (at least five of six here).",
            both(higher("PowerNS", but("PowerNS"), "worth"), Bounded(("PowerNS",), "worth", least=6)),
        ),
        Claim(
            "Three pairs go together: Base and Norm, Base-Pos and Post-Pos, Norm-Sub and MLE-Apx (10 %).",
            both(
                Alike("Base", "Norm", "worth", 0.1),
                Alike("Base-Pos", "Post-Pos", "worth", 0.1),
                Alike("Norm-Sub", "MLE-Apx", "worth", 0.1),
            ),
        ),
    ),
    forms=ONE_FORM,
    quick_repeats=4,
    full_repeats=30,
    linear=True,
    note="Shown is n'/n where the paper shows n': a method on n people errs as much as Base on n' people.",
)
