"""Dong et al. 2023, Fig. 1: errors and fairness against the budget."""

from __future__ import annotations

from keyveil.lab.experiments.dong.common import EVEN, LINEAR, ONE, PCKV, RUNS, SPLIT, TWO
from keyveil.lab.experiments.rules import Alike, Dips, Lower, Trend, both, higher
from keyveil.lab.experiments.shape import Axis, Claim, Experiment

SERIES = (EVEN, ONE, TWO, PCKV)
LABELS = tuple(one.label for one in SERIES)

EXPERIMENT = Experiment(
    id="dong-fig1",
    title="Errors and fairness as the budget grows",
    people=(LINEAR,),
    axis=Axis("epsilon", (2, 4, 6, 8, 10, 12, 14, 16), "privacy budget ε", quick=(2, 4, 6, 8, 12, 16)),
    series=SERIES,
    measures=("mse_frequency", "mse_mean", "fairness"),
    claims=(
        Claim(
            "All have the same error of frequencies (within 20 %).",
            both(*(Alike(one.label, PCKV.label, "mse_frequency", 0.2) for one in (EVEN, ONE, TWO))),
            because=SPLIT,
        ),
        Claim("The errors of means fall as the budget grows.", Trend(LABELS, "mse_mean")),
        Claim(
            "With θ = 1 or 2 the error of means is comparable to that of PCKV-GRR (within a factor of 2).",
            both(*(Alike(one.label, PCKV.label, "mse_mean", 1.0) for one in (ONE, TWO))),
            because=SPLIT,
        ),
        Claim(
            "At large budgets (above 12) it is smaller.",
            both(*(Lower(one.label, (PCKV.label,), "mse_mean", between=(12.5, 20)) for one in (ONE, TWO))),
            because=SPLIT,
        ),
        Claim("θ = 0 has the largest error of means.", higher(EVEN.label, LABELS[1:], "mse_mean")),
        Claim(
            "With θ = 1 or 2 means are fairer than with PCKV-GRR.",
            both(*(higher(one.label, (PCKV.label,), "fairness") for one in (ONE, TWO))),
        ),
        Claim("Fairness first falls and then rises with the budget.", Dips(LABELS, "fairness", between=(2, 16))),
    ),
    quick_repeats=RUNS,
    full_repeats=400,
    note="The paper's picture of samples per key (d) is left out: reports do not tell which key was sampled.",
)
