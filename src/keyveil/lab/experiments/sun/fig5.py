"""Sun et al. 2019, Fig. 5: the default value of F2M."""

from __future__ import annotations

from keyveil.lab.experiments.rules import Flat
from keyveil.lab.experiments.shape import Axis, Claim, Experiment, budgets
from keyveil.lab.experiments.sun.common import GAUSSIAN, UNIFORM

SERIES = budgets("f2m:default={x}", ("0.5", "1", "2", "4"))

EXPERIMENT = Experiment(
    id="sun-fig5",
    title="Errors of means of F2M with other default values",
    people=(UNIFORM, GAUSSIAN),
    axis=Axis("option", (-1, -0.5, 0, 0.5, 1), "default value"),
    series=SERIES,
    measures=("ae_mean",),
    claims=(
        Claim(
            "The default value does not matter: errors of means stay within 15 %.",
            Flat(tuple(one.label for one in SERIES), "ae_mean", 0.15),
        ),
    ),
    quick_people=50_000,
    quick_repeats=8,
    full_repeats=50,
)
