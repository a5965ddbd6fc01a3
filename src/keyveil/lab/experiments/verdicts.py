"""Verdicts: what the rules of an experiment's claims say of its results, form by form."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from keyveil.lab.experiments.findings import Finding
from keyveil.lab.experiments.results import Results
from keyveil.lab.experiments.shape import PUBLISHED, Claim

CONFIRMED, ONLY_PUBLISHED, NOT_CONFIRMED = "confirmed", "confirmed only as published", "not confirmed"
VERDICTS = (CONFIRMED, ONLY_PUBLISHED, NOT_CONFIRMED)
CONTRADICTED, OPEN = "contradicted", "left open"
"""What results say of a claim that does not hold in some form: the opposite, or nothing that exceeds its error."""


@dataclass(frozen=True)
class Verdict:
    """What is said of a claim, and the finding of its rule in every form that was run."""

    claim: Claim
    findings: Mapping[str, Finding]
    size: str = "quick"

    @property
    def word(self) -> str:
        """Confirmed if the rule holds as published and at equal true ε, in both splits of the budget."""
        if not self.findings[PUBLISHED].holds:
            return NOT_CONFIRMED
        return CONFIRMED if all(one.holds for one in self.findings.values()) else ONLY_PUBLISHED

    @property
    def _decided(self) -> tuple[str, Finding]:
        """The form that decided, and its finding."""
        decided = self.findings[PUBLISHED]
        if not decided.holds:
            return PUBLISHED, decided
        return min(self.findings.items(), key=lambda one: (one[1].holds, one[1].z))

    @property
    def standing(self) -> str:
        """Whether what does not hold is contradicted or left open; empty for what is confirmed."""
        _, decided = self._decided
        return "" if decided.holds else CONTRADICTED if decided.contradicted else OPEN

    @property
    def why(self) -> str:
        """The finding that decided, in words."""
        form, decided = self._decided
        if not math.isfinite(decided.gap):
            return f"{form}: {decided.text}"
        more = f" at {'full' if self.size == 'full' else 'this'} size" if self.standing == OPEN else ""
        sure = f" ({self.standing}{more})" if self.standing else ""
        return f"{form}: {decided.text}, gap {decided.gap:.3g} ± {decided.se:.2g}{sure}"

    @property
    def because(self) -> str:
        """Why it fails, as far as that is known; nothing explains what is confirmed or left open."""
        return self.claim.because if self.standing == CONTRADICTED else ""

    def document(self) -> dict[str, Any]:
        return {
            "claim": self.claim.text,
            "verdict": self.word,
            "standing": self.standing,
            "why": self.why,
            "because": self.because,
            "rule": type(self.claim.rule).__name__,
            "findings": {
                form: {"holds": one.holds, "gap": _number(one.gap), "se": _number(one.se), "text": one.text}
                for form, one in self.findings.items()
            },
        }


def verdicts(results: Results) -> tuple[Verdict, ...]:
    """A verdict for every claim of the experiment."""
    experiment = results.plan.experiment
    views = {form: results.view(form) for form in experiment.forms}
    return tuple(
        Verdict(claim, {form: claim.rule.judge(view) for form, view in views.items()}, results.plan.size.name)
        for claim in experiment.claims
    )


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
