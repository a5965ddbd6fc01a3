"""Robustness against accuracy: how far attackers could move a frequency, beside its error, before anybody reports.

What m of n reports can do to an average depends on the mechanism alone, not on what people hold. So it is read off a
small collection in which nobody holds anything, with the same share of attackers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from keyveil.core.errors import KeyveilError, PlanError
from keyveil.core.records import Records
from keyveil.lab.coins import SeededCoins
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.registry import build
from keyveil.planning.people import People
from keyveil.planning.plan import Plan
from keyveil.planning.predict import predict
from keyveil.robustness.influence import influence

SMALL = 4000  # reports of the small collection: enough that every key is asked about by many
EPSILONS = ("0.5", "1", "2", "4")
KEPT = ("max_pairs", "overflow", "bins")  # options of a mechanism that do not follow from ε


@dataclass(frozen=True)
class Robustness:
    """Of one mechanism at one ε: the largest shift of a frequency in the middle of all keys, and its standard error."""

    name: str
    epsilon: str
    shift: float
    se: float

    def document(self) -> dict[str, Any]:
        return {"name": self.name, "epsilon": self.epsilon, "shift": self.shift, "se": self.se}


def shift_by(mechanism: Mechanism, share: float) -> float | None:
    """How far such a share of crafted reports can raise a frequency, in the middle of all keys; None if not known."""
    nothing = np.empty(0, dtype=np.int32)
    nobody = Records(np.zeros(SMALL + 1, dtype=np.int64), nothing, nothing, mechanism.schema.d)
    try:
        tally = mechanism.tally(mechanism.perturb_many(nobody, SeededCoins(0)))
        estimates = mechanism.estimate(tally)
        limits = influence(mechanism, tally, max(round(share * SMALL), 1), estimates)
    except KeyveilError:
        return None
    shift = float(np.nanmedian(limits.frequency_high - estimates.frequency.values))
    return shift * share * SMALL / max(round(share * SMALL), 1)


def robustness(plan: Plan, attackers: int, top: int) -> dict[str, float | None]:
    """The shift by so many attackers for the mechanisms of a plan, by name; protocols have none."""
    share = _share(plan.people, attackers)
    return {line.name: shift_by(line.mechanism, share) if line.protocol is None else None for line in plan.lines[:top]}


def over_epsilon(plan: Plan, attackers: int, top: int) -> list[Robustness]:
    """The same at four ε, beside the standard error: what a larger ε buys on both sides. Caps are those of the plan."""
    share, found = _share(plan.people, attackers), []
    for line in plan.lines[:top]:
        if line.protocol is not None:
            continue
        kept = {name: value for name, value in line.mechanism.options.items() if name in KEPT}
        for epsilon in EPSILONS:
            try:
                made = build(line.name, plan.schema, epsilon, kept)
                assert isinstance(made, Mechanism)
                se = float(np.median(predict(made, plan.people).frequency_se))
            except KeyveilError:
                continue
            shift = shift_by(made, share)
            if shift is not None:
                found.append(Robustness(line.name, epsilon, shift, se))
    return found


def _share(people: People, attackers: int) -> float:
    if not 0 <= attackers <= people.n:
        raise PlanError("attack/attackers", f"Of {people.n:,} people, 0 to {people.n:,} can attack, not {attackers:,}.")
    return attackers / people.n
