"""Collision: every held symbol is hashed to one of a few cells, and the answer is one cell (Wang et al. 2021).

A baseline: the wheel with arcs of a single cell, on as few cells as the budget can tell apart.
Derivation: docs/mechanisms/collision.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from keyveil.core.epsilon import exp_floor
from keyveil.kernels.hashing import count_support
from keyveil.mechanisms.announcements import accepted_forms
from keyveil.mechanisms.base import Mechanism
from keyveil.mechanisms.families.answer_size import arc_variance
from keyveil.mechanisms.families.key_value import refused
from keyveil.mechanisms.families.set_response import REDUCED_PAIRS
from keyveil.mechanisms.keyvalue.wheel import MOST_CELLS, REDUCED_CELLS, Circle


@dataclass(frozen=True)
class Collision(Circle):
    """The cells that held symbols are hashed to, against the others; ``cells`` of least variance unless given."""

    cells: int | None = None

    name: ClassVar[str] = "collision"

    def validate(self) -> None:
        super().validate()
        if self.cells is None:
            most = min(MOST_CELLS, max(64, round(16 * self.max_pairs * (exp_floor(self.epsilon) + 2))))
            cells = np.arange(self.max_pairs + 1, most + 1)
            score = arc_variance(1 / cells, self.max_pairs, float(exp_floor(self.epsilon)))
            object.__setattr__(self, "cells", int(cells[np.argmin(score)]))
        if not self.max_pairs < self.circle <= MOST_CELLS:
            raise refused(f"collision takes from {self.max_pairs + 1} to {MOST_CELLS} cells, not {self.cells}.")

    @property
    def circle(self) -> int:
        assert self.cells is not None
        return self.cells

    @property
    def width(self) -> int:
        return 1

    def fold(self, payloads: NDArray[Any], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        return self.by_label(count_support(words, payloads, self.circle, self.symbols))

    def announced(self) -> frozenset[str]:
        return super().announced() | {"cells"}  # which are chosen by the cap

    def announced_forms(self) -> Sequence[Mechanism]:
        """Every cap with as few cells as it allows, and the largest cap with more of them."""
        d = self.schema.d
        pairs = [*((cap, cap + 1) for cap in range(1, d + 1)), (d, REDUCED_CELLS)]
        return [form for cap, cells in pairs for form in accepted_forms(self, max_pairs=[cap], cells=[cells])]

    def reduced(self) -> Self:
        few = min(self.max_pairs, REDUCED_PAIRS)
        return replace(self, schema=self.few_keys, max_pairs=few, cells=min(self.circle, REDUCED_CELLS))
