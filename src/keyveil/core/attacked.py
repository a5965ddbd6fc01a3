"""How far estimates could have been moved by people who send reports of their own choosing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from keyveil.core.columns import read_numbers, written_numbers

if TYPE_CHECKING:
    from keyveil.core.schema import Schema

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

Kind = Literal["bound", "largest found", "none"]
"""What limits are: proved; the largest change that a search found, which says nothing of others; or not estimated at
all."""

LIMITS = ("frequency_low", "frequency_high", "mean_low", "mean_high")


@dataclass(frozen=True, eq=False)
class Attacked:
    """The limits of all estimates that can come out if ``attackers`` of the reports are replaced by any valid ones.

    Frequencies are unclipped, means on [-1, 1] and cut to it. The limits say nothing about chance: that is what the
    intervals of the estimates are for.
    """

    schema: Schema
    attackers: int
    frequency_low: Floats
    frequency_high: Floats
    mean_low: Floats
    mean_high: Floats
    frequency_kind: Kind
    mean_kind: Kind

    def ranks(self, frequency: Floats) -> tuple[Ints, Ints]:
        """The best and the worst rank by frequency, from 1, that each key can get; keys are moved independently."""
        low, high = np.nan_to_num(self.frequency_low, nan=-np.inf), np.nan_to_num(self.frequency_high, nan=np.inf)
        falling, rising = np.sort(-low), np.sort(-high)
        best = 1 + np.searchsorted(falling, -high, side="left")
        worst = np.searchsorted(rising, -low, side="right")
        return best, np.maximum(worst, best)

    def columns(self, *, unit: bool = False) -> dict[str, Floats]:
        """The limits as columns beside the estimates; means in the schema's units, unless ``unit`` is set."""
        own = {name: getattr(self, name) for name in LIMITS}
        if not unit:
            own |= {name: self.schema.from_unit(own[name]) for name in ("mean_low", "mean_high")}
        return {name.replace("_", "_attacked_"): numbers for name, numbers in own.items()}

    def document(self, frequency: Floats) -> dict[str, Any]:
        """The limits as JSON: what they are, exact numbers on [-1, 1], and ranks."""
        best, worst = self.ranks(frequency)
        known = self.frequency_kind != "none"
        return {
            "attackers": self.attackers,
            "frequency_kind": self.frequency_kind,
            "mean_kind": self.mean_kind,
            **{name: written_numbers(getattr(self, name)) for name in LIMITS},
            "best_rank": best.tolist() if known else None,
            "worst_rank": worst.tolist() if known else None,
        }

    @classmethod
    def from_document(cls, document: Any, schema: Schema) -> Attacked:
        """What ``document`` wrote down."""
        low, high, mean_low, mean_high = (read_numbers(document[name]) for name in LIMITS)
        kinds = document["frequency_kind"], document["mean_kind"]
        return cls(schema, int(document["attackers"]), low, high, mean_low, mean_high, *kinds)

    def __str__(self) -> str:
        told = {
            "bound": "at most as far as the limits beside them",
            "largest found": "as far as the limits beside them, which a search found",
            "none": "nobody knows how far",
        }
        said = told[self.frequency_kind if self.frequency_kind != "none" else self.mean_kind]
        whom = "One crafted report" if self.attackers == 1 else f"{self.attackers:,} crafted reports"
        return f"{whom} could have moved these estimates {said}."

    def cell(self, which: str, at: int) -> str:
        """The limits of the frequency or the mean of one key, for a table; a dash where there are none."""
        columns = self.columns()
        low, high = (float(columns[f"{which}_attacked_{end}"][at]) for end in ("low", "high"))
        return "–" if np.isnan(low) or np.isnan(high) else f"[{low:.3f}, {high:.3f}]"
