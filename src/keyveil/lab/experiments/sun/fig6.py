"""Sun et al. 2019, Fig. 6: two-way conditional frequencies."""

from __future__ import annotations

from keyveil.lab.experiments.rules import Trend, falling
from keyveil.lab.experiments.shape import Axis, Claim, Experiment, People, budgets

PEOPLE = People("grid", label="low means, frequency 0.8", n=10**5, options=(("frequency", 0.8), ("mean", -0.8)))
SERIES = budgets("ioh:oracle=sue", ("0.5", "1", "2", "5"))
LINES = tuple(one.label for one in SERIES)

EXPERIMENT = Experiment(
    id="sun-fig6",
    title="Errors of two-way conditional frequencies",
    people=(PEOPLE,),
    axis=Axis("keys", (2, 4, 6, 8), "keys", quick=(2, 4, 6)),
    series=SERIES,
    measures=("conditional_frequency",),
    claims=(
        Claim("Errors grow with the number of keys.", Trend(LINES, "conditional_frequency", rising=True)),
        Claim("Errors fall as the budget grows.", falling(LINES, "conditional_frequency")),
    ),
    quick_people=20_000,
    quick_repeats=6,
    full_repeats=20,
    note="Twelve ordered pairs of keys are asked about, or all where there are fewer. Quick runs stop at six keys. "
    "The paper does not give the budgets, and asks a million people besides.",
)
