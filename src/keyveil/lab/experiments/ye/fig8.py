"""Ye et al. 2019, Fig. 8: estimated means across keys."""

from __future__ import annotations

from keyveil.lab.experiments.rules import Bounded, Less, Lower, Spot, both
from keyveil.lab.experiments.shape import Axis, Claim, Experiment, Series
from keyveil.lab.experiments.ye.common import GAUSS, PRIVKVM

EPSILONS = "0.4", "1.6", "6.4"
OURS = tuple(Series(f"PrivKVM, ε = {one}", PRIVKVM.who, epsilon=one) for one in EPSILONS)
APART = tuple(Series(f"k-RR & Harmony, ε = {one}", "krr-harmony", epsilon=one) for one in EPSILONS)

EXPERIMENT = Experiment(
    id="ye-fig8",
    title="Estimated means across keys",
    people=(GAUSS,),
    axis=Axis("points", (1, 10, 20, 30, 40, 45, 50, 55, 60, 70, 80, 90, 100), "key"),
    series=(Series("real data", measures=("key_mean",)), *OURS, *APART),
    measures=("key_mean",),
    judged=("mse_mean", "mse_mean_top"),
    claims=(
        Claim(
            "The means of PrivKVM follow the real ones (ε = 6.4: squared error below 0.1), and better than those of "
            "k-RR & Harmony.",
            both(
                Lower(OURS[-1].label, (APART[-1].label,), "mse_mean"),
                Bounded((OURS[-1].label,), "mse_mean", most=0.1),
            ),
        ),
        Claim(
            "They are better for frequent keys than for the others.",
            Less(Spot(OURS[-1].label, "mse_mean_top"), Spot(OURS[-1].label, "mse_mean")),
        ),
        Claim(
            "Those of k-RR & Harmony do not follow the real ones at any budget: at least twice the error of PrivKVM.",
            both(*(Lower(one.label, (two.label,), "mse_mean", by=2) for one, two in zip(OURS, APART, strict=True))),
            because="At small budgets noise outweighs the bias of k-RR & Harmony, and both miss the means alike.",
        ),
    ),
    quick_people=50_000,
    quick_repeats=5,
    full_repeats=20,
    linear=True,
)
