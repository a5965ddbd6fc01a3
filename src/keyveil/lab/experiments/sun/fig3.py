"""Sun et al. 2019, Fig. 3: errors of means for rare and frequent keys with low and high means."""

from __future__ import annotations

from keyveil.lab.experiments.rules import Less, Lower, Spot, Trend, both, higher
from keyveil.lab.experiments.shape import Claim, Experiment
from keyveil.lab.experiments.sun.common import (
    ALL,
    FREQUENCIES,
    HIGH,
    KVUE,
    LOW,
    MIDDLE,
    PRIVKV,
    PRIVKV_A,
    PRIVKVM,
    PULLED,
    but,
)


def rises_with_mean(label: str) -> Less:
    """Errors at high means are smaller than at low ones, by a tenth at least."""
    return Less(Spot(label, "ae_mean", HIGH.title), Spot(label, "ae_mean", LOW.title), by=1.1)


EXPERIMENT = Experiment(
    id="sun-fig3",
    title="Errors of means, by frequency and mean",
    people=(LOW, MIDDLE, HIGH),
    axis=FREQUENCIES,
    series=ALL,
    measures=("ae_mean",),
    claims=(
        Claim(
            "PrivKV, PrivKV-A and PrivKVM are the more accurate the higher the means are (0.8 against -0.8).",
            both(*(rises_with_mean(one.label) for one in (PRIVKV, PRIVKV_A, PRIVKVM))),
            because="These mechanisms treat a value and its opposite alike, so that errors at -0.8 and 0.8 have the "
            "same law; ε is the same, and no frequency depends on the sign.",
        ),
        Claim("KVUE has the least error.", Lower("KVUE", but(KVUE), "ae_mean", everywhere=True), because=PULLED),
        Claim("PrivKVM has the largest error.", higher(PRIVKVM.label, but(PRIVKVM), "ae_mean")),
        Claim("Errors fall as frequencies rise.", Trend(but(PRIVKVM), "ae_mean")),
    ),
    quick_people=30_000,
    quick_repeats=4,
    full_repeats=50,
    note="Values are uniform about the mean; the paper draws them from a normal law with a spread it does not give. "
    "Nor does it give the budget; ε = 1 is ours.",
)
