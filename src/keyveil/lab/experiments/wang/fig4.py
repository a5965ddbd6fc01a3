"""Wang et al. 2020, Fig. 4: errors over the whole domain against the budget."""

from __future__ import annotations

from keyveil.lab.experiments.rules import Alike, Lower, Trend, both
from keyveil.lab.experiments.shape import Claim, Experiment
from keyveil.lab.experiments.wang.common import BUDGETS, EMOJI, METHODS, ONE_FORM, OTHER_EMOJI, ZIPF, but

EXPERIMENT = Experiment(
    id="wang-fig4",
    title="Errors of all frequencies, as the budget grows",
    people=(ZIPF, EMOJI),
    axis=BUDGETS,
    series=METHODS,
    measures=("mse_frequency",),
    claims=(
        Claim(
            "Base and Norm have nearly the same error.", Alike("Base", "Norm", "mse_frequency", 0.05, everywhere=True)
        ),
        Claim(
            "Base-Pos has about half of the error of Base.",
            both(
                Lower("Base-Pos", ("Base",), "mse_frequency", by=1.6),
                Lower("Base", ("Base-Pos",), "mse_frequency", by=1 / 2.5),
            ),
        ),
        Claim(
            "Norm-Sub lowers the error of Base about tenfold on Zipf's data (at least fivefold here).",
            Lower("Norm-Sub", ("Base",), "mse_frequency", by=5, people=("ZIPF",)),
        ),
        Claim(
            "Norm-Sub lowers the error of Base about a hundredfold on the emoji (at least fiftyfold here).",
            Lower("Norm-Sub", ("Base",), "mse_frequency", by=50, people=("Emoji",)),
            because=OTHER_EMOJI,
        ),
        Claim(
            "Norm-Sub and MLE-Apx are almost exactly the same.",
            Alike("Norm-Sub", "MLE-Apx", "mse_frequency", 0.1, everywhere=True),
        ),
        Claim(
            "The error of Norm-Mul falls more slowly with the budget than that of Base.",
            Trend(("Norm-Mul",), "mse_frequency", rising=True, against="Base"),
        ),
        Claim(
            "PowerNS has the least error of all methods.",
            Lower("PowerNS", but("PowerNS"), "mse_frequency"),
        ),
    ),
    forms=ONE_FORM,
    quick_people=10**6,
    quick_repeats=3,
    full_repeats=30,
)
