"""Estimates after post-processing, and the way back to the unbiased ones."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np

from keyveil.core.errors import MechanismError
from keyveil.core.estimates import Estimates, Floats, Interval, worst
from keyveil.frames.results import from_exact
from keyveil.learn.methods import UNBIASED
from keyveil.mechanisms.totals import Constraint

SAME = 1e-12  # a value that moved by less did not move


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

    @property
    def lawful(self) -> Estimates:
        """The estimates whose errors have a law, which limits come from: the unbiased ones, but for ``bayes``."""
        return self if self.method == "bayes" else self.raw

    def selected(self, chosen: int | None = None) -> tuple[Floats, Floats]:
        """The limits of the unbiased estimates for keys that were chosen, as they stand beside processed values."""
        return super().selected(chosen) if self.lawful is self else self.beside(*self.raw.selected(chosen))

    def beside(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Limits of all unbiased frequencies, moved with unbiased values, else widened where they do not hold them."""
        values = self.frequency.values
        if self.method in UNBIASED:
            shift = values - self.raw.frequency.values
            return low + shift, high + shift
        return np.fmin(low, values), np.fmax(high, values)

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


def answered(estimates: Estimates, value: float, raw: Interval) -> Interval:
    """An answer whose value comes from processed estimates, beside the ``raw`` one from the unbiased estimates.

    The limits are those of the unbiased answer, which hold the truth as often as they say, widened where they do not
    hold the value. A value that was moved has no standard error and says so by a flag.
    """
    if not isinstance(estimates, Processed) or not math.isfinite(raw.value):
        return raw
    if estimates.method in UNBIASED:
        shift = value - raw.value
        return replace(raw, value=value, low=raw.low + shift, high=raw.high + shift)
    if estimates.method == "post-pos":
        value = max(raw.value, 0.0)
    if abs(value - raw.value) <= SAME:
        return raw
    flag = worst(raw.flag, "clipped" if estimates.method == "post-pos" else "shrunk")
    return Interval(value, min(raw.low, value), max(raw.high, value), math.nan, flag)


def unbiased(estimates: Estimates) -> Estimates:
    """What to compute with: the estimates before any post-processing. Refused where there are no frequencies."""
    raw = estimates.raw if isinstance(estimates, Processed) else estimates
    if raw.frequency.absent:
        raise MechanismError("estimate/no-frequency", raw.frequency.absent)
    return raw
