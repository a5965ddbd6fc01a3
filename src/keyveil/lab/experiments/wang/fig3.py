"""Wang et al. 2020, Fig. 3: the variance of the methods, key by key."""

from __future__ import annotations

from keyveil.lab.experiments.rules import Flat, Lower, Trend
from keyveil.lab.experiments.shape import Claim, Experiment
from keyveil.lab.experiments.wang.common import METHODS, ONE_FORM, RANKS, ZIPF

EXPERIMENT = Experiment(
    id="wang-fig3",
    title="Variance of the methods",
    people=(ZIPF,),
    axis=RANKS,
    series=METHODS,
    measures=("variance",),
    judged=("mse_frequency",),
    claims=(
        Claim(
            "The variances of Base and Norm are alike for all values (within a factor of 1.5).",
            Flat(("Base", "Norm"), "variance", 0.5),
        ),
        Claim(
            "Norm has a slightly smaller variance than Base.",
            Lower("Norm", ("Base",), "mse_frequency"),
        ),
        Claim(
            "The variances of all other methods fall with the rank.",
            Trend(
                ("Base-Pos", "Base-Cut", "Norm-Mul", "Norm-Sub", "Norm-Cut", "MLE-Apx", "Power", "PowerNS"), "variance"
            ),
        ),
    ),
    forms=ONE_FORM,
    quick_people=200_000,
    quick_repeats=40,
    full_repeats=5000,
    note="Both are unbiased, so the variances of Base and Norm are compared by their errors over all values.",
)
