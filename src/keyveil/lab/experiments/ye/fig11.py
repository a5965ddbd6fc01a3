"""Ye et al. 2019, Fig. 11: total cost, errors and rounds together."""

from __future__ import annotations

from keyveil.lab.experiments.rules import Bounded, Lower, higher
from keyveil.lab.experiments.shape import Claim, Experiment, Series
from keyveil.lab.experiments.ye.common import BUDGETS, GAUSS, PLAW, ROUNDS

COSTS = "cost-0.2", "cost-0.02"
THREE = Series("PrivKVM, 3 rounds", "privkvm:rounds=3,estimator=published", measures=COSTS)
SIX = Series("PrivKVM, 6 rounds", "privkvm:rounds=6,estimator=published", measures=COSTS)
DEAR = Series("PrivKVM+ (0.2)", "privkvm-plus:decay=2,price=0.2,estimator=published", measures=("cost-0.2", "rounds"))
CHEAP = Series(
    "PrivKVM+ (0.02)", "privkvm-plus:decay=2,price=0.02,estimator=published", measures=("cost-0.02", "rounds")
)
STOPS = (
    "PrivKVM+ stops when means move by less than a round costs. As every further round has half of the budget that is "
    "left, what moves is mostly noise, so that at 0.02 a round it goes on until less than 0.01 is left to spend (a "
    "limit of ours). Errors are least after the first round already."
)

EXPERIMENT = Experiment(
    id="ye-fig11",
    title="Total cost: the error of means, and a price for every round",
    people=(GAUSS, PLAW),
    axis=BUDGETS,
    series=(THREE, SIX, DEAR, CHEAP),
    measures=("cost-0.2", "cost-0.02", "rounds"),
    claims=(
        Claim(
            "At 0.2 a round, six rounds cost more than three.",
            higher(SIX.label, (THREE.label,), "cost-0.2", everywhere=True),
        ),
        Claim(
            "At 0.02 a round, three rounds cost more than six.",
            higher(THREE.label, (SIX.label,), "cost-0.02"),
            because=ROUNDS,
        ),
        Claim(
            "PrivKVM+ always has the least cost at 0.2 a round.",
            Lower(DEAR.label, (THREE.label, SIX.label), "cost-0.2", everywhere=True),
            because=STOPS,
        ),
        Claim(
            "PrivKVM+ always has the least cost at 0.02 a round.",
            Lower(CHEAP.label, (THREE.label, SIX.label), "cost-0.02", everywhere=True),
            because=STOPS,
        ),
        Claim(
            "At 0.2 a round it stops after two or three.",
            Bounded((DEAR.label,), "rounds", most=3.5, least=1.5),
            because=STOPS,
        ),
        Claim(
            "At 0.02 a round it stops after four or five.",
            Bounded((CHEAP.label,), "rounds", most=5.5, least=3.5),
            because=STOPS,
        ),
    ),
    quick_people=20_000,
    quick_repeats=4,
    full_people=300_000,
    full_repeats=10,
    note="PrivKVM+ keeps a running remainder of its budget; as printed it spends more than ε (erratum A1).",
)
