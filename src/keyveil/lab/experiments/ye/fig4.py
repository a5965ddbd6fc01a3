"""Ye et al. 2019, Fig. 4: relative errors of frequencies at small budgets."""

from __future__ import annotations

from keyveil.lab.experiments.rules import Lower
from keyveil.lab.experiments.shape import Axis, Claim, Experiment
from keyveil.lab.experiments.ye.common import APPS, KRR, PLAW, PRIVKVM, RAPPOR, SHIST

RIVALS = KRR.label, SHIST.label, RAPPOR.label

EXPERIMENT = Experiment(
    id="ye-fig4",
    title="Relative errors of frequencies at small budgets",
    people=(PLAW, APPS),
    axis=Axis("epsilon", (0.1, 0.2, 0.4, 0.8), "privacy budget ε", log=True, quick=(0.1, 0.8)),
    series=(PRIVKVM, KRR, SHIST, RAPPOR),
    measures=("re_frequency", "re_top"),
    claims=(
        Claim(
            "On PLAW PrivKVM has smaller relative errors than k-RR, SHist and RAPPOR, at every budget.",
            Lower("PrivKVM", RIVALS, "re_frequency", people=("PLAW",), everywhere=True),
        ),
        Claim(
            "On AppData PrivKVM has smaller relative errors for the 100 most frequent keys, at every budget.",
            Lower("PrivKVM", RIVALS, "re_top", people=("AppData",), everywhere=True),
            because="A person is asked about one of 1,134 keys that one in a thousand holds, so nobody sees anything: "
            "errors are many times the truth, and who answers 0 for all errs by no more than all of it, as RAPPOR's "
            "regression does.",
        ),
    ),
    quick_people=50_000,
    quick_repeats=6,
    full_repeats=20,
    note="The median over keys stands for the paper's five percentiles, which it does not define (erratum A14).",
)
