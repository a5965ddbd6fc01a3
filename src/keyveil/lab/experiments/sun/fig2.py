"""Sun et al. 2019, Fig. 2: errors of frequencies for rare and frequent keys with low and high means."""

from __future__ import annotations

from keyveil.lab.experiments.rules import Flat, Lower, higher
from keyveil.lab.experiments.shape import Claim, Experiment
from keyveil.lab.experiments.sun.common import ALL, FREQUENCIES, HIGH, KVUE, LOW, MIDDLE, PRIVKVM, but

EXPERIMENT = Experiment(
    id="sun-fig2",
    title="Errors of frequencies, by frequency and mean",
    people=(LOW, MIDDLE, HIGH),
    axis=FREQUENCIES,
    series=ALL,
    measures=("ae_frequency",),
    claims=(
        Claim(
            "Errors of frequencies do not depend on the frequency (within 30 %).",
            Flat(but(), "ae_frequency", 0.3),
        ),
        Claim("KVUE has the least error.", Lower("KVUE", but(KVUE), "ae_frequency", everywhere=True)),
        Claim(
            "PrivKVM has the largest error.",
            higher(PRIVKVM.label, but(PRIVKVM), "ae_frequency"),
            because="Its frequencies come from the first round, which has half of the budget for them; KVOH as "
            "published errs more, since it does not use that its three counts add up (erratum B10).",
        ),
    ),
    quick_people=30_000,
    quick_repeats=4,
    full_repeats=50,
    note="Values are uniform about the mean; the paper draws them from a normal law with a spread it does not give. "
    "Nor does it give the budget; ε = 1 is ours.",
)
