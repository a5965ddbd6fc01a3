"""Who takes part: one mechanism of this project, chosen before anybody reports, and the published ones that may win.

The planner may take the place of ``least_predicted``: a ``Rule`` gets the people, an epsilon and the quantity that
matters, and returns the text of a contender.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from keyveil.core.errors import KeyveilError, MechanismError
from keyveil.core.schema import Schema
from keyveil.frames.population import Population
from keyveil.frames.truth import Truth
from keyveil.lab.contenders import APART, PAPER, VIRTUAL, Contender, contenders, with_best_caps
from keyveil.lab.predicted import Errors, predicted_errors, with_best_cap

QUANTITIES = ("frequency", "mean", "mean_top")
"""What is compared: errors of all frequencies, of all means, and of the means of the 20 most frequent keys."""

OURS = ("ssr", "wsr", "wheel", "topsel", "block", *APART)
_SPLIT = ("privkv", "f2m", "pckv-ue", "pckv-grr", "kv-sw")
PUBLISHED = (
    *("kvue", "kvoh", "ioh", "marginals", "collision", "krr-harmony", VIRTUAL),
    *(form for name in _SPLIT for form in (name, f"{name}:{PAPER}")),
)
"""Both splits where there are two; best caps come to those that have one."""

NEAR = 1.5  # times the least predicted error of the published, up to which a form is measured; predictions err by 10 %


@dataclass(frozen=True, eq=False)
class Setting:
    """The people of a cell, what is true of them, and epsilon."""

    schema: Schema
    people: Population
    truth: Truth
    epsilon: Fraction


Rule = Callable[[Setting, str], str]
"""From the people, an epsilon and a quantity to the contender that is to be collected with."""


def least_predicted(setting: Setting, quantity: str, among: Sequence[str] = OURS) -> str:
    """The contender of this project with the least predicted error of a quantity, in the spelling of a comparison.

    The prediction knows the true frequencies, means and set sizes: what a planner would be told as expectations.
    """
    found = {
        label: errors[quantity] for label, errors in predictions(setting, tuple(among)).items() if quantity in errors
    }
    if not found:
        raise MechanismError("compare/rule", f"Nobody of {', '.join(among)} predicts the error of {quantity} here.")
    return min(found, key=found.__getitem__)


def worth_measuring(setting: Setting) -> list[str]:
    """The published forms that may have the least error of some quantity.

    These are the forms whose predicted error is near the least one, and those that do not predict it.
    """
    known = predictions(setting, PUBLISHED)
    least = {
        quantity: min((errors[quantity] for errors in known.values() if quantity in errors), default=0.0)
        for quantity in QUANTITIES
    }
    return [
        label
        for label, errors in known.items()
        if any(quantity not in errors or errors[quantity] <= NEAR * least[quantity] for quantity in QUANTITIES)
    ]


@lru_cache(maxsize=4)  # some mechanisms take seconds to find their parameters, and every quantity asks for them
def predictions(setting: Setting, labels: tuple[str, ...]) -> dict[str, Errors]:
    """Contenders with their best caps and their predicted errors, without those that do not take the people.

    A form that comes out the same as one before it is left out.
    """
    found: dict[str, Errors] = {}
    seen = set[str]()
    for label, one in with_best_caps(contenders(labels)).items():
        try:
            capped = _capped(one, setting)
            made = capped.at(setting.epsilon, setting.schema, setting.people.sizes, {})
        except KeyveilError:
            continue
        if repr(made) not in seen:
            seen.add(repr(made))
            told = predicted_errors(made, setting.people, setting.truth) or {}
            found[label if capped is one else capped.label] = told
    return found


def _capped(one: Contender, setting: Setting) -> Contender:
    return with_best_cap(one, setting.epsilon, setting.schema, setting.people, setting.truth, {})
