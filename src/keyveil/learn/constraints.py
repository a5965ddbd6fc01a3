"""What is known of the sum of frequencies, mechanism by mechanism (docs/theory.md, which sum).

Only where everybody holds exactly one key do frequencies sum to one. Sets sum to the mean set size, which some
reports tell and others do not; forcing the sum one upon them would shrink everything by about that size (D4).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from keyveil.core.errors import KeyveilError, MechanismError
from keyveil.core.estimates import Estimates
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.families.categorical import Categorical
from keyveil.mechanisms.keyvalue.pckv_grr import PCKVGRR
from keyveil.mechanisms.keyvalue.topsel_cover import TopSelCover
from keyveil.mechanisms.keyvalue.wsr import WSR
from keyveil.mechanisms.registry import find_mechanism


@dataclass(frozen=True)
class Constraint:
    """Frequencies lie in [0, upper]; they sum to ``total`` if that is known, and never to more than ``most``."""

    total: float | None = None
    most: float = math.inf
    upper: float | None = 1.0


def constraint_of(estimates: Estimates, total: float | None = None, mechanism: Mechanism | None = None) -> Constraint:
    """What holds for these frequencies; ``total`` is the mean set size if somebody knows it.

    The name of the mechanism tells most. ``mechanism`` adds its cap: people then hold no more than so many keys.
    """
    belongs(estimates, mechanism)
    if total is not None:
        if not 0 <= total <= estimates.schema.d:
            raise MechanismError(
                "postprocess/total", f"{estimates.schema.d} frequencies of at most 1 have no sum of {total:g}."
            )
        return Constraint(total=total, most=total)
    kind, cap = _kind(estimates, mechanism), float(getattr(mechanism, "max_pairs", estimates.schema.d))
    if kind is None:
        return Constraint()
    if issubclass(kind, Categorical):
        return Constraint(total=1.0, most=1.0)
    if issubclass(kind, WSR | PCKVGRR):
        # A report is one symbol or nothing, so the sum of the unbiased estimates is what the count of nothings says.
        told = min(max(float(estimates.frequency.values.sum()), 0.0), cap)
        return Constraint(total=told, most=told) if math.isfinite(told) else Constraint(most=cap)
    if isinstance(mechanism, TopSelCover):
        if mechanism.padding:
            return Constraint(most=float(mechanism.cover.law.largest))
        return Constraint(total=mechanism.cover.law.mean, most=mechanism.cover.law.mean)
    return Constraint(most=cap)


def belongs(estimates: Estimates, mechanism: Mechanism | None) -> None:
    """Refuse constants of a mechanism that these estimates do not come from."""
    if mechanism is not None and (mechanism.name, mechanism.schema, mechanism.epsilon) != (
        estimates.mechanism,
        estimates.schema,
        estimates.epsilon,
    ):
        raise MechanismError(
            "postprocess/mechanism",
            f"The estimates come from another mechanism, schema or ε than this {mechanism.name}.",
        )


def _kind(estimates: Estimates, mechanism: Mechanism | None) -> type[Mechanism] | None:
    if mechanism is not None:
        return type(mechanism)
    try:
        return find_mechanism(estimates.mechanism)
    except KeyveilError:  # a protocol, or somebody else's: nothing is known but the box
        return None
