"""Wang et al. 2020, Fig. 2: the bias of the methods, key by key."""

from __future__ import annotations

from keyveil.lab.experiments.rules import Bounded, Trend, Unbiased, both
from keyveil.lab.experiments.shape import Claim, Experiment
from keyveil.lab.experiments.wang.common import METHODS, ONE_FORM, RANKS, ZIPF

EXPERIMENT = Experiment(
    id="wang-fig2",
    title="Bias of the methods",
    people=(ZIPF,),
    axis=RANKS,
    series=METHODS,
    measures=("bias",),
    judged=("sum_gap",),
    claims=(
        Claim(
            "Base and Norm are unbiased (no value is off by a quarter of what a single run errs by).",
            Unbiased(("Base", "Norm"), "bias", 0.25),
        ),
        Claim(
            "Base-Pos has a systematic positive bias: its frequencies add up to too much.",
            Bounded(("Base-Pos",), "sum_gap", least=0.1),
        ),
        Claim(
            "Base-Cut is unbiased for the first few values (the three most frequent, within a quarter of that).",
            Unbiased(("Base-Cut",), "bias", 0.25, between=(1, 3)),
        ),
        Claim(
            "Norm-Sub takes from frequent values and gives to rare ones: its bias rises with the rank.",
            both(
                Trend(("Norm-Sub",), "bias", rising=True, linear=True),
                Bounded(("Norm-Sub",), "bias", most=0, between=(1, 5)),
                Bounded(("Norm-Sub",), "bias", least=0, between=(640, 1024)),
            ),
        ),
    ),
    forms=ONE_FORM,
    quick_people=200_000,
    quick_repeats=40,
    full_repeats=5000,
)
