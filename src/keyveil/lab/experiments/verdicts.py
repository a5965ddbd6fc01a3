"""Verdicts: what the rules of an experiment's claims say of its results, form by form."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from keyveil.lab.experiments.results import Results
from keyveil.lab.experiments.rules import Finding
from keyveil.lab.experiments.shape import PUBLISHED, Claim

CONFIRMED, ONLY_PUBLISHED, NOT_CONFIRMED = "confirmed", "confirmed only as published", "not confirmed"
VERDICTS = (CONFIRMED, ONLY_PUBLISHED, NOT_CONFIRMED)


@dataclass(frozen=True)
class Verdict:
    """What is said of a claim, and the finding of its rule in every form that was run."""

    claim: Claim
    findings: Mapping[str, Finding]

    @property
    def word(self) -> str:
        """Confirmed if the rule holds as published and at equal true ε, in both splits of the budget."""
        if not self.findings[PUBLISHED].holds:
            return NOT_CONFIRMED
        return CONFIRMED if all(one.holds for one in self.findings.values()) else ONLY_PUBLISHED

    @property
    def why(self) -> str:
        """The finding that decided, in words."""
        decided = self.findings[PUBLISHED]
        form = PUBLISHED
        if decided.holds:
            form, decided = min(self.findings.items(), key=lambda one: (one[1].holds, one[1].z))
        if not math.isfinite(decided.gap):
            return f"{form}: {decided.text}"
        sure = "" if decided.holds else " (contradicted)" if decided.contradicted else " (undecided at this size)"
        return f"{form}: {decided.text}, gap {decided.gap:.3g} ± {decided.se:.2g}{sure}"

    def document(self) -> dict[str, Any]:
        return {
            "claim": self.claim.text,
            "verdict": self.word,
            "why": self.why,
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
        Verdict(claim, {form: claim.rule.judge(view) for form, view in views.items()}) for claim in experiment.claims
    )


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
