"""Sun et al. 2019, Fig. 7: two-way conditional means."""

from __future__ import annotations

from keyveil.lab.experiments.rules import Less, Spot, Trend, both, falling
from keyveil.lab.experiments.shape import Axis, Claim, Experiment, People, budgets

PEOPLE = People("grid", label="low means, frequency 0.8", n=10**5, options=(("frequency", 0.8), ("mean", -0.8)))
SERIES = budgets("ioh:oracle=sue", ("0.5", "1", "2", "5"))
LINES = tuple(one.label for one in SERIES)

EXPERIMENT = Experiment(
    id="sun-fig7",
    title="Errors of two-way conditional means",
    people=(PEOPLE,),
    axis=Axis("keys", (2, 4, 6, 8), "keys", quick=(2, 4, 6)),
    series=SERIES,
    measures=("conditional_mean",),
    judged=("conditional_frequency",),
    claims=(
        Claim("Errors grow with the number of keys.", Trend(LINES, "conditional_mean", rising=True)),
        Claim("Errors fall as the budget grows.", falling(LINES, "conditional_mean")),
        Claim(
            "Conditional frequencies err less than conditional means.",
            both(*(Less(Spot(one, "conditional_frequency"), Spot(one, "conditional_mean")) for one in LINES)),
        ),
    ),
    quick_people=20_000,
    quick_repeats=6,
    full_repeats=20,
    note="Twelve ordered pairs of keys are asked about, or all where there are fewer. Quick runs stop at six keys. "
    "The paper does not give the budgets, and asks a million people besides.",
)
