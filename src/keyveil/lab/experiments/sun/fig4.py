"""Sun et al. 2019, Fig. 4: errors on data whose values are uniform."""

from __future__ import annotations

from keyveil.lab.experiments.rules import Flat, Trend
from keyveil.lab.experiments.shape import Claim, Experiment
from keyveil.lab.experiments.sun.common import ALL, FREQUENCIES, HIGH, LOW, MIDDLE, PRIVKVM, but

EXPERIMENT = Experiment(
    id="sun-fig4",
    title="Errors on uniform values",
    people=(LOW, MIDDLE, HIGH),
    axis=FREQUENCIES,
    epsilon="2",
    series=ALL,
    measures=("ae_frequency", "ae_mean"),
    claims=(
        Claim(
            "Errors of frequencies do not depend much on the frequency (within a factor of 2).",
            Flat(but(), "ae_frequency", 1.0),
        ),
        Claim("Errors of means fall as frequencies rise.", Trend(but(PRIVKVM), "ae_mean")),
    ),
    quick_people=30_000,
    quick_repeats=4,
    full_repeats=50,
    note="The paper does not give the budget; ε = 2 is ours.",
)
