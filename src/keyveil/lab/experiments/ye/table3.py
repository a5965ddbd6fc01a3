"""Ye et al. 2019, Table III: the statistics of the synthetic data."""

from __future__ import annotations

from keyveil.lab.experiments.rules import Both, Bounded, both
from keyveil.lab.experiments.shape import PUBLISHED, Claim, Experiment, Series
from keyveil.lab.experiments.ye.common import GAUSS, LNR, PLAW

TRUTH = Series("people of the recipe")


def has(people: str, tolerance: float, **published: float) -> Both:
    """Every statistic is that of the table within a tolerance."""
    rules = (
        Bounded((TRUTH.label,), name, most=value + tolerance, least=value - tolerance, people=(people,))
        for name, value in published.items()
    )
    return both(*rules)


EXPERIMENT = Experiment(
    id="ye-table3",
    title="Frequencies and means of the synthetic data",
    people=(GAUSS, PLAW, LNR),
    series=(TRUTH,),
    measures=("mean_f", "var_f", "mean_m", "var_m"),
    claims=(
        Claim(
            "GAUSS: frequencies average 0.3000 (variance 0.0401), means 0.0207 (0.3080), within 0.003.",
            has("GAUSS", 0.003, mean_f=0.3, var_f=0.0401, mean_m=0.0207, var_m=0.308),
        ),
        Claim(
            "PLAW: frequencies average 0.1384 (variance 0.0167), means -0.0723 (0.0656), within 0.003.",
            has("PLAW", 0.003, mean_f=0.1384, var_f=0.0167, mean_m=-0.0723, var_m=0.0656),
        ),
        Claim(
            "LNR: frequencies average 0.4003 (variance 0.0005), means 0.0010 (0.3330), within 0.003.",
            has("LNR", 0.003, mean_f=0.4003, var_f=0.0005, mean_m=0.001, var_m=0.333),
        ),
    ),
    forms=(PUBLISHED,),
    quick_people=20_000,
    full_repeats=1,
    linear=True,
    note="AppData, TalkingData and JData are not to be had; other figures use synthetic people in their place.",
)
