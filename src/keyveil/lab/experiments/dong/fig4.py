"""Dong et al. 2023, Fig. 4: how uneven frequencies are."""

from __future__ import annotations

from keyveil.lab.experiments.dong.common import EVEN, LINEAR, ONE, PCKV, RUNS, SPLIT, TWO
from keyveil.lab.experiments.rules import Alike, Bounded, Lower, Trend, both, higher
from keyveil.lab.experiments.shape import Axis, Claim, Experiment

SERIES = (EVEN, ONE, TWO, PCKV)
LABELS = tuple(one.label for one in SERIES)

EXPERIMENT = Experiment(
    id="dong-fig4",
    title="Errors and fairness by how uneven frequencies are",
    people=(LINEAR,),
    axis=Axis("recipe", (0.01, 0.1, 0.5, 1, 2, 5, 10), "slope s of the frequencies", name="slope", log=True),
    epsilon="6",
    series=SERIES,
    measures=("mse_mean", "fairness"),
    claims=(
        Claim("The errors of means grow with the slope.", Trend(LABELS, "mse_mean", rising=True)),
        Claim(
            "Below a slope of 1 PCKV-GRR has smaller errors than Adaptive.",
            Lower(PCKV.label, LABELS[:3], "mse_mean", between=(0, 0.9)),
        ),
        Claim(
            "From a slope of 1 on errors with θ = 1 or 2 are comparable to PCKV-GRR's (within a factor of 2).",
            both(*(Alike(one.label, PCKV.label, "mse_mean", 1.0, between=(1, 10)) for one in (ONE, TWO))),
            because=SPLIT,
        ),
        Claim("θ = 0 has the largest error of means.", higher(EVEN.label, LABELS[1:], "mse_mean")),
        Claim("Fairness begins close to 1 (above 0.8).", Bounded(LABELS, "fairness", least=0.8, between=(0, 0.02))),
        Claim("Fairness falls with the slope.", Trend(LABELS, "fairness")),
        Claim(
            "With θ = 1 or 2 means are fairer than with PCKV-GRR.",
            both(*(higher(one.label, (PCKV.label,), "fairness") for one in (ONE, TWO))),
        ),
    ),
    quick_repeats=RUNS,
    full_repeats=400,
    note="The paper does not give the budget of this figure; ε = 6 is ours.",
)
