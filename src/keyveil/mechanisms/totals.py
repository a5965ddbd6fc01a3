"""What is known of the sum of all frequencies (docs/theory.md, which sum).

Only where everybody holds exactly one key do frequencies sum to one. Sets sum to the mean set size, which some
reports tell and others do not; forcing the sum one upon them would shrink everything by about that size (D4).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from keyveil.core.estimates import Estimates


@dataclass(frozen=True)
class Constraint:
    """Frequencies lie in [0, upper]; they sum to ``total`` if that is known, and never to more than ``most``."""

    total: float | None = None
    most: float = math.inf
    upper: float | None = 1.0
    always: bool = False  # the unbiased estimates have this total themselves, whatever the reports say


def told_sum(estimates: Estimates, cap: int) -> Constraint:
    """Where a report is one symbol or nothing: the sum of the unbiased estimates is what the count of nothings says."""
    told = min(max(float(estimates.frequency.values.sum()), 0.0), float(cap))
    return Constraint(total=told, most=told) if math.isfinite(told) else Constraint(most=float(cap))
