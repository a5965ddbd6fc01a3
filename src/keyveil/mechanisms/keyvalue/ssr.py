"""SSR: a set of symbols that meets what a person holds e^ε times as readily as one that does not.

The subset mechanism for sets, lifted to pairs of key and label; the default for up to some thousand keys. Dummies
fill up small records before the draw and are not sent. Derivation: docs/mechanisms/ssr.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from keyveil.core.epsilon import exp_floor
from keyveil.mechanisms.families.answer_size import points_pay
from keyveil.mechanisms.families.key_value import refused
from keyveil.mechanisms.families.set_response import BinnedSetResponse
from keyveil.mechanisms.families.subset_response import SubsetResponse

GOALS = ("both", "frequency", "mean")


@dataclass(frozen=True)
class SSR(SubsetResponse, BinnedSetResponse):
    """Weight e^ε on every subset that meets the held symbols, 1 on every other.

    Where ``bins`` are not given, the ``goal`` chooses the labels: for ``frequency`` signs, the fewest there are; for
    ``mean`` points (the schema's levels, or three) where they tell means better than signs, else signs; for ``both``
    the schema's levels, or signs. Once that is done the goal says nothing more, and stands at ``both``.
    """

    goal: str = "both"

    name: ClassVar[str] = "ssr"
    unsaid: ClassVar[frozenset[str]] = BinnedSetResponse.unsaid | SubsetResponse.unsaid

    def validate(self) -> None:
        if self.goal not in GOALS:
            raise refused(f"ssr takes the goal both, frequency or mean, not {self.goal!r}.")
        if self.goal != GOALS[0] and self.bins is None and self.rounding is None:
            levels = self.schema.most_levels
            pays = self.goal == "mean" and points_pay(self.schema.d, self.max_pairs, float(exp_floor(self.epsilon)))
            object.__setattr__(self, "bins", (levels or 3) if pays else 2 if levels else None)
        object.__setattr__(self, "goal", GOALS[0])
        super().validate()

    @property
    def few(self) -> dict[str, Any]:
        return {**super().few, "bins": self.few_bins}
