"""Dong et al. 2023, Fig. 2: how the second phase shares its budget between key and value."""

from __future__ import annotations

from keyveil.lab.experiments.dong.common import LINEAR, RUNS, adaptive
from keyveil.lab.experiments.rules import Dips, Lower, Trend, both, higher
from keyveil.lab.experiments.shape import Axis, Claim, Experiment

ONE = adaptive("1", ",key_to_value={x}")
TWO = adaptive("2", ",key_to_value={x}")
HALF = adaptive("2", ",key_to_value=1", "θ = 2, equal budgets")
LABELS = ONE.label, TWO.label

EXPERIMENT = Experiment(
    id="dong-fig2",
    title="Errors and fairness by the ratio of the key's budget to the value's",
    people=(LINEAR,),
    axis=Axis("option", (1 / 32, 1 / 16, 0.125, 0.25, 0.5, 1, 2, 4), "ε₂ / ε₃", log=True),
    epsilon="6",
    series=(ONE, TWO, HALF),
    measures=("mse_mean", "fairness"),
    claims=(
        Claim("The error of means first falls and then rises.", Dips(LABELS, "mse_mean")),
        Claim("Beyond a ratio of 1 fairness falls.", Trend(LABELS, "fairness", between=(1, 4))),
        Claim(
            "A ratio of 1 is a good choice: no other errs less by a tenth, and it is fairer than a ratio of 4.",
            both(
                Lower(HALF.label, (TWO.label,), "mse_mean", by=1 / 1.1, each=True),
                higher(HALF.label, (TWO.label,), "fairness", between=(4, 4)),
            ),
        ),
    ),
    quick_repeats=RUNS,
    full_repeats=400,
    note="The paper does not give the budget of this figure; ε = 6 is ours.",
)
