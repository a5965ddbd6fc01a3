"""Estimates after post-processing, and the way back to the unbiased ones."""

from __future__ import annotations

from dataclasses import dataclass

from keyveil.core.errors import MechanismError
from keyveil.core.estimates import Estimates
from keyveil.mechanisms.totals import Constraint


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Processed(Estimates):
    """Estimates after post-processing, with the unbiased ones as ``raw``.

    Changed values are flagged: "clipped" if they were put to a bound, "shrunk" if they were moved. They are biased and
    have no standard error; their interval is that of the unbiased estimate, which holds the truth as often as it says,
    widened where it does not hold the value. Base and Norm stay unbiased and have intervals of their own.
    """

    method: str
    raw: Estimates
    constraint: Constraint  # what was taken as known of the sum

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, {self.method})"


def unbiased(estimates: Estimates) -> Estimates:
    """What to compute with: the estimates before any post-processing. Refused where there are no frequencies."""
    raw = estimates.raw if isinstance(estimates, Processed) else estimates
    if raw.frequency.absent:
        raise MechanismError("estimate/no-frequency", raw.frequency.absent)
    return raw
