"""What is known of the sum of the frequencies behind estimates (docs/theory.md, which sum)."""

from __future__ import annotations

from keyveil.core.errors import MechanismError
from keyveil.core.estimates import Estimates
from keyveil.learn.source import source
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.capabilities import Capped, KnownTotal, can
from keyveil.mechanisms.totals import Constraint


def constraint_of(estimates: Estimates, total: float | None = None, mechanism: Mechanism | None = None) -> Constraint:
    """What holds for these frequencies; ``total`` is the mean set size if somebody knows it.

    Otherwise the mechanism says it; where it knows nothing of the sum but has a cap, people hold no more than so many
    keys. ``mechanism`` is needed only if it is not of the registry.
    """
    own = source(estimates, mechanism)
    if total is not None:
        if not 0 <= total <= estimates.schema.d:
            raise MechanismError(
                "postprocess/total", f"{estimates.schema.d} frequencies of at most 1 have no sum of {total:g}."
            )
        return Constraint(total=total, most=total)
    if own is None:  # of a protocol, or somebody else's: nothing is known but the box
        return Constraint()
    if (known := can(own, KnownTotal)) is not None:
        return known.constraint(estimates)
    capped, hidden = can(own, Capped), estimates.header.undercount
    if capped is None:
        return Constraint()
    return Constraint(most=capped.cap() / (1.0 if hidden is None else hidden.scale))  # what was corrected may exceed it
