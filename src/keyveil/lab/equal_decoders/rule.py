"""Who takes part: one mechanism of this project, chosen before anybody reports, and the published ones that may win.

A ``Rule`` gets the people, an epsilon, the quantity that matters and the decoder, and returns what is to be collected
with. The planner, which lies above the laboratory, is such a rule.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from keyveil.core.errors import KeyveilError
from keyveil.core.schema import Schema
from keyveil.frames.population import Population
from keyveil.frames.truth import Truth
from keyveil.lab.contenders import PAPER, VIRTUAL, Contender, contenders, with_best_caps
from keyveil.lab.predicted import Errors, predicted_errors, with_best_cap
from keyveil.mechanisms.base import Mechanism

QUANTITIES = ("frequency", "mean", "mean_top")
"""What is compared: errors of all frequencies, of all means, and of the means of the 20 most frequent keys."""

OURS = ("ssr", "wsr", "wheel", "topsel", "block", "apart")
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


Rule = Callable[[Setting, str, str], str | Mechanism]
"""From the people and an epsilon, a quantity and a decoder to the contender that is to be collected with."""


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
