"""What readers of all results must know of each paper, whatever its results are: how it was run here, and with whom."""

from __future__ import annotations

import re
from collections.abc import Mapping

from keyveil.lab.experiments.shape import PAPERS

ABOUT: Mapping[str, str] = {
    PAPERS["ye"]: """PrivKVM and its rivals run with one real and five virtual rounds where the paper does not say
otherwise, with its split of the budget and its estimator of means, which pulls them towards the fake mean (errata A4,
A5). Baselines whose people keep silent where they lack a key have no finite ε (erratum A2); here they say so in a
symbol of their own. Estimated means of everybody are cut to [-1, 1] before they are compared.""",
    PAPERS["sun"]: """Two of the six, KVUE and KVOH, spend exactly ε however they are run; PrivKV and F2M spend less
than they ask for, and ask for more in the exact forms. The text does not give the budgets of Fig. 2 to 7.""",
    PAPERS["li"]: """KV-SW and PCKV run without an overflow group, so that what somebody holds beyond the padding length
is lost as in the paper (erratum D11). PrivKVM* is reconstructed from what Li et al. and others say of it, and its
budgets are ours. The paper compares a mechanism with consistency against others without; the claims that speak of the
same consistency for both are our own question.""",
    PAPERS["dong"]: """Everybody holds five of twenty keys; every run draws new people and new means, since of one draw
of twenty the rarest two or three would decide more than the mechanism does. The budgets of Fig. 2 to 4 are not in the
paper. PCKV-GRR runs with the split that Dong et al. give it (erratum E8), and in the tight form with the tight one.""",
    PAPERS["wang"]: """All methods see the same reports of OLH, which spends exactly ε, so that there is one form only
and methods are compared run by run. OLH has the probabilities that its own paper meant (erratum C1).""",
}

_ERRATA = re.compile(r"(errat(?:um|a) [A-F]\d+(?:, [A-F]\d+)*)")


def linked(text: str) -> str:
    """Markdown in which every mention of an erratum leads to the page of errata."""
    return _ERRATA.sub(r"[\1](errata.md)", " ".join(text.split()))
