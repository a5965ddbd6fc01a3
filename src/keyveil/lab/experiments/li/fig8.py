"""Li et al. 2022, Fig. 8: W₁ of values."""

from __future__ import annotations

from keyveil.lab.experiments.li.common import BLIND, BUDGETS, KVSW, NOTE, PEOPLE, STAR
from keyveil.lab.experiments.rules import Bounded, Less, Lower, Spot, both
from keyveil.lab.experiments.shape import Claim, Experiment

EXPERIMENT = Experiment(
    id="li-fig8",
    title="How far the distributions of values are off",
    people=PEOPLE,
    axis=BUDGETS,
    series=(KVSW, STAR),
    measures=("wasserstein",),
    claims=(
        Claim(
            "KV-SW is closer to the truth than PrivKVM*.",
            Lower("KV-SW", (STAR.label,), "wasserstein"),
            because=BLIND,
        ),
        Claim(
            "Its largest distance is about 0.1 on [0, 1], that is 0.2 on [-1, 1].",
            Bounded(("KV-SW",), "wasserstein", most=0.2),
            because=BLIND,
        ),
        Claim(
            "Movies, with the longest padding, is the hardest.",
            both(
                *(
                    Less(Spot("KV-SW", "wasserstein", other), Spot("KV-SW", "wasserstein", "Movies"))
                    for other in ("E-commerce", "Clothing")
                )
            ),
        ),
    ),
    quick_people=20_000,
    quick_repeats=3,
    note=NOTE,
)
