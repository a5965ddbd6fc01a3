"""Sun et al. 2019, Fig. 1: errors against the budget."""

from __future__ import annotations

from keyveil.lab.experiments.rules import Bounded, Less, Lower, Spot, both, higher
from keyveil.lab.experiments.shape import Claim, Experiment
from keyveil.lab.experiments.sun.common import ALL, BUDGETS, GAUSSIAN, KVUE, MOVIES, PRIVKVM, PULLED, UNIFORM, but

EXPERIMENT = Experiment(
    id="sun-fig1",
    title="Errors as the budget grows",
    people=(UNIFORM, GAUSSIAN, MOVIES),
    axis=BUDGETS,
    series=ALL,
    measures=("ae_frequency", "ae_mean"),
    claims=(
        Claim("KVUE has the least error of frequencies.", Lower("KVUE", but(KVUE), "ae_frequency", everywhere=True)),
        Claim("KVUE in general has the least error of means.", Lower("KVUE", but(KVUE), "ae_mean"), because=PULLED),
        Claim(
            "Beyond ε = 0.4 all but PrivKVM have errors of frequencies below 0.05.",
            Bounded(but(PRIVKVM), "ae_frequency", most=0.05, between=(0.5, 10)),
            because="With 100 keys a thousand people speak about each, which at ε = 0.8 leaves all but KVUE with more "
            "noise than that; KVOH as published, which does not use that its three counts add up, has most "
            "(erratum B10).",
        ),
        Claim("PrivKVM has the largest error of means.", higher(PRIVKVM.label, but(PRIVKVM), "ae_mean")),
        Claim(
            "Every mechanism errs more on means than on frequencies.",
            both(*(Less(Spot(one.label, "ae_frequency"), Spot(one.label, "ae_mean")) for one in ALL)),
        ),
    ),
    quick_people=100_000,
    quick_repeats=3,
    full_repeats=50,
)
