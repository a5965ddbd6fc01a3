"""Estimates after post-processing, and the way back to the unbiased ones."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import Any

from keyveil.core.errors import MechanismError
from keyveil.core.estimates import Estimates
from keyveil.frames.results import from_exact
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

    def document(self, *, unit: bool = False, schema: bool = False) -> dict[str, Any]:
        """``Estimates.document``, and under ``postprocess`` the method, its constraint and the unbiased numbers."""
        most = self.constraint.most  # JSON has no infinity: null means no limit
        constraint = {**asdict(self.constraint), "most": most if math.isfinite(most) else None}
        processing = {"method": self.method, "constraint": constraint, "raw": self.raw.exact()}
        return {**super().document(unit=unit, schema=schema), "postprocess": processing}

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, {self.method})"


def read_processed(values: Estimates, document: Any) -> Processed:
    """The processed estimates that a document describes, given what it says under ``exact``."""
    processing = document["postprocess"]
    limits: dict[str, Any] = processing["constraint"]
    most = math.inf if limits["most"] is None else limits["most"]
    return Processed(
        **{field.name: getattr(values, field.name) for field in fields(Estimates)},
        method=processing["method"],
        raw=from_exact(values.header, processing["raw"]),
        constraint=Constraint(**{**limits, "most": most}),
    )


def unbiased(estimates: Estimates) -> Estimates:
    """What to compute with: the estimates before any post-processing. Refused where there are no frequencies."""
    raw = estimates.raw if isinstance(estimates, Processed) else estimates
    if raw.frequency.absent:
        raise MechanismError("estimate/no-frequency", raw.frequency.absent)
    return raw
