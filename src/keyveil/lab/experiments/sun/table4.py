"""Sun et al. 2019, Table IV: bits of a report."""

from __future__ import annotations

from keyveil.lab.experiments.rules import Alike, higher
from keyveil.lab.experiments.shape import PUBLISHED, Claim, Experiment
from keyveil.lab.experiments.sun.common import F2M, KVOH, KVUE, PRIVKV, UNIFORM

EXPERIMENT = Experiment(
    id="sun-table4",
    title="Bits of a report",
    people=(UNIFORM,),
    series=(PRIVKV, F2M, KVUE, KVOH),
    measures=("bits",),
    claims=(
        Claim("PrivKV and KVUE cost the same.", Alike("PrivKV", "KVUE", "bits", 0.01)),
        Claim(
            "F2M costs 2·log₂ d bits, 1.6 times as much as KVUE with 100 keys.",
            higher("F2M", ("KVUE",), "bits", by=1.5),
            because="The bits of a key and of its symbol add up; the table multiplies them (erratum B8).",
        ),
        Claim("KVOH costs more than any other.", higher("KVOH", ("PrivKV", "F2M", "KVUE"), "bits")),
    ),
    forms=(PUBLISHED,),
    quick_people=2000,
    quick_repeats=1,
    full_people=2000,
    full_repeats=1,
    note="The table multiplies where bits add up: F2M takes log₂ d + 2 and KVOH log₂ d + 3 (erratum B8). Which key "
    "is asked about follows from the public id of a report and is not sent, so log₂ d is saved.",
)
