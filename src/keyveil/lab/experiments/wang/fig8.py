"""Wang et al. 2020, Fig. 8: the categories of emoji."""

from __future__ import annotations

from keyveil.lab.experiments.rules import Lower
from keyveil.lab.experiments.shape import Claim, Experiment
from keyveil.lab.experiments.wang.common import BUDGETS, EMOJI, METHODS, ONE_FORM

EXPERIMENT = Experiment(
    id="wang-fig8",
    title="Errors of the categories of emoji",
    people=(EMOJI,),
    axis=BUDGETS,
    series=METHODS,
    measures=("fixed_sets",),
    claims=(
        Claim(
            "Post-Pos is best among Base, Base-Pos, Norm, Norm-Mul, Norm-Sub and itself.",
            Lower("Post-Pos", ("Base", "Base-Pos", "Norm", "Norm-Mul", "Norm-Sub"), "fixed_sets"),
            because="The paper's categories are not public. Ours have keys of neighbouring rank, so most are sums of "
            "rare keys alone, where it pays to know the sum of all.",
        ),
        Claim(
            "Norm-Cut is better still below ε = 3.",
            Lower("Norm-Cut", ("Post-Pos",), "fixed_sets", between=(0, 2.9)),
        ),
    ),
    forms=ONE_FORM,
    quick_people=500_000,
    quick_repeats=5,
    full_repeats=30,
    note="The paper's 68 categories are not public; here a category is ten or eleven keys of neighbouring rank.",
)
