"""Wang et al. 2020, Fig. 2: the bias of the methods, key by key."""

from __future__ import annotations

from keyveil.lab.experiments.rules import Bounded, Trend, both
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
            "Base and Norm are unbiased (no value is off by more than 0.0025, where one estimate errs by about 0.004).",
            Bounded(("Base", "Norm"), "bias", most=0.0025, least=-0.0025),
        ),
        Claim(
            "Base-Pos has a systematic positive bias: its frequencies add up to too much.",
            Bounded(("Base-Pos",), "sum_gap", least=0.1),
        ),
        Claim(
            "Base-Cut is unbiased for the first few values (0.0025 for the three most frequent).",
            Bounded(("Base-Cut",), "bias", most=0.0025, least=-0.0025, between=(1, 3)),
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
