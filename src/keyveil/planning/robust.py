"""Robustness against accuracy: how far attackers could move a frequency, beside its error, before anybody reports.

What m of n reports can do to an average depends on the mechanism alone, not on what people hold. So it is read off a
small collection in which nobody holds anything, with the same share of attackers. What an overflow group, or parts
whose answers are merged, can do depends on what people hold and on how many they are, so that there the people of the
plan are drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from keyveil.core.errors import KeyveilError, PlanError
from keyveil.core.records import Records
from keyveil.lab import datasets
from keyveil.lab.aggregate import aggregate
from keyveil.lab.coins import SeededCoins
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.reach import FromParts
from keyveil.mechanisms.registry import build
from keyveil.planning.people import People
from keyveil.planning.plan import Plan
from keyveil.planning.predict import predict
from keyveil.robustness.influence import influence

SMALL = 4000  # reports of the small collection: enough that every key is asked about by many
EPSILONS = ("0.5", "1", "2", "4")
DRAWN = 50_000  # people of the plan who are drawn at most
KEPT = ("max_pairs", "overflow", "bins", "rounding", "mode", "typical", "presence", "set_sizes", "padding", "groups")
"""Options that say what people are asked; all others may follow from ε."""


@dataclass(frozen=True)
class Robustness:
    """Of one mechanism at one ε: the largest shift of a frequency in the middle of all keys, and its standard error."""

    name: str
    epsilon: str
    shift: float
    se: float

    def document(self) -> dict[str, Any]:
        return {"name": self.name, "epsilon": self.epsilon, "shift": self.shift, "se": self.se}


def shift_by(mechanism: Mechanism, share: float, crowd: Records) -> float | None:
    """How far such a share of crafted reports can raise a frequency, in the middle of all keys; None if not known.

    ``crowd`` are people of the kind that is planned for.
    """
    drawn = isinstance(mechanism, FromParts) and crowd.n > 0
    records, coins = crowd if drawn else _nobody(mechanism.schema.d), SeededCoins(0)
    attackers = max(round(share * records.n), 1)
    try:
        tally = aggregate(mechanism, records, coins)
        estimates = mechanism.estimate(tally)
        limits = influence(mechanism, tally, attackers, estimates)
    except KeyveilError:
        return None
    shift = float(np.nanmedian(limits.frequency_high - estimates.frequency.values))
    return shift * share * records.n / attackers


def _nobody(d: int) -> Records:
    """People who hold nothing."""
    nothing = np.empty(0, dtype=np.int32)
    return Records(np.zeros(SMALL + 1, dtype=np.int64), nothing, nothing, d)


def _crowd(plan: Plan) -> Records:
    """Some of the people who are planned for; each key is held by itself."""
    people = plan.people
    drawn = datasets.independent(min(people.n, DRAWN), people.frequency, people.mean, 1, plan.schema.keys)
    return drawn.records(plan.schema)


def robustness(plan: Plan, attackers: int, top: int) -> dict[str, float | None]:
    """The shift by so many attackers for the mechanisms of a plan, by name; protocols have none."""
    share, crowd = _share(plan.people, attackers), _crowd(plan)
    lines = plan.lines[:top]
    return {one.name: shift_by(one.mechanism, share, crowd) if one.protocol is None else None for one in lines}


def over_epsilon(plan: Plan, attackers: int, top: int) -> list[Robustness]:
    """The same at four ε, beside the standard error: what a larger ε buys on both sides. Caps are those of the plan."""
    share, crowd, found = _share(plan.people, attackers), _crowd(plan), []
    for line in plan.lines[:top]:
        if line.protocol is not None:
            continue
        given = line.mechanism.options.items()
        kept = {name: value for name, value in given if name in KEPT and value is not None}
        for epsilon in EPSILONS:
            try:
                made = build(line.name, plan.schema, epsilon, kept)
                assert isinstance(made, Mechanism)
                se = float(np.median(predict(made, plan.people).frequency_se))
            except KeyveilError:
                continue
            shift = shift_by(made, share, crowd)
            if shift is not None:
                found.append(Robustness(line.name, epsilon, shift, se))
    return found


def _share(people: People, attackers: int) -> float:
    if not 0 <= attackers <= people.n:
        raise PlanError("attack/attackers", f"Of {people.n:,} people, 0 to {people.n:,} can attack, not {attackers:,}.")
    return attackers / people.n
