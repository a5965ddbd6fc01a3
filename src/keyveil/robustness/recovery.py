"""What is left of frequencies after an attack: two ways, each a choice of the analyst and never the default.

*constrained*: without any knowledge of the attack, the closest frequencies that are not negative and add up to what
people can hold. It takes back what an attack adds in all, not what it moves from one key to another.

*removal*: reports that support a number of keys which noise does not explain are left out, and the frequencies come
from the others, whose law given that they were not left out is known. It needs a sketch (``robustness.detection``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from keyveil.core.errors import MechanismError
from keyveil.core.estimates import Estimates
from keyveil.core.tally import Tally
from keyveil.learn import postprocess
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.report_laws import OnePairSupports
from keyveil.robustness.detection import MOST_NUMBERS, about_a_key, binomial, law_of_numbers, parts_of

Floats = NDArray[np.float64]

SURE = 4.5  # standard deviations by which a number of keys is too frequent to be left in; below 1e-5 for each by chance


@dataclass(frozen=True, eq=False)
class Recovered:
    """Frequencies after recovery, by which method, and how many reports were left out for it."""

    method: Literal["constrained", "removal"]
    frequency: Floats
    left_out: int = 0

    def __str__(self) -> str:
        if self.method == "constrained":
            return "Recovered by constrained inference: right only if an attack raised more than it lowered."
        out = f"{self.left_out:,} reports were left out"
        return f"Recovered by removal: {out} whose number of keys noise does not explain."


def constrained(estimates: Estimates, mechanism: Mechanism) -> Recovered:
    """The closest frequencies that people can have."""
    return Recovered("constrained", postprocess.estimates("norm-sub", estimates, mechanism=mechanism).frequency.values)


def without_surplus(mechanism: Mechanism, sketched: Tally) -> Recovered:
    """Frequencies from the reports whose number of supported keys is as frequent as noise makes it.

    With C the numbers that are left in, every term of the law of a report is taken together with C; how many honest
    reports there are follows from how many are left in.
    """
    if not isinstance(mechanism, OnePairSupports):
        told = f"Which keys reports of {mechanism.title} support is no noise of a known law, so none can be left out."
        raise MechanismError("detect/no-sketch", told)
    rates, d = mechanism.one_pair_rates(), mechanism.schema.d
    numbers, _, by_number = parts_of(mechanism, sketched)
    kept = np.ones(d + 1, dtype=np.bool_)
    for _ in range(d):  # a surplus of one number lowers the share of all others: the largest first
        share = about_a_key(rates, np.where(kept, numbers, 0))[0] if not rates.always else 1.0
        law = law_of_numbers(rates, d, share)
        honest = numbers[kept].sum() / max(float(law[kept].sum()), 1e-12)
        score = (numbers - honest * law) / np.sqrt(np.maximum(honest * law, 1.0))
        worst = int(np.argmax(np.where(kept, score, -np.inf)))
        if score[worst] < SURE or np.count_nonzero(kept) <= 2:
            break
        kept[[worst] if worst < MOST_NUMBERS - 1 else slice(MOST_NUMBERS - 1, None)] = False
    rows = np.array([kept[min(row, d)] for row in range(MOST_NUMBERS)])
    supports = by_number[rows].sum(axis=0)

    def among(law: Floats) -> float:
        """The probability that one key more than this law gives is a number that is left in."""
        return float(law[kept[1 : 1 + len(law)]].sum())

    noise = binomial(d - 1, rates.other)
    others = np.convolve(binomial(d - 2, rates.other), (1 - rates.own, rates.own)) if d > 1 else np.ones(1)
    own, other, nobody = rates.own * among(noise), rates.other * among(others), rates.other * among(noise)
    about = (supports / honest - share * other - (1 - share) * nobody) / (own - other)
    return Recovered("removal", rates.scale * about, int(numbers[~kept].sum()))
