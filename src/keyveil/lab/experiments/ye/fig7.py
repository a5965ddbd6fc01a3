"""Ye et al. 2019, Fig. 7: is the relation of frequency and mean kept?"""

from __future__ import annotations

from keyveil.lab.experiments.rules import Bounded, Lower, Trend
from keyveil.lab.experiments.shape import Claim, Experiment, Series
from keyveil.lab.experiments.ye.common import BUDGETS, LNR, PLAW, PRIVKVM

APART = Series("k-RR & Harmony", "krr-harmony")

EXPERIMENT = Experiment(
    id="ye-fig7",
    title="Pearson's correlation of frequency and mean over keys",
    people=(PLAW, LNR),
    axis=BUDGETS,
    series=(Series("real data", measures=("correlation",)), PRIVKVM, APART),
    measures=("correlation",),
    judged=("correlation_gap",),
    claims=(
        Claim(
            "The correlation that PrivKVM shows comes closer to the real one as the budget grows.",
            Trend(("PrivKVM",), "correlation_gap"),
        ),
        Claim(
            "That of k-RR & Harmony is always close to zero (within 0.3).",
            Bounded((APART.label,), "correlation", most=0.3, least=-0.3),
            because="Most people whose report names a key lack it, so means are pulled to where theirs are, alike for "
            "all keys. A correlation does not see this pull: a million people at a large budget show the order of the "
            "means, far off as these are (Fig. 8).",
        ),
        Claim(
            "PrivKVM shows it better than k-RR & Harmony.",
            Lower("PrivKVM", (APART.label,), "correlation_gap", linear=True),
        ),
    ),
    quick_people=30_000,
    quick_repeats=8,
    full_repeats=20,
    note="The paper does not say over what it correlates; here it is over keys (docs/theory.md, metrics).",
)
