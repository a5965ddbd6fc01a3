"""Wang et al. 2020, Fig. 9: a method that is chosen on synthetic people."""

from __future__ import annotations

from keyveil.lab.experiments.choice import AMONG, CHOSEN
from keyveil.lab.experiments.rules import Bounded, Lower
from keyveil.lab.experiments.shape import Axis, Claim, Experiment, Series
from keyveil.lab.experiments.wang.common import EMOJI, METHODS, NAMES, ONE_FORM

PICKED = "chosen on people made by Norm-Sub"
RIVALS = tuple(one for one in METHODS if one.decoder in AMONG)

EXPERIMENT = Experiment(
    id="wang-fig9",
    title="Is the method that is chosen on synthetic people the best for the categories?",
    people=(EMOJI,),
    axis=Axis("epsilon", (0.2, 0.6, 1, 2, 3, 4), "privacy budget ε", quick=(0.2, 1, 4)),
    series=(
        *(Series(one.label, one.who, one.decoder, measures=("fixed_sets",), exact=True) for one in RIVALS),
        Series(PICKED, "olh", CHOSEN, measures=("fixed_sets",), exact=True),
        Series("chosen on people made by PowerNS", "olh", measures=("picks_itself",), exact=True),
    ),
    measures=("fixed_sets",),
    claims=(
        Claim(
            "Chosen on people made by Norm-Sub, the method errs at most a quarter more than the best of all.",
            Lower(PICKED, tuple(NAMES[name] for name in AMONG), "fixed_sets", by=0.8, everywhere=True),
        ),
        Claim(
            "On people made by PowerNS, PowerNS chooses itself (more often than not).",
            Bounded(("chosen on people made by PowerNS",), "picks_itself", least=0.5),
        ),
    ),
    forms=ONE_FORM,
    quick_people=300_000,
    quick_repeats=4,
    full_repeats=30,
)
