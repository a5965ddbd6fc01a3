"""Dong et al. 2023, Fig. 3: the exponent θ of the sampling."""

from __future__ import annotations

from keyveil.lab.experiments.dong.common import LINEAR, RUNS, adaptive
from keyveil.lab.experiments.rules import Dips, Flat
from keyveil.lab.experiments.shape import Axis, Claim, Experiment

ADAPTIVE = adaptive("{x}", label="Adaptive")

EXPERIMENT = Experiment(
    id="dong-fig3",
    title="Errors and fairness by the exponent θ of the sampling",
    people=(LINEAR,),
    axis=Axis("option", (0, 0.5, 1, 2, 3, 4, 6, 8, 12), "θ", quick=(0, 1, 2, 4, 8, 12)),
    epsilon="6",
    series=(ADAPTIVE,),
    measures=("mse_mean", "worst_mean", "best_mean", "fairness"),
    claims=(
        Claim("The average error of means first falls and then rises.", Dips(("Adaptive",), "mse_mean")),
        Claim("The largest error of a mean first falls and then rises.", Dips(("Adaptive",), "worst_mean")),
        Claim("The least error stays about the same (within a factor of 2).", Flat(("Adaptive",), "best_mean", 1.0)),
        Claim("Fairness first rises and then falls.", Dips(("Adaptive",), "fairness", peaks=True)),
    ),
    quick_repeats=RUNS,
    full_repeats=400,
    note="The paper does not give the budget of this figure; ε = 6 is ours.",
)
