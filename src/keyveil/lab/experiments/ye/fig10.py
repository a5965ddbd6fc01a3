"""Ye et al. 2019, Fig. 10: the same as Fig. 9 for the two rivals."""

from __future__ import annotations

from keyveil.lab.experiments.rules import Flat, Lower, Trend
from keyveil.lab.experiments.shape import Axis, Claim, Experiment, Series
from keyveil.lab.experiments.ye.common import PLAW, ROUNDS

EPSILONS = "0.5", "1.6", "6.4"
KINDS = {
    "PrivKVM": "privkvm:rounds={x},estimator=published",
    "PrivKVM-Harmony": "privkvm-harmony:rounds={x},estimator=published",
    "PrivKVM-MeanEst": "privkvm-meanest:rounds={x}",
}
LINES = {(kind, one): Series(f"{kind}, ε = {one}", who, epsilon=one) for kind, who in KINDS.items() for one in EPSILONS}


def lines(kind: str) -> tuple[str, ...]:
    return tuple(LINES[kind, one].label for one in EPSILONS)


def beats(epsilon: str) -> Lower:
    rivals = tuple(LINES[kind, epsilon].label for kind in list(KINDS)[1:])
    return Lower(LINES["PrivKVM", epsilon].label, rivals, "mse_mean")


EXPERIMENT = Experiment(
    id="ye-fig10",
    title="Errors of means of the two rivals as rounds become more",
    people=(PLAW,),
    axis=Axis("option", (1, 2, 3, 4, 6, 8, 10), "rounds", quick=(1, 3, 10)),
    series=tuple(LINES.values()),
    measures=("mse_mean",),
    claims=(
        Claim(
            "The errors of PrivKVM-Harmony fall with the rounds.",
            Trend(lines("PrivKVM-Harmony"), "mse_mean"),
            because=ROUNDS,
        ),
        Claim(
            "Those of PrivKVM-MeanEst stay almost flat (within a factor of 2).",
            Flat(lines("PrivKVM-MeanEst"), "mse_mean", 1.0),
            because=ROUNDS,
        ),
        Claim("PrivKVM has smaller errors than both at the small budget 0.5.", beats("0.5")),
        Claim("PrivKVM has smaller errors than both at the medium budget 1.6.", beats("1.6")),
    ),
    quick_people=20_000,
    quick_repeats=4,
    full_people=300_000,
    full_repeats=10,
)
