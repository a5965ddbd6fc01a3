"""Wang et al. 2020, Fig. 6: sums over random sets with 10 to 90 % of the values."""

from __future__ import annotations

from keyveil.lab.experiments.rules import Dips, Lower, both, higher
from keyveil.lab.experiments.shape import Axis, Claim, Experiment
from keyveil.lab.experiments.wang.common import EMOJI, FREE, METHODS, ONE_FORM, SUMMING, ZIPF, but

EXPERIMENT = Experiment(
    id="wang-fig6",
    title="Errors of sums over large random sets",
    people=(ZIPF, EMOJI),
    axis=Axis("points", (10, 20, 30, 40, 50, 60, 70, 80, 90), "values in a set, in %"),
    series=METHODS,
    measures=("sets",),
    claims=(
        Claim(
            "Methods that know the sum do better than those that do not, from half of the values on.",
            both(*(Lower(one, FREE, "sets", between=(50, 90), everywhere=True) for one in SUMMING)),
            because="Norm-Mul takes so much from the frequent values that it loses more on sets with them than it "
            "gains by the sum.",
        ),
        Claim(
            "The errors of methods that know the sum are symmetric: largest about half of the values.",
            Dips(SUMMING, "sets", peaks=True),
        ),
        Claim(
            "At 90 % PowerNS beats every method that does not know the sum a hundredfold.",
            Lower("PowerNS", FREE, "sets", by=100, between=(90, 90), everywhere=True),
        ),
        Claim("Base-Pos has the largest errors of all.", higher("Base-Pos", but("Base-Pos"), "sets")),
        Claim("Post-Pos has smaller errors than Base.", Lower("Post-Pos", ("Base",), "sets")),
        Claim(
            "Base-Cut has smaller errors than Base.",
            Lower("Base-Cut", ("Base",), "sets"),
            because="What Base-Cut takes from values below its threshold is missing in every sum, and the more values "
            "are summed, the more is missing; it helps only where the noise is larger than that.",
        ),
        Claim("PowerNS has the least error of all.", Lower("PowerNS", but("PowerNS"), "sets")),
    ),
    forms=ONE_FORM,
    quick_people=500_000,
    quick_repeats=8,
    full_repeats=30,
)
