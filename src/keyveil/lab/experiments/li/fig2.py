"""Li et al. 2022, Fig. 2: what a key and a value spend together, against the plain sum."""

from __future__ import annotations

from keyveil.lab.experiments.rules import Lower, both
from keyveil.lab.experiments.shape import PUBLISHED, Axis, Claim, Experiment, People, Series

EXPERIMENT = Experiment(
    id="li-fig2",
    title="The total budget of a key and a value with equal budgets",
    people=(People("linear-s", label="formulas"),),
    axis=Axis("option", (0.25, 0.5, 1, 1.5, 2, 2.5, 3, 4, 5), "budget of the key, and of the value"),
    series=(
        Series("sum of the two", formula="sequential"),
        Series("KV-SW", formula="kv-sw"),
        Series("PCKV-UE", formula="pckv-ue"),
        Series("PCKV-GRR, ℓ = 1", formula="pckv-grr-1"),
        Series("PCKV-GRR, ℓ = 5", formula="pckv-grr-5"),
    ),
    measures=("total",),
    claims=(
        Claim(
            "KV-SW spends less than the sum of its two budgets, whatever they are.",
            Lower("KV-SW", ("sum of the two",), "total", everywhere=True),
        ),
        Claim(
            "PCKV spends less than KV-SW, even without sampling (ℓ = 1).",
            both(*(Lower(one, ("KV-SW",), "total", everywhere=True) for one in ("PCKV-UE", "PCKV-GRR, ℓ = 1"))),
        ),
        Claim(
            "PCKV-GRR spends less the more places are sampled from.",
            Lower("PCKV-GRR, ℓ = 5", ("PCKV-GRR, ℓ = 1",), "total", everywhere=True),
        ),
    ),
    forms=(PUBLISHED,),
    linear=True,
)
