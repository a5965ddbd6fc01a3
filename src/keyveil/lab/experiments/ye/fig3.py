"""Ye et al. 2019, Fig. 3: the error of means against the budget."""

from __future__ import annotations

from keyveil.lab.experiments.rules import Less, Lower, Spot, Trend, both
from keyveil.lab.experiments.shape import Claim, Experiment
from keyveil.lab.experiments.ye.common import (
    BUDGETS,
    GAUSS,
    HARMONY,
    JDATA,
    LNR,
    MEANEST,
    NO_OUTLIERS,
    PLAW,
    PRIVKVM,
    TALKING,
)

RIVALS = HARMONY.label, MEANEST.label
SPARSE = "TalkingData", "JData"

EXPERIMENT = Experiment(
    id="ye-fig3",
    title="Errors of means as the budget grows",
    people=(GAUSS, PLAW, LNR, TALKING, JDATA),
    axis=BUDGETS,
    series=(PRIVKVM, HARMONY, MEANEST),
    measures=("mse_mean",),
    claims=(
        Claim(
            "PrivKVM has smaller errors of means than PrivKVM-Harmony.",
            Lower("PrivKVM", RIVALS[:1], "mse_mean"),
            because=NO_OUTLIERS,
        ),
        Claim("PrivKVM has smaller errors of means than PrivKVM-MeanEst.", Lower("PrivKVM", RIVALS[1:], "mse_mean")),
        Claim(
            "Its lead over both is largest at small budgets.",
            both(*(Trend(("PrivKVM",), "mse_mean", rising=True, against=rival) for rival in RIVALS)),
            because="At small budgets everybody's means are noise that is cut to [-1, 1], so all err alike; the lead "
            "over PrivKVM-MeanEst comes with the budget.",
        ),
        Claim(
            "It leads on sparse data, too.",
            Lower("PrivKVM", RIVALS, "mse_mean", people=SPARSE),
            because="Most keys of sparse data have so few reports that everybody's means are noise, cut to [-1, 1]; "
            "PrivKVM-MeanEst, whose noise is least where a person reports about all keys at once, then errs less by a "
            "few percent.",
        ),
        Claim(
            "Errors on GAUSS and PLAW are smaller than on LNR and on the sparse data.",
            both(
                *(
                    Less(Spot("PrivKVM", "mse_mean", dense), Spot("PrivKVM", "mse_mean", other))
                    for dense in ("GAUSS", "PLAW")
                    for other in ("LNR", *SPARSE)
                )
            ),
        ),
    ),
    quick_people=20_000,
    quick_repeats=5,
    full_repeats=20,
    note="AppData, which its owner keeps, is left out here. Everybody's means are cut to [-1, 1] before they are "
    "compared, in all figures.",
)
