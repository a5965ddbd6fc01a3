"""KVUE: randomised response on the state of one key (Sun et al. 2019).

The answer is absent, minus or plus, or with ``bins`` absent or a point of the value's range. Hard to beat for
frequencies near one half at small ε; for sparse sets the set responses are better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from keyveil.core.tally import Tally
from keyveil.mechanisms.families.binned import CELLS, REDUCED_BINS, Binned
from keyveil.mechanisms.families.key_value import REDUCED_KEYS
from keyveil.mechanisms.families.one_key import OneState
from keyveil.mechanisms.families.set_response import Odds


@dataclass(frozen=True)
class KVUE(Binned, OneState):
    """The true state of one key with weight e^ε, each other one with weight 1."""

    name: ClassVar[str] = "kvue"
    examples: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"bins": 4}, {"bins": 4, "rounding": CELLS})

    @property
    def signs(self) -> Sequence[int] | None:
        return (0, -1, 1) if self.labels.signed else None

    @property
    def reach(self) -> float:
        return 1 / self.schema.d

    def cell_odds(self) -> Sequence[Odds]:
        """One state is told, so never two labels."""
        own, other = (self.channel.probability(state, 1) for state in (1, 0))
        return (Odds(own, other, Fraction(0), Fraction(0)),) * self.schema.d

    def label_counts(self, tally: Tally) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        counts = self._own(tally)
        return counts[1:].T, counts.sum(axis=0)

    def reduced(self) -> Self:
        return replace(self, schema=self.schema.first(REDUCED_KEYS, REDUCED_BINS), bins=self.few_bins)
